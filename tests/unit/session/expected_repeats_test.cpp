#include "common/session/expected_repeats.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

TEST(ExpectedRepeats, AreThoseThatComeSoonAfterTheNodeAskedOrByAnotherPath) {
    ExpectedRepeats repeats;
    const TimePoint asked = TimePoint{} + seconds(100);
    const base::Duration rtt = milliseconds(200);
    EXPECT_FALSE(repeats.has_asked());
    repeats.on_asked(asked);
    EXPECT_TRUE(repeats.may_be(false, rtt, asked + milliseconds(1400)));
    EXPECT_FALSE(repeats.may_be(false, rtt, asked + milliseconds(1401)));
    EXPECT_TRUE(repeats.may_be(true, rtt, asked + milliseconds(10'400)));
    EXPECT_FALSE(repeats.may_be(true, rtt, asked + milliseconds(10'401)));
}

}  // namespace
}  // namespace continuo::session
