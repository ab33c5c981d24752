#include "common/reception/expansion_budget.hpp"

#include <gtest/gtest.h>

namespace continuo::reception {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr uint64_t kFree = ExpansionBudget::kFreeBytes;
constexpr uint64_t kTimes = ExpansionBudget::kTimes;

TEST(ExpansionBudget, ASecondHasTheFreeBytesAndSomeTimesWhatCame) {
    ExpansionBudget budget;
    const TimePoint now{seconds(100)};
    EXPECT_EQ(budget.left_bytes(now), kFree);
    budget.earn(1000, now);
    EXPECT_EQ(budget.left_bytes(now), kFree + 1000 * kTimes);
    EXPECT_FALSE(budget.spend(kFree + 1000 * kTimes + 1, now));
    EXPECT_TRUE(budget.spend(kFree + 1000 * kTimes, now));
    EXPECT_EQ(budget.left_bytes(now), 0U);
    EXPECT_FALSE(budget.spend(1, now + milliseconds(850)));
    EXPECT_EQ(budget.left_bytes(now + milliseconds(1000)), kFree) << "and what came is old, too";
}

TEST(ExpansionBudget, NeverMoreInASecondThanTwiceTheFreeBytesAndWhatCame) {
    ExpansionBudget budget;
    TimePoint now{seconds(100)};
    uint64_t spent = 0;
    uint64_t earned = 0;
    for (int i = 0; i < 10'000; ++i, now += milliseconds(1)) {
        budget.earn(100, now);
        earned += 100;
        while (budget.spend(1400, now)) {
            spent += 1400;
        }
    }
    EXPECT_LE(spent, 11 * kFree + earned * kTimes);
    EXPECT_GE(spent, 9 * kFree + earned * kTimes * 9 / 10);
}

// Its size shows when it is made.
TEST(ExpansionBudget, WhatIsChargedBeyondIsWaitedFor) {
    ExpansionBudget budget;
    const TimePoint now{seconds(100)};
    budget.charge(kFree + 64 * 1000, now);
    EXPECT_EQ(budget.left_bytes(now), 0U);
    budget.earn(1000, now);
    EXPECT_EQ(budget.left_bytes(now), 0U);
    budget.earn(1, now);
    EXPECT_EQ(budget.left_bytes(now), kTimes);
}

TEST(ExpansionBudget, APauseSavesNothingUp) {
    ExpansionBudget budget;
    const TimePoint now{seconds(100)};
    budget.earn(1'000'000, now);
    EXPECT_EQ(budget.left_bytes(now + seconds(3600)), kFree);
}

}  // namespace
}  // namespace continuo::reception
