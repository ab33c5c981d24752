#include "common/io/event_loop.hpp"
#include "common/io/worker_thread.hpp"

#include <array>
#include <condition_variable>
#include <csignal>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace continuo::io {
namespace {

using base::microseconds;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

TimePoint clock_now() {
    return std::chrono::steady_clock::now();
}

struct Pipe {
    UniqueFd read_end;
    UniqueFd write_end;
    Pipe() {
        std::array<int, 2> ends{};
        EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
        read_end.reset(ends[0]);
        write_end.reset(ends[1]);
    }
    void put() const { EXPECT_EQ(::write(write_end.value(), "x", 1), 1); }
    void take() const {
        char byte = 0;
        EXPECT_EQ(::read(read_end.value(), &byte, 1), 1);
    }
};

TEST(EventLoop, RunsPostedFunctionsInOrderFromAnotherThread) {
    EventLoop loop;
    std::vector<int> order;
    std::thread other([&] {
        for (int i = 0; i < 100; ++i) {
            loop.post([&order, i] { order.push_back(i); });
        }
        loop.post([&loop] { loop.stop(); });
    });
    loop.run();
    other.join();
    ASSERT_EQ(order.size(), 100U);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Each wake-up of `loop` makes the next one's work, by as many pipes in turn.
class Chain {
  public:
    Chain(EventLoop& loop, size_t pipes, std::function<bool()> goes_on) : pipes_(pipes) {
        for (size_t i = 0; i < pipes; ++i) {
            pollers_.push_back(
                std::make_unique<Poller>(loop, pipes_[i].read_end.value(), [=, this, &loop] {
                    pipes_[i].take();
                    loop.note_moved(1);
                    if (goes_on()) {
                        pipes_[(i + 1) % pipes].put();
                    }
                }));
            pollers_.back()->watch(true);
        }
        pipes_[0].put();
    }

  private:
    std::vector<Pipe> pipes_;
    std::vector<std::unique_ptr<Poller>> pollers_;
};

// Gives how many wake-ups were found by spinning: the first of those stops the loop, or the last
// of many.
uint64_t spin_hits_of_a_chain(base::Duration spin,
                              size_t pipes,
                              std::optional<base::Duration> waited = microseconds(0)) {
    constexpr int kMany = 100'000;
    EventLoop loop;
    loop.set_spin(spin, [waited] { return waited; });
    int rounds = 0;
    const Chain chain(loop, pipes, [&] {
        const bool is_over = ++rounds == kMany || loop.counters().spin_hits > 0;
        if (is_over) {
            loop.stop();
        }
        return !is_over;
    });
    loop.run();
    return loop.counters().spin_hits;
}

TEST(EventLoop, SpinsWhenDescriptorsTakeTurnsAndItIsTold) {
    EXPECT_EQ(spin_hits_of_a_chain({}, 2), 0U);
    EXPECT_GT(spin_hits_of_a_chain(microseconds(100), 2), 0U);
    EXPECT_EQ(spin_hits_of_a_chain(microseconds(100), 1), 0U) << "a stream";
    EXPECT_EQ(spin_hits_of_a_chain(microseconds(100), 2, std::nullopt), 0U)
        << "a kernel that does not say who waits for a processor";
}

TEST(EventLoop, IsStoppedByAnotherThreadWhileItSpins) {
    EventLoop loop;
    loop.set_spin(microseconds(100), [] { return microseconds(0); });
    std::thread other;
    const Chain chain(loop, 2, [&] {
        if (!other.joinable() && loop.counters().spin_hits > 0) {
            other = std::thread([&] { loop.stop(); });
        }
        return true;
    });
    loop.run();
    other.join();
}

TEST(EventLoop, AStreamIsSteadyAndMayRest) {
    EventLoop loop;
    int rounds = 0;
    const Chain chain(loop, 1, [&] {
        if (loop.is_steady()) {
            EXPECT_GE(rounds, kSteadyWakeUps);
            loop.rest(base::seconds(100));
        }
        // However slow this machine is.
        const bool is_over = loop.counters().rests == 3 || ++rounds == 100'000;
        if (is_over) {
            loop.stop();
        }
        return !is_over;
    });
    loop.run();
    EXPECT_GE(loop.counters().rests, 3U);
}

// Gives how often a loop rested that moved something for another than the stream, too.
uint64_t rests_beside_a_stream(const std::function<void(EventLoop&, int round)>& other) {
    EventLoop loop;
    int rounds = 0;
    const Chain chain(loop, 1, [&] {
        if (loop.is_steady()) {
            loop.rest(microseconds(1));
        }
        other(loop, rounds);
        const bool is_over = ++rounds == 2000;
        if (is_over) {
            loop.stop();
        }
        return !is_over;
    });
    loop.run();
    return loop.counters().rests;
}

TEST(EventLoop, WhereAnythingElseMovesNothingRests) {
    EXPECT_GT(rests_beside_a_stream([](EventLoop&, int) {}), 0U);
    // A posted function moves something in each tenth wake-up.
    EXPECT_EQ(rests_beside_a_stream([](EventLoop& loop, int round) {
                  if (round % 10 == 0) {
                      loop.post([&loop] { loop.note_moved(1); });
                  }
              }),
              0U);
}

TEST(EventLoop, DescriptorsInTurnAreNoStream) {
    EventLoop loop;
    int rounds = 0;
    const Chain chain(loop, 2, [&] {
        EXPECT_FALSE(loop.is_steady());
        const bool is_over = ++rounds == 100;
        if (is_over) {
            loop.stop();
        }
        return !is_over;
    });
    loop.run();
}

TEST(EventLoop, StopBeforeRunEndsTheNextRun) {
    EventLoop loop;
    loop.stop();
    loop.run();
    bool ran = false;
    loop.post([&] {
        ran = true;
        loop.stop();
    });
    loop.run();
    EXPECT_TRUE(ran);
}

TEST(EventLoop, WhatIsPostedBeforeStopRuns) {
    EventLoop loop;
    bool has_run = false;
    loop.post([&] {
        loop.post([&] { has_run = true; });
        loop.stop();
    });
    loop.run();
    EXPECT_TRUE(has_run);
}

TEST(EventLoop, RefusesMorePostsThanItsLimit) {
    EventLoop loop;
    size_t ran = 0;
    for (size_t i = 0; i < kMaxPostedFunctions; ++i) {
        ASSERT_TRUE(loop.post([&ran] { ++ran; }));
    }
    EXPECT_FALSE(loop.post([] {}));
    EXPECT_EQ(loop.counters().refused_posts, 1U);
    EXPECT_TRUE(loop.run_until([&] { return ran == kMaxPostedFunctions; }, seconds(5)));
}

TEST(EventLoop, DescriptorsHaveTheirTurnBetweenPostedFunctions) {
    EventLoop loop;
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd reader(ends[0]);
    const UniqueFd writer(ends[1]);
    size_t ran = 0;
    size_t ran_before = 0;
    Poller poller(loop, reader.value(), [&] {
        ran_before = ran;
        poller.watch(false);
    });
    poller.watch(true);
    constexpr size_t kFunctions = 50;
    for (size_t i = 0; i < kFunctions; ++i) {
        loop.post([&] {
            const TimePoint end = clock_now() + milliseconds(1);
            while (clock_now() < end) {
            }
            ++ran;
        });
    }
    ASSERT_EQ(::write(writer.value(), "x", 1), 1);
    ASSERT_TRUE(loop.run_until([&] { return ran == kFunctions; }, seconds(20)));
    EXPECT_LT(ran_before, 5U);
}

TEST(EventLoop, NowStaysTheSameWithinOneWakeUp) {
    EventLoop loop;
    TimePoint first;
    TimePoint second;
    TimePoint refreshed;
    loop.post([&] {
        first = loop.now();
        while (clock_now() < first + milliseconds(1)) {
        }
        second = loop.now();
        refreshed = loop.refresh_now();
        loop.stop();
    });
    loop.run();
    EXPECT_EQ(first, second);
    EXPECT_GE(refreshed - first, milliseconds(1));
}

TEST(EventLoop, CountsIterationsThatTakeTooLong) {
    EventLoop loop;
    loop.post([&] {
        const TimePoint end = clock_now() + kSlowIteration + milliseconds(1);
        while (clock_now() < end) {
        }
        loop.stop();
    });
    loop.run();
    EXPECT_EQ(loop.counters().slow_iterations, 1U);
    EXPECT_GT(loop.counters().longest, kSlowIteration);
}

TEST(DeadlineTimer, FiresOnceAtItsDeadlineAndNotBefore) {
    EventLoop loop;
    unsigned fired = 0;
    TimePoint at;
    DeadlineTimer timer(loop, [&] {
        ++fired;
        at = clock_now();
    });
    const TimePoint deadline = clock_now() + microseconds(2300);
    timer.set(deadline);
    EXPECT_TRUE(loop.run_until([&] { return fired > 0; }, seconds(2)));
    EXPECT_GE(at, deadline);
    EXPECT_EQ(timer.deadline(), base::kNever);
    EXPECT_FALSE(loop.run_until([&] { return fired > 1; }, milliseconds(5)));
}

TEST(DeadlineTimer, IsFinerThanAMillisecond) {
    EventLoop loop;
    base::Duration best = seconds(1);
    for (unsigned i = 0; i < 50; ++i) {
        bool fired = false;
        DeadlineTimer timer(loop, [&] { fired = true; });
        const TimePoint deadline = clock_now() + microseconds(150);
        timer.set(deadline);
        ASSERT_TRUE(loop.run_until([&] { return fired; }, seconds(2)));
        best = std::min<base::Duration>(best, clock_now() - deadline);
    }
    EXPECT_LT(best, microseconds(500));
}

TEST(DeadlineTimer, LaterEarlierAndStoppedDeadlinesReplaceTheOneBefore) {
    EventLoop loop;
    unsigned fired = 0;
    DeadlineTimer timer(loop, [&] { ++fired; });
    const TimePoint start = clock_now();
    timer.set(start + milliseconds(1));
    timer.set(start + milliseconds(8));
    EXPECT_FALSE(loop.run_until([&] { return fired > 0; }, milliseconds(3)));
    EXPECT_TRUE(loop.run_until([&] { return fired > 0; }, seconds(2)));
    EXPECT_GE(clock_now(), start + milliseconds(8));
    timer.set(clock_now() + seconds(100));
    timer.set(clock_now() + milliseconds(1));
    EXPECT_TRUE(loop.run_until([&] { return fired == 2; }, seconds(2)));
    timer.set(clock_now() + milliseconds(1));
    timer.set(base::kNever);
    EXPECT_FALSE(loop.run_until([&] { return fired > 2; }, milliseconds(5)));
    timer.set(TimePoint());
    EXPECT_TRUE(loop.run_until([&] { return fired == 3; }, seconds(2)));
}

TEST(DeadlineTimer, MayBeDestroyedByItsOwnCallback) {
    EventLoop loop;
    std::unique_ptr<DeadlineTimer> timer;
    timer = std::make_unique<DeadlineTimer>(loop, [&] { timer.reset(); });
    timer->set(clock_now());
    EXPECT_TRUE(loop.run_until([&] { return timer == nullptr; }, seconds(2)));
}

TEST(Poller, CallsBackWhileReadableAndOnlyWhileWatching) {
    EventLoop loop;
    const Pipe pipe;
    unsigned calls = 0;
    Poller poller(loop, pipe.read_end.value(), [&] {
        ++calls;
        pipe.take();
    });
    pipe.put();
    EXPECT_FALSE(loop.run_until([&] { return calls > 0; }, milliseconds(2)));
    poller.watch(true);
    EXPECT_TRUE(loop.run_until([&] { return calls == 1; }, seconds(2)));
    poller.watch(false);
    pipe.put();
    EXPECT_FALSE(loop.run_until([&] { return calls > 1; }, milliseconds(2)));
    poller.watch(true);
    EXPECT_TRUE(loop.run_until([&] { return calls == 2; }, seconds(2)));
}

TEST(Poller, TellsOfWritability) {
    EventLoop loop;
    const Pipe pipe;
    bool writable = false;
    Poller poller(loop, pipe.write_end.value(), {}, [&] { writable = true; });
    poller.watch(false, true);
    EXPECT_TRUE(poller.is_watching_writable());
    EXPECT_TRUE(loop.run_until([&] { return writable; }, seconds(2)));
}

TEST(Poller, MayBeDestroyedByItsOwnCallback) {
    EventLoop loop;
    const Pipe pipe;
    std::unique_ptr<Poller> poller;
    poller = std::make_unique<Poller>(loop, pipe.read_end.value(), [&] { poller.reset(); });
    poller->watch(true);
    pipe.put();
    EXPECT_TRUE(loop.run_until([&] { return poller == nullptr; }, seconds(2)));
}

TEST(SignalWatcher, HandsOverTheSignal) {
    EventLoop loop;
    int seen = 0;
    const std::array signals = {SIGHUP, SIGTERM};
    const SignalWatcher watcher(loop, signals, [&](int number) { seen = number; });
    ::raise(SIGHUP);
    EXPECT_TRUE(loop.run_until([&] { return seen == SIGHUP; }, seconds(2)));
}

TEST(WorkerThread, CompletesOnTheLoopsThreadInOrder) {
    EventLoop loop;
    WorkerThread worker(loop, "test", 100);
    const auto loop_thread = std::this_thread::get_id();
    std::vector<int> done;
    for (int i = 0; i < 50; ++i) {
        const bool taken =
            worker.submit([loop_thread] { EXPECT_NE(std::this_thread::get_id(), loop_thread); },
                          [&, i] {
                              EXPECT_EQ(std::this_thread::get_id(), loop_thread);
                              done.push_back(i);
                          });
        ASSERT_TRUE(taken);
    }
    EXPECT_TRUE(loop.run_until([&] { return done.size() == 50; }, seconds(5)));
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

// Holds a worker until it is opened.
class Gate {
  public:
    void pass() {
        std::unique_lock lock(mutex_);
        is_reached_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return is_open_; });
    }
    void wait_until_reached() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return is_reached_; });
    }
    void open() {
        const std::lock_guard lock(mutex_);
        is_open_ = true;
        changed_.notify_all();
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_reached_ = false;
    bool is_open_ = false;
};

TEST(WorkerThread, RefusesWorkBeyondItsCapacity) {
    EventLoop loop;
    Gate gate;
    unsigned completions = 0;
    WorkerThread worker(loop, "test", 2);
    const auto complete = [&completions] { ++completions; };
    ASSERT_TRUE(worker.submit([&gate] { gate.pass(); }, complete));
    gate.wait_until_reached();
    EXPECT_TRUE(worker.submit([] {}, complete));
    EXPECT_TRUE(worker.submit([] {}, complete));
    EXPECT_FALSE(worker.submit([] { ADD_FAILURE(); }, complete));
    EXPECT_EQ(worker.refused(), 1U);
    EXPECT_EQ(worker.waiting(), 2U);
    gate.open();
    EXPECT_TRUE(loop.run_until([&] { return completions == 3; }, seconds(5)));
}

TEST(WorkerThread, NoCompletionRunsOnceItIsDestroyed) {
    EventLoop loop;
    Gate gate;
    gate.open();
    bool completed = false;
    {
        WorkerThread worker(loop, "test", 2);
        ASSERT_TRUE(worker.submit([&gate] { gate.pass(); }, [&] { completed = true; }));
        gate.wait_until_reached();
    }
    EXPECT_FALSE(loop.run_until([&] { return completed; }, milliseconds(5)));
}

TEST(WorkerThread, AbandonedItIsNotWaitedForAndNeedsNeitherLoopNorOwner) {
    auto gate = std::make_shared<Gate>();
    auto ended = std::make_shared<std::promise<void>>();
    bool completed = false;
    {
        EventLoop loop;
        WorkerThread worker(loop, "test", 2);
        ASSERT_TRUE(worker.submit(
            [gate, ended] {
                gate->pass();
                ended->set_value();
            },
            [&completed] { completed = true; }));
        ASSERT_TRUE(worker.submit([] { ADD_FAILURE(); }));
        gate->wait_until_reached();
        worker.abandon();
    }
    gate->open();
    ended->get_future().wait();
    EXPECT_FALSE(completed);
}

}  // namespace
}  // namespace continuo::io
