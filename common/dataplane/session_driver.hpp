// SessionDriver: polls the sessions of one loop after their inputs, at their deadlines and when
// sockets drain. Touch a session after every input, pump once when the wake-up's inputs are all in.
// Sessions that have much to send take turns.
#pragma once

#include "common/dataplane/batch_sender.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <vector>

namespace continuo::dataplane {

// With a clock: the bytes a session adds before the next one with something to send has its turn,
// and how long pump() works before it leaves the rest to the next wake-up.
inline constexpr size_t kSendTurnBytes = size_t{128} * 1024;
// The same of a session that alone has something to send: about what a batch holds.
inline constexpr size_t kSoleTurnBytes = size_t{384} * 1024;
inline constexpr base::Duration kPumpTime = base::microseconds(500);

// Told in pump(), of sessions that were touched or due. It may change what paths do and touch
// sessions; it must not pump, nor end a session.
class SessionOwner {
  public:
    virtual ~SessionOwner() = default;
    virtual void on_event(session::Session& session,
                          const session::SessionEvent& event,
                          base::TimePoint now) = 0;
};

class SessionDriver {
  public:
    using Clock = std::function<base::TimePoint()>;

    // All must outlive this.
    SessionDriver(io::EventLoop& loop,
                  SocketDirectory& sockets,
                  SessionOwner& owner,
                  base::DropCounters& drops);
    SessionDriver(const SessionDriver&) = delete;
    SessionDriver& operator=(const SessionDriver&) = delete;
    ~SessionDriver();

    void add(session::Session& session);
    void remove(session::Session& session);
    void touch(session::Session& session);
    // Calls `visit(const session::Session&)` for each that was added.
    template <typename Visit>
    void each(const Visit& visit) const {
        for (const session::Session* session : heap_) {
            visit(*session);
        }
    }
    // Time as it passes, by which the work of a wake-up is bounded; without it, it is not.
    void set_clock(Clock clock) { clock_ = std::move(clock); }
    // Polls touched and due sessions and sends. While a socket is full nothing is sealed for paths
    // that lead there; the sessions' other paths, and other sessions, go on.
    void pump(base::TimePoint now);
    // True while a full socket keeps datagrams waiting.
    bool is_holding() const { return sender_.is_holding(); }
    // A flow ends: nothing more is counted for it.
    void forget(const flow::Flow& flow) { sender_.forget(flow); }
    void record_to(PacketRecorder* recorder) { sender_.record_to(recorder); }

  private:
    // A binary heap of the sessions by deadline; each knows its place, so an update allocates
    // nothing.
    void set_deadline(session::Session& session, base::TimePoint at);
    void sift_up(size_t at);
    void sift_down(size_t at);
    void place(size_t at, session::Session* session);
    void run_due(base::TimePoint now);
    void tell_events(base::TimePoint now);
    void poll_touched(base::TimePoint now);
    bool poll(session::Session& session, base::TimePoint now);
    bool is_pumping_for_long() const { return clock_ && clock_() >= pump_until_; }
    void set_rooms(session::Session& session);
    void wake_waiting();

    io::EventLoop& loop_;
    SessionOwner& owner_;
    BatchSender sender_;
    io::DeadlineTimer timer_;
    std::vector<session::Session*> heap_;
    std::vector<session::Session*> touched_;
    std::vector<session::Session*> polling_;
    std::vector<session::Session*> again_;  // that have more to send, in their order
    Clock clock_;
    base::TimePoint pump_until_{};
    bool has_more_ = false;                   // left over when the time was up
    std::vector<session::Session*> waiting_;  // that were polled while a path had no room
};

}  // namespace continuo::dataplane
