// PacketEngine: what the data loops of both daemons have in common. It owns the packet buffers, the
// TUN device, the receiver of datagrams, the driver of the sessions, the sessions' scratch memory
// and the sums over them. Flows, sockets and sessions are the daemon's: it reads the TUN device and
// its sockets through tun() and receiver(), and is itself the SocketDirectory and SessionHost. It
// adds no virtual call, allocation or lock to the way of a packet. Owner and thread: the data loop.
//
// Lifetimes: a daemon declares it before its flow table and sessions, whose packets, counters and
// memory are of this. Each session is added after its construction and ended before its
// destruction.
#pragma once

#include "common/dataplane/datagram_queue.hpp"
#include "common/dataplane/datagram_receiver.hpp"
#include "common/dataplane/figures.hpp"
#include "common/dataplane/session_driver.hpp"
#include "common/dataplane/tun_port.hpp"

#include <functional>
#include <memory>
#include <string>

namespace continuo::dataplane {

struct EngineSettings {
    size_t small_packets = 0;                        // buffers of the pool
    size_t large_packets = 0;                        // the same, for super-packets
    size_t max_kept_bytes = session::kMaxKeptBytes;  // all sessions' together
    record::PacketRecorder* recorder = nullptr;      // null: nothing is recorded
};

class PacketEngine {
  public:
    // All but `settings` must outlive this, and settings.recorder too; `sockets` is only kept.
    // `inputs`: the daemon keeps datagrams (DatagramReceiver::keep).
    PacketEngine(io::EventLoop& loop,
                 SocketDirectory& sockets,
                 base::DropCounters& drops,
                 const EngineSettings& settings,
                 turns::InputQueues* inputs = nullptr);
    PacketEngine(const PacketEngine&) = delete;
    PacketEngine& operator=(const PacketEngine&) = delete;
    ~PacketEngine();

    // Called when the TUN device has packets: the daemon reads them, then calls pump().
    using TunReadable = std::function<void()>;
    // Opens the TUN device; it is read after watch_tun(). Once.
    base::Result<void> open_tun(const std::string& device,
                                const host::TunOptions& options,
                                TunPort::Written on_written,
                                TunReadable on_readable);
    void watch_tun() { tun_poller_->watch(true); }
    // Makes the device outlive this process, or not. False: that could not be set.
    bool keep_tun(bool is_kept) {
        return tun_ != nullptr && tun_->set_persistent(is_kept).has_value();
    }

    // --- Sessions
    void add(tunnel::Session& session) { driver_.add(session); }
    // Its figures stay in the sums.
    void end(tunnel::Session& session);
    // After every input of a session; pump() once after all inputs of a wake-up.
    void touch(tunnel::Session& session) { driver_.touch(session); }
    void pump(base::TimePoint now) { driver_.pump(now); }
    void pump() { driver_.pump(loop_.now()); }

    // A flow has ended, after flush(flow): what still leaves is not counted for it.
    void forget(const flow::Flow& flow) { driver_.forget(flow); }

    // --- To the kernel. All but flush() need an open device.
    // A restored segment of `flow`, after it was counted.
    void deliver(const packet::HeaderFields& fields, base::ByteView payload, flow::Flow& flow) {
        tun_port_->coalescer().add(fields, payload, &flow);
    }
    // A whole packet of `flow`; its payload begins at `payload_offset`.
    void deliver_whole(base::ByteView packet, size_t payload_offset, flow::Flow& flow);
    // A packet that this host made, of no flow.
    void answer(base::ByteView packet) { tun_port_->write_packet(packet, nullptr, 0); }
    // Segments that wait for more of their flow.
    void flush() {
        if (tun_port_ != nullptr) {
            tun_port_->coalescer().flush();
        }
    }
    // Waiting segments of `flow`.
    void flush(const flow::Flow& flow) {
        if (tun_port_ != nullptr) {
            tun_port_->coalescer().flush(&flow);
        }
    }

    // --- For the daemon's SocketDirectory
    void on_too_big(const session::TransmitItem& item);
    // Into the session's TCP connection, whose port here is `local_port` (0: not known).
    bool send_stream(const StreamPort& stream,
                     const session::TransmitItem& item,
                     base::ByteView bytes,
                     uint16_t local_port);

    // --- Parts
    bool is_open() const { return tun_port_ != nullptr; }
    TunPort& tun() { return *tun_port_; }
    const TunPort& tun() const { return *tun_port_; }
    DatagramReceiver& receiver() { return receiver_; }
    SessionDriver& driver() { return driver_; }
    packet::PacketPool& pool() { return pool_; }
    session::SessionScratch& scratch() { return scratch_; }
    base::MemoryBudget& kept_memory() { return kept_memory_; }
    const base::MemoryBudget& kept_memory() const { return kept_memory_; }

    // --- Sums over all sessions, including ended ones; linear in sessions
    const EndedSessions& ended() const { return ended_; }
    // Drops of the daemon and of all sessions.
    base::DropCounters all_drops() const;
    report::ClassFigureTable sent() const;
    ReceivedFigures received() const;

  private:
    io::EventLoop& loop_;
    base::DropCounters& drops_;
    record::PacketRecorder* recorder_;
    packet::PacketPool pool_;
    session::SessionScratch scratch_;
    base::MemoryBudget kept_memory_;
    std::unique_ptr<host::TunDevice> tun_;
    std::unique_ptr<TunPort> tun_port_;
    std::unique_ptr<io::Poller> tun_poller_;
    DatagramReceiver receiver_;
    SessionDriver driver_;
    EndedSessions ended_;
};

}  // namespace continuo::dataplane
