// PacketEngine: what the data paths of both daemons are made of: packet buffers, the TUN device,
// the receiver of datagrams, the driver of the sessions, and the sums that are reported. Which flow
// a packet is of and which socket a datagram takes is the daemon's. Data loop.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/dataplane/datagram_receiver.hpp"
#include "common/dataplane/figures.hpp"
#include "common/dataplane/recording.hpp"
#include "common/dataplane/session_driver.hpp"
#include "common/dataplane/tun_port.hpp"
#include "common/io/event_loop.hpp"
#include "common/packet/packet.hpp"
#include "common/session/scratch.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace continuo::dataplane {

struct PacketEngineSettings {
    size_t small_packets = 0;  // buffers
    size_t large_packets = 0;
    size_t max_kept_bytes = 0;      // of all sessions, to be sent again or put in order
    Recording recording;            // must outlive the engine
    InputQueues* inputs = nullptr;  // where datagrams wait for their turn; null: they do not
    SessionDriver::Clock clock{};   // see SessionDriver::set_clock
};

class PacketEngine {
  public:
    // All must outlive this.
    PacketEngine(io::EventLoop& loop,
                 const PacketEngineSettings& settings,
                 SocketDirectory& sockets,
                 SessionOwner& owner);
    PacketEngine(const PacketEngine&) = delete;
    PacketEngine& operator=(const PacketEngine&) = delete;
    ~PacketEngine();

    // Opens the TUN device. `on_readable` is called when it has packets, once read_packets() was.
    base::Result<void> open_tun(const std::string& device,
                                const io::TunOptions& options,
                                TunPort::Written on_written,
                                std::function<void()> on_readable);
    void read_packets() { tun_poller_->watch(true); }
    bool has_tun() const { return tun_port_.has_value(); }
    // Whether the device outlives this process. False: that could not be set.
    bool keep_device(bool is_kept) {
        return tun_device_.has_value() && tun_device_->set_persistent(is_kept).has_value();
    }
    TunPort& tun() { return *tun_port_; }
    const TunPort& tun() const { return *tun_port_; }

    // For new sessions.
    session::SessionScratch& scratch() { return scratch_; }
    base::MemoryBudget& kept_memory() { return kept_memory_; }
    const base::MemoryBudget& kept_memory() const { return kept_memory_; }

    void add(session::Session& session) { driver_.add(session); }
    // Its figures go on counting in the sums.
    void end(session::Session& session);
    // The session had an input: the next pump() polls it. go_on() pumps at once.
    void touch(session::Session& session) { driver_.touch(session); }
    void go_on(session::Session& session, base::TimePoint now);
    void pump(base::TimePoint now) { driver_.pump(now); }
    bool is_holding() const { return driver_.is_holding(); }
    // A flow ends: nothing more is counted for it.
    void forget(const flow::Flow& flow) { driver_.forget(flow); }

    DatagramReceiver& receiver() { return receiver_; }
    // Drops that belong to no session.
    base::DropCounters& drops() { return drops_; }
    const base::DropCounters& drops() const { return drops_; }

    // --- Sums of all sessions, those that are over, too
    report::ClassFigureTable sent() const;
    ReceivedFigures received() const;
    // With drops().
    base::DropCounters all_drops() const;
    const EndedSessions& ended() const { return ended_; }

  private:
    io::EventLoop& loop_;
    PacketRecorder* recorder_;
    base::DropCounters drops_;
    packet::PacketPool pool_;
    session::SessionScratch scratch_;
    base::MemoryBudget kept_memory_;
    std::optional<io::TunDevice> tun_device_;
    std::optional<TunPort> tun_port_;
    std::unique_ptr<io::Poller> tun_poller_;
    DatagramReceiver receiver_;
    SessionDriver driver_;
    EndedSessions ended_;
};

}  // namespace continuo::dataplane
