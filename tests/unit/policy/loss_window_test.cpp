#include "policy/loss_window.hpp"

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

struct Watched {
    LossWindow window;
    PathView path;
    TimePoint now{seconds(1000)};

    Watched() { window.on_time(path, now); }
    // Half a second.
    void down(uint64_t arrived, uint64_t lost) {
        path.down.arrived += arrived;
        path.down.lost += lost;
        path.down.delivered_bytes += arrived * 1000;
        pass();
    }
    void up(uint64_t arrived, uint64_t lost) {
        path.up.arrived += arrived;
        path.up.lost += lost;
        path.up.delivered_bytes += arrived * 1000;
        pass();
    }
    void pass() {
        now += milliseconds(500);
        window.on_time(path, now);
    }
};

TEST(LossWindow, AFifthOfOneAndAHalfSecondsIsHeavy) {
    for (const bool is_down : {true, false}) {
        Watched watched;
        for (int n = 0; n < 3; ++n) {
            EXPECT_FALSE(watched.window.is_heavy());
            is_down ? watched.down(80, 20) : watched.up(80, 20);
        }
        EXPECT_TRUE(watched.window.is_heavy());
        for (int n = 0; n < 3; ++n) {
            is_down ? watched.down(85, 15) : watched.up(85, 15);
        }
        EXPECT_FALSE(watched.window.is_heavy());
    }
}

TEST(LossWindow, APauseOfTheLinkIsNot) {
    Watched watched;
    for (int n = 0; n < 10; ++n) {
        watched.down(n % 3 == 0 ? 100 : 1000, n % 3 == 0 ? 900 : 0);
        EXPECT_FALSE(watched.window.is_heavy()) << n;
    }
}

TEST(LossWindow, AThinFlowTellsNothing) {
    Watched watched;
    for (int n = 0; n < 20; ++n) {
        watched.down(16, 16);  // 48 lost in the window
        EXPECT_FALSE(watched.window.is_heavy()) << n;
    }
}

// The sender slows down to what the box lets pass, and soon loses little or nothing.
TEST(LossWindow, ACollapseWithLossIsHeavyHoweverLittleIsLostSince) {
    const auto is_heavy = [](std::initializer_list<std::pair<uint64_t, uint64_t>> parts) {
        Watched watched;
        watched.down(900, 0);
        for (const auto& [arrived, lost] : parts) {
            EXPECT_FALSE(watched.window.is_heavy());
            watched.down(arrived, lost);
        }
        return watched.window.is_heavy();
    };
    EXPECT_TRUE(is_heavy({{500, 130}, {18, 16}, {16, 2}}));
    EXPECT_TRUE(is_heavy({{500, 130}, {18, 16}, {14, 0}}));
    EXPECT_TRUE(is_heavy({{850, 48}, {17, 10}, {16, 2}}));   // few in that part
    EXPECT_FALSE(is_heavy({{500, 30}, {18, 16}, {16, 2}}));  // too few
}

// Two halvings are congestion control.
TEST(LossWindow, ASenderThatHalvesItsRateTwiceHasNotCollapsed) {
    for (const uint64_t arrived : {uint64_t{249}, uint64_t{250}}) {
        Watched watched;
        watched.down(1000, 0);
        watched.down(500, 250);
        watched.down(arrived, 63);
        watched.down(arrived, 62);  // less than a fifth
        EXPECT_EQ(watched.window.is_heavy(), arrived == 249);
    }
}

bool is_ever_heavy(const std::vector<std::pair<uint64_t, uint64_t>>& parts) {
    Watched watched;
    bool is_heavy = false;
    for (const auto& [arrived, lost] : parts) {
        watched.down(arrived, lost);
        is_heavy = is_heavy || watched.window.is_heavy();
    }
    return is_heavy;
}

// A page that has loaded keeps connections open, which carry little; a call goes on beside it.
TEST(LossWindow, AFlowThatEndsAfterABurstOfLossIsNoCollapse) {
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {800, 150}, {300, 0}, {5, 0}, {5, 0}, {5, 0}, {5, 0}}));
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {800, 150}, {300, 100}, {5, 0}, {5, 0}, {5, 0}}));
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {800, 150}, {25, 0}, {25, 0}, {24, 1}, {25, 0}}));
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {800, 150}, {24, 1}, {25, 0}, {24, 1}, {25, 0}}));
    std::vector<std::pair<uint64_t, uint64_t>> parts = {{1000, 0}, {800, 150}};
    parts.insert(parts.end(), 60, {5, 0});
    parts.insert(parts.end(), {{4, 1}, {5, 0}, {5, 0}});
    EXPECT_FALSE(is_ever_heavy(parts));
}

TEST(LossWindow, AFlowThatEndsOnALinkThatLosesIsNoCollapse) {
    EXPECT_FALSE(is_ever_heavy({{940, 60}, {940, 60}, {200, 13}, {24, 1}, {25, 0}, {24, 1}}));
}

// The queue of a link that became slow drops its end once; so does a pause, after which the sender
// starts slowly.
TEST(LossWindow, ALinkThatBecomesSlowIsNoCollapse) {
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {400, 300}, {140, 20}, {150, 0}, {150, 1}}));
    EXPECT_FALSE(is_ever_heavy({{1000, 0}, {400, 400}, {60, 1}, {200, 0}, {400, 0}}));
}

TEST(LossWindow, HeavyLossLastsWhileMostPartsAreBad) {
    Watched watched;
    watched.down(60, 100);
    for (int n = 0; n < 10; ++n) {
        watched.down(20, 8);
    }
    EXPECT_TRUE(watched.window.is_heavy());
    watched.down(26, 4);
    EXPECT_TRUE(watched.window.is_heavy());
    watched.down(26, 4);
    EXPECT_FALSE(watched.window.is_heavy());
    watched.down(20, 8);
    EXPECT_FALSE(watched.window.is_heavy());
    watched.down(20, 8);
    EXPECT_TRUE(watched.window.is_heavy());
}

TEST(LossWindow, HeavyLossIsForgottenOnceLessThanAFifthIsLostInAll) {
    for (const uint64_t arrived : {uint64_t{300}, uint64_t{301}}) {
        Watched watched;
        for (int n = 0; n < 3; ++n) {
            watched.down(50, 50);
        }
        ASSERT_TRUE(watched.window.is_heavy());
        watched.down(arrived, 0);  // with the 100 before: four times what was lost, 100
        watched.down(5, 5);
        watched.down(5, 5);
        watched.down(5, 5);
        EXPECT_EQ(watched.window.is_heavy(), arrived == 300);
    }
}

TEST(LossWindow, AnOverflowingQueueIsNotUpwards) {
    Watched watched;
    watched.path.has_full_queue = true;
    for (int n = 0; n < 10; ++n) {
        watched.up(400, 150);
        EXPECT_FALSE(watched.window.is_heavy()) << n;
    }
}

TEST(LossWindow, AHalfSecondWithAQueueIsNotBad) {
    for (const bool has_queue : {false, true}) {
        Watched watched;
        watched.up(900, 0);
        watched.up(500, 130);
        watched.up(18, 16);
        watched.path.has_full_queue = has_queue;
        watched.up(16, 2);
        EXPECT_EQ(watched.window.is_heavy(), !has_queue);
    }
}

// Nothing of a class whose mark is dropped passes until it leaves without one: the losses of one
// direction end in the middle of a part, and those of the other begin there.
TEST(LossWindow, OneDirectionMendedAfterTheOtherIsNoThrottle) {
    struct Case {
        uint64_t before;  // delivered in the part in which the loss begins
        int in_vain;      // parts in which nothing is
    };
    for (const Case& each : {Case{0, 1}, Case{0, 2}, Case{12, 1}, Case{12, 2}, Case{24, 2}}) {
        Watched watched;
        const auto half_second = [&](const PathTraffic& up, const PathTraffic& down) {
            const auto add = [](PathTraffic& to, const PathTraffic& more) {
                to.arrived += more.arrived + 20;  // acknowledgements, by another class
                to.lost += more.lost;
                to.delivered_bytes += more.arrived * 1000;
            };
            add(watched.path.up, up);
            add(watched.path.down, down);
            watched.pass();
            EXPECT_FALSE(watched.window.is_heavy()) << each.before << " " << each.in_vain;
        };
        half_second({25, 0}, {25, 0});
        half_second({each.before, 25 - each.before}, {each.before, 0});
        for (int n = 0; n < each.in_vain; ++n) {
            half_second({0, 25}, {0, 0});
        }
        half_second({13, 12}, {0, 13});
        for (int n = 0; n < each.in_vain; ++n) {
            half_second({25, 0}, {0, 25});
        }
        half_second({25, 0}, {13, 12});
        half_second({25, 0}, {25, 0});
    }
}

TEST(LossWindow, TheRateIsThatSinceTheLossBegan) {
    Watched watched;
    watched.down(1000, 0);
    watched.down(500, 500);  // began in the middle
    watched.down(20, 30);
    watched.down(20, 30);
    ASSERT_TRUE(watched.window.is_heavy());
    EXPECT_DOUBLE_EQ(watched.window.delivered_bytes_per_s(), 40'000);
}

TEST(LossWindow, CountersThatBeginAnewTellNothingOfThePathBefore) {
    Watched watched;
    watched.down(1000, 0);
    for (int n = 0; n < 3; ++n) {
        watched.down(50, 50);
    }
    ASSERT_TRUE(watched.window.is_heavy());
    watched.path = {};
    watched.window.on_time(watched.path, watched.now + milliseconds(100));  // within a part
    watched.down(2000, 1000);                                               // more than before
    EXPECT_FALSE(watched.window.is_heavy());
    for (int n = 0; n < 3; ++n) {
        watched.down(50, 50);
    }
    EXPECT_TRUE(watched.window.is_heavy());
    EXPECT_DOUBLE_EQ(watched.window.delivered_bytes_per_s(), 100'000);
}

TEST(LossWindow, APartThatIsLookedAtLateIsOnePart) {
    Watched watched;
    watched.down(900, 0);
    watched.now += seconds(2);
    watched.down(500, 130);
    watched.down(18, 16);
    EXPECT_FALSE(watched.window.is_heavy());
    watched.now += seconds(1);
    watched.down(40, 30);
    EXPECT_TRUE(watched.window.is_heavy());
    EXPECT_DOUBLE_EQ(watched.window.delivered_bytes_per_s(), 29'000);
}

}  // namespace
}  // namespace continuo::policy
