#include "common/io/pause_watcher.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::io {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;

struct Watched {
    EventLoop loop;
    Duration since_boot = seconds(100);
    std::vector<Duration> pauses;
    std::vector<std::string> order;
    PauseWatcher watcher{loop,
                         [this](Duration pause) {
                             pauses.push_back(pause);
                             order.emplace_back("pause");
                         },
                         [this] { return since_boot; }};

    void wake_up() {
        const size_t before = order.size();
        loop.post([this] { order.emplace_back("work"); });
        EXPECT_TRUE(loop.run_until([&] { return order.size() > before; }, seconds(5)));
    }
};

TEST(PauseWatcher, TellsOfAPauseOnceAndBeforeAnythingElse) {
    Watched watched;
    watched.wake_up();
    EXPECT_TRUE(watched.pauses.empty());
    watched.since_boot += seconds(40);
    watched.wake_up();
    EXPECT_EQ(watched.pauses, std::vector<Duration>{seconds(40)});
    EXPECT_EQ(watched.order, (std::vector<std::string>{"work", "pause", "work"}));
    watched.wake_up();
    EXPECT_EQ(watched.pauses.size(), 1U);
}

TEST(PauseWatcher, WaitingForTheNextDeadlineIsNoPause) {
    Watched watched;
    for (int i = 0; i < 100; ++i) {
        watched.since_boot += milliseconds(500);
        watched.wake_up();
    }
    EXPECT_TRUE(watched.pauses.empty());
}

TEST(PauseWatcher, APauseInTheMiddleOfWorkIsSeenWhenTheClockIsReadAgain) {
    Watched watched;
    watched.loop.post([&] {
        watched.since_boot += seconds(5);
        watched.loop.refresh_now();
        EXPECT_EQ(watched.pauses.size(), 1U);
        watched.order.emplace_back("done");
    });
    EXPECT_TRUE(watched.loop.run_until([&] { return !watched.order.empty(); }, seconds(5)));
}

TEST(PauseWatcher, ItsClockGoesOn) {
    const Duration before = PauseWatcher::since_boot();
    EXPECT_GT(before, Duration{});
    EXPECT_GE(PauseWatcher::since_boot(), before);
}

TEST(PauseWatcher, ALoopGoesOnWithoutItsWatcher) {
    EventLoop loop;
    unsigned pauses = 0;
    Duration since_boot = seconds(1);
    auto watcher = std::make_unique<PauseWatcher>(
        loop, [&](Duration) { ++pauses; }, [&] { return since_boot; });
    watcher.reset();
    since_boot += seconds(60);
    bool is_done = false;
    loop.post([&] { is_done = true; });
    EXPECT_TRUE(loop.run_until([&] { return is_done; }, seconds(5)));
    EXPECT_EQ(pauses, 0U);
}

}  // namespace
}  // namespace continuo::io
