#include "common/turns/sole_user.hpp"

#include <gtest/gtest.h>

namespace continuo::turns {
namespace {

const base::TimePoint kStart = base::TimePoint{} + base::seconds(1000);

TEST(SoleUser, TheFirstIsAloneAtOnce) {
    const int user = 0;
    SoleUser users;
    users.note(&user, kStart);
    EXPECT_TRUE(users.is_sole(kStart));
}

TEST(SoleUser, AnotherOneEndsThatForAWhile) {
    const int user = 0;
    const int other = 0;
    SoleUser users;
    users.note(&user, kStart);
    users.note(&other, kStart);
    users.note(&user, kStart + base::seconds(1));
    EXPECT_FALSE(users.is_sole(kStart + kSoleUserAfter));
    users.note(&user, kStart + kSoleUserAfter);
    EXPECT_TRUE(users.is_sole(kStart + base::seconds(1) + kSoleUserAfter));
}

}  // namespace
}  // namespace continuo::turns
