// SessionDriver: polls the sessions of one loop after their inputs, at their deadlines and when
// sockets drain. Touch a session after every input, and pump once after all inputs of a wake-up.
// Sessions with much to send take turns.
#pragma once

#include "common/dataplane/batch_sender.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <span>
#include <vector>

namespace continuo::dataplane {

// With a clock: bytes that a session may add before the next one has its turn, and how long pump()
// works before it leaves the rest to the next wake-up.
inline constexpr size_t kSendTurnBytes = size_t{128} * 1024;
// The same for the only session with data to send: about a full batch.
inline constexpr size_t kSoleTurnBytes = size_t{384} * 1024;
inline constexpr base::Duration kPumpTime = base::microseconds(500);

class SessionDriver {
  public:
    using Clock = std::function<base::TimePoint()>;

    // All must outlive this.
    SessionDriver(io::EventLoop& loop, SocketDirectory& sockets, base::DropCounters& drops);
    SessionDriver(const SessionDriver&) = delete;
    SessionDriver& operator=(const SessionDriver&) = delete;
    ~SessionDriver();

    void add(tunnel::Session& session);
    void remove(tunnel::Session& session);
    void touch(tunnel::Session& session);
    // Clock that bounds the work of a wake-up; without it there is no bound.
    void set_clock(Clock clock) { clock_ = std::move(clock); }
    // Polls touched and due sessions, and sends. While a socket is full nothing is sealed for paths
    // that use it; the sessions' other paths, and other sessions, go on.
    void pump(base::TimePoint now);
    // True while datagrams wait for a full socket.
    bool is_holding() const { return sender_.is_holding(); }
    // A flow ends: nothing more is counted for it.
    void forget(const flow::Flow& flow) { sender_.forget(flow); }
    void record_to(record::PacketRecorder* recorder) { sender_.record_to(recorder); }
    // In no particular order; valid until the next call.
    std::span<tunnel::Session* const> sessions() const { return heap_; }

  private:
    // A binary heap of the sessions by deadline; each knows its place, so an update allocates
    // nothing.
    void set_deadline(tunnel::Session& session, base::TimePoint at);
    void sift_up(size_t at);
    void sift_down(size_t at);
    void place(size_t at, tunnel::Session* session);
    void run_due(base::TimePoint now);
    void poll_touched(base::TimePoint now);
    bool poll(tunnel::Session& session, base::TimePoint now);
    bool is_pumping_for_long() const { return clock_ && clock_() >= pump_until_; }
    void set_rooms(tunnel::Session& session);
    void wake_waiting();

    io::EventLoop& loop_;
    BatchSender sender_;
    io::DeadlineTimer timer_;
    std::vector<tunnel::Session*> heap_;
    std::vector<tunnel::Session*> touched_;
    std::vector<tunnel::Session*> polling_;
    std::vector<tunnel::Session*> again_;  // they have more to send; in their order
    Clock clock_;
    base::TimePoint pump_until_{};
    bool has_more_ = false;                  // left over when the time was up
    std::vector<tunnel::Session*> waiting_;  // they were polled while a path had no room
};

}  // namespace continuo::dataplane
