#include "common/io/event_loop.hpp"

#include "common/base/assert.hpp"
#include "common/io/cpu_pressure.hpp"
#include "common/io/spin_advice.hpp"
#include "common/io/uv_handle.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <deque>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include <sched.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace continuo::io {

using base::Duration;
using base::kNever;
using base::TimePoint;

namespace {

// Consecutive errors after which a descriptor is given up.
constexpr unsigned kMaxPollErrors = 64;

// Most posted functions run per iteration; the rest waits so that descriptors have their turn.
constexpr Duration kPostedTime = base::microseconds(500);

// If another program used the offered processor for this long, it is needed.
constexpr Duration kContended = base::microseconds(700);

TimePoint read_clock() {
    return std::chrono::steady_clock::now();
}

}  // namespace

struct EventLoop::Inner {
    struct None {};

    uv_loop_t loop{};
    std::unique_ptr<UvHandle<uv_async_t, Inner*>> wake_up;
    std::unique_ptr<UvHandle<uv_prepare_t, Inner*>> before_wait;

    TimePoint now{};
    TimePoint began{};  // begin of this iteration
    bool is_awake = false;
    std::function<void()> on_clock_read;
    Counters counters;

    std::mutex mutex;  // guards the two below
    std::deque<std::function<void()>> posted;
    uint64_t refused_posts = 0;
    std::deque<std::function<void()>> running;
    std::atomic<bool> stopping = false;
    bool is_stopped = false;  // ends run()

    SpinAdvice spin;
    WaitedForProcessor waited_for_processor;
    // State of this iteration: whose callback runs, and what it has moved.
    const void* serving = nullptr;
    const void* mover = nullptr;
    bool has_other_movers = false;
    size_t moved = 0;                    // bytes
    TimePoint ended{};                   // the iteration before
    const void* moved_before = nullptr;  // descriptor of the last wake-up that moved anything
    TimePoint moved_at{};
    int steady = 0;  // such wake-ups that were steady
    Duration wanted_rest{};
    bool has_rested = false;

    // Every callback of ours starts with it, so that the watchdog covers the whole iteration.
    void begin() {
        if (!is_awake) {
            is_awake = true;
            began = read();
        }
    }
    void begin_serving(const void* descriptor) {
        begin();
        serving = descriptor;
    }
    void note_moved(size_t bytes) {
        if (bytes > 0) {
            has_other_movers =
                has_other_movers || serving == nullptr || (mover != nullptr && mover != serving);
            mover = serving;
            moved += bytes;
        }
    }
    TimePoint read() {
        now = read_clock();
        if (on_clock_read) {
            on_clock_read();
        }
        return now;
    }
    // Ends the iteration before the loop waits. False if nothing was done in it.
    bool end_iteration() {
        if (!is_awake) {
            return false;
        }
        is_awake = false;
        if (moved > 0) {
            const void* only = has_other_movers ? nullptr : mover;
            spin.note_moved(only, moved, began - ended);
            note_steady(only);
        }
        if (steady < kSteadyWakeUps) {
            wanted_rest = {};
        }
        mover = nullptr;
        has_other_movers = false;
        has_rested = false;
        moved = 0;
        ended = read_clock();
        const Duration took = ended - began;
        ++counters.iterations;
        counters.slow_iterations += took > kSlowIteration ? 1U : 0U;
        counters.longest = std::max(counters.longest, took);
        return true;
    }
    // Without the kernel's pressure information nobody spins.
    void ask_for_pressure() {
        if (const auto waited = waited_for_processor()) {
            spin.note_pressure(*waited, ended);
        } else {
            spin.set_limit({});
        }
    }
    void spin_after_work() {
        if (spin.is_asking(ended)) {
            ask_for_pressure();
        }
        TimePoint before = ended;
        TimePoint until = before + spin.limit();
        while (!is_stopped && spin.is_worth_while(before)) {
            ::sched_yield();
            const TimePoint after = read_clock();
            if (after - before > kContended) {
                spin.note_contended(after);
            }
            before = after;
            uv_run(&loop, UV_RUN_NOWAIT);
            if (end_iteration()) {
                ++counters.spin_hits;
                spin.note_spun(true, ended);
                before = ended;
                until = before + spin.limit();
            } else if (before >= until) {
                spin.note_spun(false, before);
                return;
            }
        }
    }
    void note_steady(const void* descriptor) {
        const bool is_next =
            descriptor != nullptr && descriptor == moved_before && began - moved_at <= kSteadyGap;
        steady = is_next ? std::min(steady + 1, kSteadyWakeUps) : 0;
        moved_before = descriptor;
        moved_at = began;
    }
    void rest_after_work() {
        const Duration length = std::exchange(wanted_rest, Duration{});
        if (length > Duration::zero() && !is_stopped) {
            const timespec span{0, std::min<Duration>(length, kLongestRest).count()};
            ::nanosleep(&span, nullptr);
            ++counters.rests;
            has_rested = true;
        }
    }
    bool has_posted() {
        const std::lock_guard lock(mutex);
        return !posted.empty();
    }
    void run_posted() {
        // Read first: functions posted before stop() run before the loop ends.
        const bool is_stopping = stopping.exchange(false);
        const TimePoint until = read_clock() + kPostedTime;
        {
            const std::lock_guard lock(mutex);
            if (running.empty()) {
                running.swap(posted);
            } else if (is_stopping) {
                std::move(posted.begin(), posted.end(), std::back_inserter(running));
                posted.clear();
            }
        }
        while (!running.empty() && (is_stopping || read_clock() < until)) {
            const std::function<void()> function = std::move(running.front());
            running.pop_front();
            function();
        }
        if (!running.empty() || has_posted()) {
            uv_async_send(wake_up->handle());
        }
        if (is_stopping) {
            is_stopped = true;
            uv_stop(&loop);
        }
    }
};

EventLoop::EventLoop() : inner_(std::make_unique<Inner>()) {
    CTN_ASSERT(uv_loop_init(&inner_->loop) == 0);
    inner_->wake_up = std::make_unique<UvHandle<uv_async_t, Inner*>>();
    inner_->wake_up->state() = inner_.get();
    CTN_ASSERT(uv_async_init(&inner_->loop, inner_->wake_up->handle(), [](uv_async_t* handle) {
                   auto& box = UvHandle<uv_async_t, Inner*>::box_of(handle);
                   if (!box.closing) {
                       box.state->begin_serving(nullptr);
                       box.state->run_posted();
                   }
               }) == 0);
    inner_->before_wait = std::make_unique<UvHandle<uv_prepare_t, Inner*>>();
    inner_->before_wait->state() = inner_.get();
    uv_prepare_init(&inner_->loop, inner_->before_wait->handle());
    uv_prepare_start(inner_->before_wait->handle(), [](uv_prepare_t* handle) {
        auto& box = UvHandle<uv_prepare_t, Inner*>::box_of(handle);
        if (!box.closing) {
            box.state->end_iteration();
        }
    });
}

EventLoop::~EventLoop() {
    inner_->wake_up.reset();
    inner_->before_wait.reset();
    // Two rounds run all close callbacks; a handle still open then has outlived its loop.
    uv_run(&inner_->loop, UV_RUN_NOWAIT);
    uv_run(&inner_->loop, UV_RUN_NOWAIT);
    CTN_ASSERT(uv_loop_close(&inner_->loop) == 0);
}

void EventLoop::run() {
    Inner& inner = *inner_;
    inner.is_stopped = false;
    while (!inner.is_stopped) {
        uv_run(&inner.loop, UV_RUN_ONCE);
        inner.end_iteration();
        inner.rest_after_work();
        inner.spin_after_work();
    }
}

void EventLoop::set_spin(Duration spin, WaitedForProcessor waited) {
    CTN_ASSERT(spin >= Duration::zero() && spin <= base::microseconds(kMaxSpinUs));
    inner_->spin.set_limit(spin);
    if (!waited && spin > Duration::zero()) {
        waited = [pressure = std::make_shared<CpuPressure>()] { return pressure->waited(); };
    }
    inner_->waited_for_processor = std::move(waited);
}

void EventLoop::note_moved(size_t bytes) {
    inner_->note_moved(bytes);
}

bool EventLoop::is_steady() const {
    return inner_->steady == kSteadyWakeUps;
}

void EventLoop::rest(Duration length) {
    inner_->wanted_rest = length;
}

bool EventLoop::has_rested() const {
    return inner_->has_rested;
}

bool EventLoop::run_until(const std::function<bool()>& done, Duration timeout) {
    bool expired = false;
    DeadlineTimer timer(*this, [&expired] { expired = true; });
    timer.set(read_clock() + timeout);
    while (!done()) {
        if (expired) {
            return false;
        }
        uv_run(&inner_->loop, UV_RUN_ONCE);
        inner_->end_iteration();
    }
    return true;
}

void EventLoop::stop() {
    inner_->stopping = true;
    uv_async_send(inner_->wake_up->handle());
}

bool EventLoop::post(std::function<void()> function) {
    {
        const std::lock_guard lock(inner_->mutex);
        if (inner_->posted.size() >= kMaxPostedFunctions) {
            ++inner_->refused_posts;
            return false;
        }
        inner_->posted.push_back(std::move(function));
    }
    uv_async_send(inner_->wake_up->handle());
    return true;
}

TimePoint EventLoop::now() {
    inner_->begin();
    return inner_->now;
}

TimePoint EventLoop::clock() {
    return read_clock();
}

TimePoint EventLoop::refresh_now() {
    inner_->begin();
    return inner_->read();
}

void EventLoop::on_clock_read(std::function<void()> callback) {
    inner_->on_clock_read = std::move(callback);
}

EventLoop::Counters EventLoop::counters() const {
    Counters counters = inner_->counters;
    const std::lock_guard lock(inner_->mutex);
    counters.refused_posts = inner_->refused_posts;
    return counters;
}

uv_loop_t* EventLoop::native() {
    return &inner_->loop;
}

struct Poller::Inner {
    struct State {
        EventLoop::Inner* loop = nullptr;
        Callback on_readable;
        Callback on_writable;
        int events = 0;
        unsigned errors = 0;
    };
    using Handle = UvHandle<uv_poll_t, State>;

    Handle handle;

    static void on_event(uv_poll_t* poll, int status, int events) {
        auto& box = Handle::box_of(poll);
        if (box.closing) {
            return;
        }
        State& state = box.state;
        state.loop->begin_serving(poll);
        const bool failed = status < 0;
        if (!failed) {
            state.errors = 0;
        } else if (state.errors < kMaxPollErrors) {
            // libuv stops at EPOLLERR, which for a socket is an error that the next read clears.
            ++state.errors;
            uv_poll_start(poll, state.events, on_event);
        }
        if ((failed || (events & UV_READABLE) != 0) && state.on_readable) {
            state.on_readable();
        }
        if (!box.closing && (failed || (events & UV_WRITABLE) != 0) && state.on_writable) {
            state.on_writable();
        }
    }
};

Poller::Poller(EventLoop& loop, int fd, Callback on_readable, Callback on_writable)
    : inner_(std::make_unique<Inner>()) {
    CTN_ASSERT(uv_poll_init(loop.native(), inner_->handle.handle(), fd) == 0);
    inner_->handle.state() =
        Inner::State{loop.inner_.get(), std::move(on_readable), std::move(on_writable), 0, 0};
}

Poller::~Poller() = default;

void Poller::watch(bool readable, bool writable) {
    const int events = (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0);
    int& current = inner_->handle.state().events;
    if (events == current) {
        return;
    }
    current = events;
    if (events == 0) {
        uv_poll_stop(inner_->handle.handle());
    } else {
        CTN_ASSERT(uv_poll_start(inner_->handle.handle(), events, Inner::on_event) == 0);
    }
}

bool Poller::is_watching_writable() const {
    return (inner_->handle.state().events & UV_WRITABLE) != 0;
}

struct DeadlineTimer::Inner {
    UniqueFd fd;
    std::function<void()> on_deadline;
    TimePoint deadline = kNever;
    TimePoint armed = kNever;  // the kernel's timer is set to it
    std::unique_ptr<Poller> poller;

    void arm(TimePoint at) {
        armed = at;
        itimerspec spec{};
        if (at != kNever) {
            // Zero would disarm.
            const auto since = std::max(at.time_since_epoch(), Duration(1));
            const auto whole = std::chrono::duration_cast<base::seconds>(since);
            spec.it_value.tv_sec = whole.count();
            spec.it_value.tv_nsec = (since - whole).count();
        }
        CTN_ASSERT(::timerfd_settime(fd.value(), TFD_TIMER_ABSTIME, &spec, nullptr) == 0);
    }
    void on_readable(EventLoop& loop) {
        uint64_t expirations = 0;
        if (::read(fd.value(), &expirations, sizeof expirations) < 0) {
            return;
        }
        armed = kNever;
        if (deadline == kNever) {
            return;
        }
        if (deadline > loop.now() && deadline > loop.refresh_now()) {
            arm(deadline);
            return;
        }
        deadline = kNever;
        // The callback may destroy this timer: it is not used afterwards.
        const auto callback = on_deadline;
        callback();
    }
};

DeadlineTimer::DeadlineTimer(EventLoop& loop, std::function<void()> on_deadline)
    : inner_(std::make_unique<Inner>()) {
    inner_->fd.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
    CTN_ASSERT(inner_->fd.is_open());
    inner_->on_deadline = std::move(on_deadline);
    Inner* inner = inner_.get();
    inner_->poller = std::make_unique<Poller>(loop, inner_->fd.value(),
                                              [inner, &loop] { inner->on_readable(loop); });
    inner_->poller->watch(true);
}

DeadlineTimer::~DeadlineTimer() {
    inner_->poller.reset();
}

void DeadlineTimer::set(TimePoint at) {
    inner_->deadline = at;
    if (at < inner_->armed) {
        inner_->arm(at);
    }
}

TimePoint DeadlineTimer::deadline() const {
    return inner_->deadline;
}

struct SignalWatcher::Inner {
    struct State {
        EventLoop::Inner* loop = nullptr;
        std::function<void(int)> on_signal;
    };
    UvHandle<uv_signal_t, State> handle;
};

SignalWatcher::SignalWatcher(EventLoop& loop,
                             std::span<const int> signals,
                             std::function<void(int)> on_signal) {
    for (const int number : signals) {
        auto inner = std::make_unique<Inner>();
        CTN_ASSERT(uv_signal_init(loop.native(), inner->handle.handle()) == 0);
        inner->handle.state() = Inner::State{loop.inner_.get(), on_signal};
        const auto call = [](uv_signal_t* handle, int signal_number) {
            auto& box = UvHandle<uv_signal_t, Inner::State>::box_of(handle);
            if (!box.closing) {
                box.state.loop->begin();
                box.state.on_signal(signal_number);
            }
        };
        CTN_ASSERT(uv_signal_start(inner->handle.handle(), call, number) == 0);
        watchers_.push_back(std::move(inner));
    }
}

SignalWatcher::~SignalWatcher() = default;

}  // namespace continuo::io
