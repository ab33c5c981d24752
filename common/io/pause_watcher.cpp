#include "common/io/pause_watcher.hpp"

#include "common/base/assert.hpp"

#include <ctime>
#include <limits>
#include <utility>

#include <sys/timerfd.h>
#include <unistd.h>

namespace continuo::io {

using base::Duration;

Duration PauseWatcher::since_boot() {
    timespec time{};
    ::clock_gettime(CLOCK_BOOTTIME, &time);
    return base::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

PauseWatcher::PauseWatcher(EventLoop& loop, std::function<void(Duration)> on_pause, Clock clock)
    : loop_(loop)
    , on_pause_(std::move(on_pause))
    , clock_(std::move(clock))
    , ran_at_(clock_())
    , fd_(::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)) {
    CTN_ASSERT(fd_.is_open());
    loop_.on_clock_read([this] { look(); });
    poller_ = std::make_unique<Poller>(loop_, fd_.value(), [this] {
        uint64_t expirations = 0;
        static_cast<void>(::read(fd_.value(), &expirations, sizeof expirations));
        wait_for_clock_change();
    });
    poller_->watch(true);
    wait_for_clock_change();
}

PauseWatcher::~PauseWatcher() {
    loop_.on_clock_read({});
}

// Setting the wall clock cancels such a timer, and so does the end of a sleep (timerfd_create(2)):
// it only wakes the loop, look() does the rest.
void PauseWatcher::wait_for_clock_change() {
    itimerspec never{};
    never.it_value.tv_sec = std::numeric_limits<time_t>::max();
    ::timerfd_settime(fd_.value(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr);
}

void PauseWatcher::look() {
    const Duration at = clock_();
    const Duration pause = at - std::exchange(ran_at_, at);
    if (pause > kLongestUnnoticedPause) {
        on_pause_(pause);
    }
}

}  // namespace continuo::io
