#include "policy/backoff.hpp"

#include <gtest/gtest.h>

namespace continuo::policy {
namespace {

using base::seconds;
using base::TimePoint;

constexpr TimePoint kBegin{seconds(1000)};

TEST(Backoff, RestsDoubleUpToTheLongest) {
    Backoff backoff(seconds(1), seconds(60));
    TimePoint now = kBegin;
    for (const int64_t expected : {1, 2, 4, 8, 16, 32, 60, 60}) {
        EXPECT_FALSE(backoff.rests(now));
        backoff.begin(now);
        EXPECT_EQ(backoff.until() - now, seconds(expected));
        EXPECT_TRUE(backoff.rests(backoff.until() - base::milliseconds(1)));
        now = backoff.until() + seconds(5);
    }
}

TEST(Backoff, BeginsSmallAgainAfterAQuietTime) {
    Backoff backoff(seconds(1), seconds(60));
    backoff.begin(kBegin);
    backoff.begin(kBegin + seconds(60));  // 59 s after the end of the first rest
    EXPECT_EQ(backoff.until(), kBegin + seconds(62));
    backoff.begin(kBegin + seconds(122));
    EXPECT_EQ(backoff.until(), kBegin + seconds(123));
}

TEST(Backoff, AnEndForgetsWhatWas) {
    Backoff backoff(seconds(1), seconds(60));
    backoff.begin(kBegin);
    backoff.begin(kBegin + seconds(1));
    backoff.end();
    EXPECT_FALSE(backoff.rests(kBegin + seconds(1)));
    backoff.begin(kBegin + seconds(1));
    EXPECT_EQ(backoff.until(), kBegin + seconds(2));
}

}  // namespace
}  // namespace continuo::policy
