#include "snapt/store/money.hpp"
#include "snapt/users/allowance_message.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace continuo::snapt::users {
namespace {

using accounting::AccountMoney;
using store::kMaxBalanceUd;

TEST(AllowanceMessage, HasTheMoneyAsItIs) {
    accounting::Allowance now;
    EXPECT_FALSE(allowance_message(now).balance_ud) << "neither bookings nor a credit";
    now.money = AccountMoney{-7, 0, std::nullopt};
    EXPECT_EQ(allowance_message(now).balance_ud, -7);
    EXPECT_FALSE(allowance_message(now).credit);
    now.money = AccountMoney{-7, 3, 20};
    EXPECT_EQ(allowance_message(now).credit, (control::AllowanceCredit{20, 3}));
}

// The protocol's bound. A sum of charges has none but that of 64 bits.
TEST(AllowanceMessage, NoAmountIsBeyondTheBoundOfTheProtocol) {
    constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
    constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
    accounting::Allowance now;
    now.money = AccountMoney{kLeast, kMost, kMost};
    control::Allowance told = allowance_message(now);
    EXPECT_EQ(told.balance_ud, -kMaxBalanceUd);
    EXPECT_EQ(told.credit, (control::AllowanceCredit{kMaxBalanceUd, kMaxBalanceUd}));
    now.money = AccountMoney{kMaxBalanceUd + 1, kLeast, kMaxBalanceUd};
    told = allowance_message(now);
    EXPECT_EQ(told.balance_ud, kMaxBalanceUd);
    EXPECT_EQ(told.credit, (control::AllowanceCredit{kMaxBalanceUd, -kMaxBalanceUd}));
}

}  // namespace
}  // namespace continuo::snapt::users
