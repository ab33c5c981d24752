#include "common/base/token_bucket.hpp"

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

// Bytes that pass in `span` from now on, in pieces of `piece` bytes.
uint64_t passes(TokenBucket& bucket, TimePoint& now, Duration span, uint64_t piece) {
    uint64_t bytes = 0;
    for (const TimePoint end = now + span; now < end; now += microseconds(100)) {
        while (bucket.may_pass(now) && bytes < 1'000'000'000) {
            bucket.take(piece, now);
            bytes += piece;
        }
    }
    return bytes;
}

TEST(TokenBucket, LetsARateThroughWhateverTheSizeOfThePieces) {
    for (const uint64_t piece : {40U, 1500U, 65'535U}) {
        TokenBucket bucket(milliseconds(50));
        bucket.set_rate(8'000'000);
        TimePoint now{seconds(1000)};
        passes(bucket, now, seconds(1), piece);
        EXPECT_NEAR(static_cast<double>(passes(bucket, now, seconds(20), piece)), 20'000'000,
                    70'000)
            << piece;
    }
}

TEST(TokenBucket, SavesUpNoMoreThanItsBurst) {
    TokenBucket bucket(milliseconds(500));
    bucket.set_rate(8'000'000);
    TimePoint now{seconds(1000)};
    EXPECT_NEAR(static_cast<double>(passes(bucket, now, milliseconds(1), 1000)), 500'000, 3000);
    now += seconds(60);
    EXPECT_NEAR(static_cast<double>(passes(bucket, now, milliseconds(1), 1000)), 500'000, 3000);
}

TEST(TokenBucket, IsNoLimitWithoutARate) {
    TokenBucket bucket(milliseconds(50));
    const TimePoint now{seconds(1000)};
    bucket.take(uint64_t{1} << 40, now);
    EXPECT_TRUE(bucket.may_pass(now));
    EXPECT_EQ(bucket.free_at(), TimePoint{});
    bucket.set_rate(8000);
    bucket.take(100'000, now);
    EXPECT_FALSE(bucket.may_pass(now));
    EXPECT_GT(bucket.free_at(), now + seconds(99));
    bucket.set_rate(0);
    EXPECT_TRUE(bucket.may_pass(now));
}

}  // namespace
}  // namespace continuo::base
