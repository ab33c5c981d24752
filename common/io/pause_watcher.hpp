// PauseWatcher: tells a loop that it did not run for a while, because the host slept or the process
// was stopped: deadlines missed meanwhile say nothing about the network. Measured with
// CLOCK_BOOTTIME, which goes on in both cases; CLOCK_MONOTONIC, the loop's own clock, stops while
// the host sleeps. The end of a sleep wakes the loop.
#pragma once

#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>

namespace continuo::io {

// The loop has a deadline more often than this.
inline constexpr base::Duration kLongestUnnoticedPause = base::seconds(2);

class PauseWatcher {
  public:
    using Clock = std::function<base::Duration()>;
    // Time since the host started, including sleep.
    static base::Duration since_boot();

    // `on_pause` is called on the loop, before the rest of the wake-up; it must not destroy
    // anything that the loop may be about to call. One per loop, which must outlive this.
    PauseWatcher(EventLoop& loop,
                 std::function<void(base::Duration)> on_pause,
                 Clock clock = since_boot);
    PauseWatcher(const PauseWatcher&) = delete;
    PauseWatcher& operator=(const PauseWatcher&) = delete;
    ~PauseWatcher();

  private:
    void look();
    void wait_for_clock_change();

    EventLoop& loop_;
    std::function<void(base::Duration)> on_pause_;
    Clock clock_;
    base::Duration ran_at_{};
    UniqueFd fd_;
    std::unique_ptr<Poller> poller_;  // last: gone before the descriptor
};

}  // namespace continuo::io
