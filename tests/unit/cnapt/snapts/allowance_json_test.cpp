#include "cnapt/snapts/allowance_json.hpp"

#include <limits>

#include <gtest/gtest.h>

namespace continuo::cnapt::snapts {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

std::string money_of(const control::Allowance& allowance) {
    report::JsonWriter json;
    write_money(json, allowance);
    return json.take();
}

std::string money_of(int64_t balance_ud, int64_t limit_ud, int64_t unbooked_ud) {
    control::Allowance allowance;
    allowance.balance_ud = balance_ud;
    allowance.credit = control::AllowanceCredit{limit_ud, unbooked_ud};
    return money_of(allowance);
}

TEST(AllowanceJson, SaysWhatIsLeft) {
    EXPECT_EQ(money_of(-7, 20, 3),
              R"({"balance_ud":-7,"credit_ud":20,"unbooked_ud":3,"left_ud":10})");
}

TEST(AllowanceJson, WithoutACreditNobodyKnowsWhatIsLeft) {
    control::Allowance allowance;
    EXPECT_EQ(money_of(allowance), "null") << "neither bookings nor a credit";
    allowance.balance_ud = -7;
    EXPECT_EQ(money_of(allowance),
              R"({"balance_ud":-7,"credit_ud":null,"unbooked_ud":null,"left_ud":null})");
    allowance.balance_ud.reset();
    allowance.credit = control::AllowanceCredit{20, 3};
    EXPECT_EQ(money_of(allowance), "null") << "a credit without a balance";
}

// A SNAPT may send any 64 bits.
TEST(AllowanceJson, NoAmountOfASnaptOverflows) {
    EXPECT_EQ(money_of(kMost, kMost, kLeast),
              R"({"balance_ud":1000000000000000000,"credit_ud":1000000000000000000,)"
              R"("unbooked_ud":-1000000000000000000,"left_ud":3000000000000000000})");
    EXPECT_EQ(money_of(kLeast, kLeast, kMost),
              R"({"balance_ud":-1000000000000000000,"credit_ud":-1000000000000000000,)"
              R"("unbooked_ud":1000000000000000000,"left_ud":-3000000000000000000})");
    control::Allowance allowance;
    allowance.balance_ud = kLeast;
    EXPECT_EQ(money_of(allowance), R"({"balance_ud":-1000000000000000000,"credit_ud":null,)"
                                   R"("unbooked_ud":null,"left_ud":null})");
}

}  // namespace
}  // namespace continuo::cnapt::snapts
