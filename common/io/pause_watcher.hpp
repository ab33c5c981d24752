// PauseWatcher: tells a loop that it did not run for a while, because the host slept or the process
// was stopped: deadlines that have passed meanwhile say nothing of the network. Measured with
// CLOCK_BOOTTIME, which goes on in both cases; CLOCK_MONOTONIC, the loop's own clock, stops while
// the host sleeps. The end of a sleep wakes the loop.
#pragma once

#include "common/io/event_loop.hpp"

#include <functional>
#include <memory>

namespace continuo::io {

// The loop needs a deadline more often than that.
inline constexpr base::Duration kLongestUnnoticedPause = base::seconds(2);

class PauseWatcher {
  public:
    using Clock = std::function<base::Duration()>;
    // Since the host started, sleep included.
    static base::Duration since_boot();

    // `on_pause` is called on the loop, before whatever else the wake-up does; it must not destroy
    // anything that the loop may be about to call. One a loop, which must outlive this.
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
