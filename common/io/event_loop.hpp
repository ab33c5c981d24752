// EventLoop: owner of one uv_loop_t and of the time of a wake-up; with it Poller (readiness of a
// descriptor), DeadlineTimer (one deadline, sub-millisecond: a timerfd, since uv timers count
// milliseconds) and SignalWatcher. All belong to the loop's thread and must be destroyed before the
// loop; only post() and stop() may be called from others.
#pragma once

#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/io/unique_fd.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

struct uv_loop_s;

namespace continuo::io {

// An iteration that keeps the loop longer than this is counted as slow.
inline constexpr base::Duration kSlowIteration = base::milliseconds(5);
// Most functions posted by other threads; further ones are refused and counted.
inline constexpr size_t kMaxPostedFunctions = 65536;

// Longest time for which a loop may spin after work.
inline constexpr uint32_t kMaxSpinUs = 100;

// Network interfaces moderate interrupts for 50 to 250 us.
inline constexpr base::Duration kLongestRest = base::microseconds(500);
// A stream: this many wake-ups for one descriptor, with at most this gap between two.
inline constexpr int kSteadyWakeUps = 16;
inline constexpr base::Duration kSteadyGap = base::milliseconds(1);

class EventLoop {
  public:
    EventLoop();
    EventLoop(const EventLoop&) = delete;
    EventLoop& operator=(const EventLoop&) = delete;
    ~EventLoop();

    // Runs until stop().
    void run();
    // Where requests and answers follow each other at once (SpinAdvice), run() polls for more work
    // this long before it sleeps: no wake-up for an early answer, at the price of a busy processor.
    // Meanwhile it yields to others, and sleeps for a while when they need the processor. 0, the
    // default: sleeps at once. At most kMaxSpinUs.
    // `waited` returns how long programs have waited for a processor; empty: CpuPressure.
    using WaitedForProcessor = std::function<std::optional<base::Duration>()>;
    void set_spin(base::Duration spin, WaitedForProcessor waited = {});
    // Bytes of packets moved by this callback: they distinguish streams from requests and answers.
    // Posted functions have no descriptor and count as neither.
    void note_moved(size_t bytes);

    // Whether the last wake-ups that moved data were all for one descriptor and close together: a
    // stream.
    bool is_steady() const;
    // After this wake-up run() sleeps for `span`, at most kLongestRest, whatever comes, like the
    // interrupt moderation of a network interface. Not if this wake-up is no longer part of a
    // stream.
    void rest(base::Duration length);
    // It slept like that before this wake-up.
    bool has_rested() const;
    // Runs until `done` holds after an iteration (true) or `timeout` has passed (false). For tests
    // and start-up.
    bool run_until(const std::function<bool()>& done, base::Duration timeout);
    // Any thread.
    void stop();
    // Runs `function` on the loop's thread, in order. Any thread. False: queue full, `function` is
    // dropped.
    bool post(std::function<void()> function);

    // Time of this wake-up: the clock is read at the first call after the loop woke, then kept.
    base::TimePoint now();
    // Reads the same clock now: for measurements within a wake-up.
    static base::TimePoint clock();
    // Reads the clock anew, for work that itself took long.
    base::TimePoint refresh_now();
    // Called whenever the clock was read, before anything else in a wake-up; empty: none.
    void on_clock_read(std::function<void()> callback);

    struct Counters {
        uint64_t iterations = 0;       // wake-ups that did something
        uint64_t slow_iterations = 0;  // longer than kSlowIteration
        base::Duration longest{};
        uint64_t refused_posts = 0;
        uint64_t spin_hits = 0;  // iterations that needed no wake-up
        uint64_t rests = 0;
    };
    Counters counters() const;

    uv_loop_s* native();

  private:
    friend class Poller;
    friend class DeadlineTimer;
    friend class SignalWatcher;
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

// Calls back while `fd` is readable or writable (level-triggered). `fd` is borrowed and must stay
// open as long as this lives; it is made non-blocking. One Poller a descriptor and loop.
class Poller {
  public:
    using Callback = std::function<void()>;

    Poller(EventLoop& loop, int fd, Callback on_readable, Callback on_writable = {});
    Poller(const Poller&) = delete;
    Poller& operator=(const Poller&) = delete;
    ~Poller();

    // Sets the events to wait for; neither: stopped, as at first. Cheap when nothing changes.
    void watch(bool readable, bool writable = false);
    bool is_watching_writable() const;

  private:
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

class DeadlineTimer {
  public:
    DeadlineTimer(EventLoop& loop, std::function<void()> on_deadline);
    DeadlineTimer(const DeadlineTimer&) = delete;
    DeadlineTimer& operator=(const DeadlineTimer&) = delete;
    ~DeadlineTimer();

    // Calls back once when `at` has come; kNever stops. Replaces the previous deadline. A later
    // deadline costs no system call: the kernel's timer is moved when it fires.
    void set(base::TimePoint at);
    base::TimePoint deadline() const;

  private:
    struct Inner;
    std::unique_ptr<Inner> inner_;
};

class SignalWatcher {
  public:
    SignalWatcher(EventLoop& loop,
                  std::span<const int> signals,
                  std::function<void(int)> on_signal);
    SignalWatcher(const SignalWatcher&) = delete;
    SignalWatcher& operator=(const SignalWatcher&) = delete;
    ~SignalWatcher();

  private:
    struct Inner;
    std::vector<std::unique_ptr<Inner>> watchers_;
};

}  // namespace continuo::io
