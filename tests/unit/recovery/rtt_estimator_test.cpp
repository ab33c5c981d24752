#include "common/recovery/rtt_estimator.hpp"

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

TEST(WindowedExtreme, KeepsTheBestOfTheWindowAndThenTheNextBest) {
    WindowedExtreme<int, int, std::less<>> smallest;
    EXPECT_TRUE(smallest.is_empty());
    smallest.add(5, 0, 10);
    smallest.add(7, 4, 10);
    smallest.add(8, 8, 10);
    EXPECT_EQ(smallest.best(), 5);
    smallest.add(9, 11, 10);
    EXPECT_EQ(smallest.best(), 7);
    smallest.add(3, 12, 10);
    EXPECT_EQ(smallest.best(), 3);
    smallest.add(20, 100, 10);
    EXPECT_EQ(smallest.best(), 20) << "all others are too old";
}

// RFC 9002, 5.3: the first sample sets both, each further one moves them by 1/8 and 1/4.
TEST(RttEstimator, FollowsRfc9002) {
    RttEstimator rtt;
    EXPECT_EQ(rtt.smoothed(), milliseconds(333));
    const TimePoint now{seconds(1)};
    rtt.on_sample(milliseconds(100), Duration{}, now);
    EXPECT_EQ(rtt.smoothed(), milliseconds(100));
    EXPECT_EQ(rtt.variation(), milliseconds(50));
    EXPECT_EQ(rtt.probe_timeout(), milliseconds(300));
    rtt.on_sample(milliseconds(180), Duration{}, now);
    EXPECT_EQ(rtt.smoothed(), milliseconds(110));
    EXPECT_EQ(rtt.variation(), base::microseconds(57'500));
}

TEST(RttEstimator, TheTimeThatThePeerHeldAnAcknowledgementIsNotOfTheWay) {
    RttEstimator rtt;
    rtt.on_sample(milliseconds(35), milliseconds(25), TimePoint{seconds(1)});
    EXPECT_EQ(rtt.latest(), milliseconds(10));
    EXPECT_EQ(rtt.minimum(), milliseconds(10));
    // A peer that tells more than can be makes no round trip of nothing or less.
    rtt.on_sample(milliseconds(10), seconds(60), TimePoint{seconds(1)});
    EXPECT_EQ(rtt.latest(), base::microseconds(1));
    rtt.on_sample(milliseconds(10), -seconds(60), TimePoint{seconds(1)});
    EXPECT_EQ(rtt.latest(), milliseconds(10));
}

TEST(RttEstimator, AMinimumOfLongAgoIsForgotten) {
    RttEstimator rtt;
    TimePoint now{seconds(1)};
    rtt.on_sample(milliseconds(10), Duration{}, now);
    for (int i = 0; i < 110; ++i) {
        now += milliseconds(100);
        rtt.on_sample(milliseconds(50), Duration{}, now);
    }
    EXPECT_EQ(rtt.minimum(), milliseconds(50));
}

}  // namespace
}  // namespace continuo::recovery
