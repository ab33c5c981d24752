#include "policy/promotion_tracker.hpp"

#include <gtest/gtest.h>

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

constexpr classifier::Promotion kRule = {true, 64'000, base::seconds(2)};

// Sends `bytes` every `interval` for `length`; gives the time of promotion.
std::optional<base::Duration>
run(PromotionTracker& tracker, uint32_t bytes, base::Duration interval, base::Duration length) {
    const TimePoint start{base::seconds(1000)};
    for (base::Duration at{}; at <= length; at += interval) {
        if (tracker.on_bytes(kRule, bytes, start + at)) {
            return at;
        }
    }
    return std::nullopt;
}

TEST(PromotionTracker, PromotesAfterTheTimeAboveTheRate) {
    PromotionTracker tracker;
    // 80 kbit/s in packets of 100 bytes.
    const auto at = run(tracker, 100, milliseconds(10), base::seconds(10));
    ASSERT_TRUE(at);
    EXPECT_EQ(*at, base::seconds(2));
}

TEST(PromotionTracker, LeavesAFlowBelowTheRateAlone) {
    PromotionTracker tracker;
    EXPECT_FALSE(run(tracker, 79, milliseconds(10), base::seconds(60)));  // 63.2 kbit/s
}

TEST(PromotionTracker, DoesNotTakeABurstForARate) {
    PromotionTracker tracker;
    EXPECT_FALSE(run(tracker, 1'000'000, base::seconds(3), base::seconds(60)));
    PromotionTracker other;
    const TimePoint start{};
    for (int packet = 0; packet < 1000; ++packet) {
        EXPECT_FALSE(other.on_bytes(kRule, 1400, start + milliseconds(packet)));
    }
    EXPECT_FALSE(other.on_bytes(kRule, 40, start + base::seconds(5)));
}

TEST(PromotionTracker, StartsAnewAfterASilentSlot) {
    PromotionTracker tracker;
    EXPECT_FALSE(run(tracker, 1400, milliseconds(10), milliseconds(1900)));
    const TimePoint later{base::seconds(1000) + base::seconds(4)};
    EXPECT_FALSE(tracker.on_bytes(kRule, 1400, later));
    EXPECT_FALSE(tracker.on_bytes(kRule, 1400, later + milliseconds(500)));
}

TEST(PromotionTracker, PromotesOnceAndOnlyWhenEnabled) {
    PromotionTracker tracker;
    EXPECT_TRUE(run(tracker, 1400, milliseconds(10), base::seconds(10)));
    EXPECT_FALSE(run(tracker, 1400, milliseconds(10), base::seconds(10)));
    PromotionTracker idle;
    classifier::Promotion off = kRule;
    off.is_enabled = false;
    for (int i = 0; i < 1000; ++i) {
        EXPECT_FALSE(idle.on_bytes(off, 1400, TimePoint{milliseconds(10 * i)}));
    }
}

TEST(PromotionTracker, KeepsTheDelayOfTheClass) {
    EXPECT_EQ(promoted(TrafficClass::LtLd), TrafficClass::HtLd);
    EXPECT_EQ(promoted(TrafficClass::LtHd), TrafficClass::HtHd);
    EXPECT_EQ(promoted(TrafficClass::HtLd), TrafficClass::HtLd);
    EXPECT_EQ(promoted(TrafficClass::HtHd), TrafficClass::HtHd);
}

}  // namespace
}  // namespace continuo::policy
