// SessionDriver: polls the sessions of one loop after their inputs, at their deadlines and when
// sockets drain. Touch a session after every input, pump once when the wake-up's inputs are all in.
#pragma once

#include "common/dataplane/batch_sender.hpp"
#include "common/io/event_loop.hpp"

#include <vector>

namespace continuo::dataplane {

class SessionDriver {
  public:
    // All must outlive this.
    SessionDriver(io::EventLoop& loop, SocketDirectory& sockets, base::DropCounters& drops);
    SessionDriver(const SessionDriver&) = delete;
    SessionDriver& operator=(const SessionDriver&) = delete;
    ~SessionDriver();

    void add(session::Session& session);
    void remove(session::Session& session);
    void touch(session::Session& session);
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
    void poll_touched(base::TimePoint now);
    void poll(session::Session& session, base::TimePoint now);
    void set_rooms(session::Session& session);
    void wake_waiting();

    io::EventLoop& loop_;
    BatchSender sender_;
    io::DeadlineTimer timer_;
    std::vector<session::Session*> heap_;
    std::vector<session::Session*> touched_;
    std::vector<session::Session*> polling_;
    std::vector<session::Session*> waiting_;  // that were polled while a path had no room
};

}  // namespace continuo::dataplane
