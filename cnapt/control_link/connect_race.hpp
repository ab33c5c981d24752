// ConnectRace: TCP connections to one SNAPT by several ways (Happy Eyeballs, RFC 8305). The next
// attempt starts kAttemptDelay after the previous one started or connected, or as soon as all have
// failed. A middlebox may accept a connection and say nothing, so connecting does not win (RFC 8305
// section 5 also counts a handshake on top of TCP): the owner ends the race by destroying it, or
// calls fail(). Belongs to the thread of its loop; may be destroyed in its own callbacks.
#pragma once

#include "cnapt/control_link/tcp_connect.hpp"
#include "common/base/time.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace continuo::cnapt::control_link {

// RFC 8305 section 8: Connection Attempt Delay.
inline constexpr base::Duration kAttemptDelay = base::milliseconds(250);
// RFC 6298 section 2: TCP's first time-out. An attempt that the network has dropped gets another
// SYN then; later the next one may be far off.
inline constexpr base::Duration kRepeatDelay = base::seconds(1);
// Further ways are left out.
inline constexpr size_t kMaxConnectWays = 8;

struct ConnectWay {
    base::Endpoint to;
    std::optional<ControlUplink> from;  // none: as the kernel routes
};

class ConnectRace {
  public:
    struct Events {
        // `number`: index of the way, for fail().
        std::function<void(io::UniqueFd fd, size_t number, const ConnectWay& way)> on_connected;
        // All ways have failed; `sys_errno` is the error of the first one, 0: it had connected.
        std::function<void(int sys_errno)> on_failed;
    };

    // Starts at once. `timeout`: for each attempt. on_failed is never called from here.
    ConnectRace(io::EventLoop& loop,
                std::vector<ConnectWay> ways,
                uint32_t fwmark,
                base::Duration timeout,
                Events events);
    ConnectRace(const ConnectRace&) = delete;
    ConnectRace& operator=(const ConnectRace&) = delete;
    ~ConnectRace() = default;

    const ConnectWay& first() const { return ways_.front(); }
    const std::vector<ConnectWay>& ways() const { return ways_; }  // the ways that it tries
    // One more way, at once. One that is tried already begins anew, unless it has connected or
    // began less than kRepeatDelay ago; beyond kMaxConnectWays it is left out.
    void add(ConnectWay way);
    // A way that had connected leads to no SNAPT. May call on_failed.
    void fail(size_t number);

  private:
    struct Attempt {
        io::UniqueFd fd;
        base::TimePoint began_at{};
        base::TimePoint give_up_at = base::kNever;
        int sys_errno = 0;                   // set when the connection has failed
        bool is_connected = false;           // and has not failed since
        std::unique_ptr<io::Poller> poller;  // last: gone before the descriptor
        bool is_open() const { return poller != nullptr || is_connected; }
    };

    void begin_next();
    void begin(size_t index);
    void on_writable(size_t index);
    static void fail(Attempt& attempt, int sys_errno);
    void on_timer();
    // Starts the next attempt if it is due and sets the timer; or reports that all have failed.
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

}  // namespace continuo::cnapt::control_link
