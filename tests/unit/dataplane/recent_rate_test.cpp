#include "common/dataplane/recent_rate.hpp"

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

using base::milliseconds;
using base::seconds;

// A count that grows, looked at each second.
struct Counted {
    RecentRate rate;
    uint64_t bytes = 0;
    base::TimePoint now{base::seconds(1000)};

    void grow(uint64_t bytes_per_s, int for_seconds) {
        for (int i = 0; i < for_seconds; ++i) {
            rate.look(bytes, now);
            now += seconds(1);
            bytes += bytes_per_s;
        }
    }
    std::optional<uint64_t> bits_per_s() const { return rate.bits_per_s(bytes, now); }
};

TEST(RecentRate, IsUnknownAtFirst) {
    RecentRate rate;
    EXPECT_FALSE(rate.bits_per_s(1000, base::TimePoint(seconds(7))));
    rate.look(1000, base::TimePoint(seconds(7)));
    EXPECT_FALSE(rate.bits_per_s(2000, base::TimePoint(seconds(7) + milliseconds(100))));
    EXPECT_EQ(rate.bits_per_s(2000, base::TimePoint(seconds(8))), 8000U);
}

TEST(RecentRate, IsThatOfTheLastSeconds) {
    Counted counted;
    counted.grow(1'000'000, 20);
    EXPECT_EQ(counted.bits_per_s(), 8'000'000U);
    counted.grow(1000, 4);
    EXPECT_EQ(counted.bits_per_s(), 8000U) << "what was before is forgotten";
    counted.grow(0, 4);
    EXPECT_EQ(counted.bits_per_s(), 0U);
}

TEST(RecentRate, BeginsAnewWithACountThatDoes) {
    Counted counted;
    counted.grow(1'000'000, 10);
    counted.bytes = 0;
    EXPECT_FALSE(counted.bits_per_s()) << "not yet looked at";
    counted.grow(1000, 3);
    EXPECT_EQ(counted.bits_per_s(), 8000U);
}

TEST(RecentRate, DoesNotCountALongPauseIn) {
    Counted counted;
    counted.grow(1'000'000, 10);
    counted.now += seconds(3600);
    counted.grow(1000, 3);
    EXPECT_EQ(counted.bits_per_s(), 8000U);
}

}  // namespace
}  // namespace continuo::dataplane
