// ConnectRace: TCP connections to one SNAPT by several ways (Happy Eyeballs, RFC 8305): the next
// begins kAttemptDelay after the one before began or connected, or as soon as all before have
// failed. What stands on the way may take a connection and say nothing, so one that connects has
// not won (RFC 8305 section 5 counts a handshake on top of TCP, too): its owner ends the race, by
// destroying it, or says fail(). Belongs to the thread of its loop; may be destroyed in its own
// calls back.
#pragma once

#include "cnapt/tcp_connect.hpp"
#include "common/base/time.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace continuo::cnapt {

// RFC 8305 section 8: Connection Attempt Delay.
inline constexpr base::Duration kAttemptDelay = base::milliseconds(250);
// Ways beyond these are left out.
inline constexpr size_t kMaxConnectWays = 8;

struct ConnectWay {
    base::Endpoint to;
    std::optional<ControlUplink> from;  // none: as the kernel routes
};

class ConnectRace {
  public:
    struct Events {
        // `number`: of the way, for fail().
        std::function<void(io::UniqueFd fd, size_t number, const ConnectWay& way)> on_connected;
        // All ways have failed; `sys_errno` is why the first one did, 0: it had connected.
        std::function<void(int sys_errno)> on_failed;
    };

    // Begins at once. `timeout`: of each attempt. on_failed is never called from here.
    ConnectRace(io::EventLoop& loop,
                std::vector<ConnectWay> ways,
                uint32_t fwmark,
                base::Duration timeout,
                Events events);
    ConnectRace(const ConnectRace&) = delete;
    ConnectRace& operator=(const ConnectRace&) = delete;
    ~ConnectRace() = default;

    const ConnectWay& first() const { return ways_.front(); }
    const std::vector<ConnectWay>& ways() const { return ways_; }  // that it tries
    // A way that had connected leads nowhere. May call on_failed.
    void fail(size_t number);

  private:
    struct Attempt {
        io::UniqueFd fd;
        base::TimePoint give_up_at = base::kNever;
        int sys_errno = 0;                   // of one that has failed
        bool is_connected = false;           // and has not failed since
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
        bool is_open() const { return poller != nullptr || is_connected; }
    };

    void begin_next();
    void on_writable(size_t index);
    static void fail(Attempt& attempt, int sys_errno);
    void on_timer();
    // Begins the next attempt if it is due, and sets the timer; or tells that all have failed.
    void go_on();

    io::EventLoop& loop_;
    std::vector<ConnectWay> ways_;
    uint32_t fwmark_;
    base::Duration timeout_;
    Events events_;
    std::vector<Attempt> attempts_;  // in the order of ways_
    base::TimePoint next_at_{};
    io::DeadlineTimer timer_;
};

}  // namespace continuo::cnapt
