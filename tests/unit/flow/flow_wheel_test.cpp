#include "common/base/random.hpp"
#include "common/flow/flow_wheel.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr TimePoint kStart{std::chrono::hours(1000)};

TEST(FlowWheel, IsNeverEarlyAndLateByLessThanATick) {
    for (const int ms : {1, 999, 1000, 1001, 10'000, 119'999, 7'440'000}) {
        FlowWheel wheel;
        Flow flow;
        const TimePoint due = kStart + milliseconds(ms);
        wheel.arm(flow, due, kStart);
        const TimePoint wake = wheel.next_deadline();
        EXPECT_GE(wake, due);
        EXPECT_LT(wake, due + FlowWheel::kTick);
        EXPECT_EQ(wheel.pop_due(wake - Duration(1)), nullptr);
        EXPECT_EQ(wheel.pop_due(wake), &flow);
        EXPECT_EQ(wheel.next_deadline(), base::kNever);
    }
}

TEST(FlowWheel, LaterDeadlineIsFoundWhenTheOldPlaceComesUp) {
    FlowWheel wheel;
    Flow flow;
    wheel.arm(flow, kStart + seconds(10), kStart);
    wheel.arm(flow, kStart + seconds(500), kStart + seconds(9));
    EXPECT_EQ(wheel.pop_due(kStart + seconds(400)), nullptr);
    EXPECT_EQ(wheel.pop_due(kStart + seconds(500)), &flow);
}

TEST(FlowWheel, EarlierDeadlineMovesTheFlow) {
    FlowWheel wheel;
    Flow flow;
    wheel.arm(flow, kStart + seconds(7440), kStart);
    wheel.arm(flow, kStart + seconds(240), kStart + seconds(1));
    EXPECT_EQ(wheel.next_deadline(), kStart + seconds(240));
    EXPECT_EQ(wheel.pop_due(kStart + seconds(240)), &flow);
}

TEST(FlowWheel, DeadlineBeyondOneTurnIsKept) {
    FlowWheel wheel;
    Flow flow;
    const TimePoint due = kStart + seconds(5 * static_cast<int64_t>(FlowWheel::kSlots));
    wheel.arm(flow, due, kStart);
    TimePoint now = kStart;
    int wakes = 0;
    while (wheel.pop_due(now) == nullptr) {
        ASSERT_LT(now, due);
        ASSERT_GT(wheel.next_deadline(), now);
        now = wheel.next_deadline();
        ++wakes;
    }
    EXPECT_EQ(now, due);
    EXPECT_LT(wakes, 10);
}

TEST(FlowWheel, LongSilenceThenOnePopGivesEverythingDue) {
    FlowWheel wheel;
    std::vector<Flow> flows(100);
    for (size_t i = 0; i < flows.size(); ++i) {
        wheel.arm(flows[i], kStart + seconds(1 + 70 * static_cast<int>(i)), kStart);
    }
    size_t popped = 0;
    while (wheel.pop_due(kStart + std::chrono::hours(100)) != nullptr) {
        ++popped;
    }
    EXPECT_EQ(popped, flows.size());
}

TEST(FlowWheel, AgreesWithASortedMapUnderRandomUse) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        SCOPED_TRACE(seed);
        base::SeededRandom random(seed);
        FlowWheel wheel;
        std::vector<Flow> flows(200);
        std::map<Flow*, TimePoint> oracle;
        TimePoint now = kStart;
        for (int step = 0; step < 3000; ++step) {
            Flow* flow = &flows[random.below(flows.size())];
            const uint64_t choice = random.below(10);
            if (choice < 6) {
                const TimePoint due = now + milliseconds(1 + random.below(20'000'000));
                wheel.arm(*flow, due, now);
                oracle[flow] = due;
            } else if (choice == 6) {
                wheel.remove(*flow);
                oracle.erase(flow);
            } else {
                now += milliseconds(random.below(step % 50 == 0 ? 30'000'000 : 60'000));
                while (Flow* due = wheel.pop_due(now)) {
                    ASSERT_EQ(oracle.count(due), 1U);
                    ASSERT_LE(oracle[due], now);
                    oracle.erase(due);
                }
                for (const auto& [waiting, due] : oracle) {
                    ASSERT_GT(due + FlowWheel::kTick, now);
                }
            }
            ASSERT_EQ(wheel.size(), oracle.size());
        }
    }
}

}  // namespace
}  // namespace continuo::flow
