#include "common/report/allowance_text.hpp"

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

std::string text_of(const char* json) {
    return allowance_text(*JsonValue::parse(json));
}

TEST(AllowanceText, SaysHowMuchIsUsedWhatFollowsAndUntilWhen) {
    EXPECT_EQ(text_of(R"({"of":"quota","state":"free","quota_bytes":1048576,"used_bytes":262144,)"
                      R"("until":1796083200,"rate_bits_per_s":null})"),
              "25.0 % of the quota of 1.00 MiB is used; it begins anew 2026-12-01T00:00:00Z");
    EXPECT_EQ(text_of(R"({"of":"quota","state":"stopped","quota_bytes":1048576,"used_bytes":9,)"
                      R"("until":1796083200})"),
              "the quota of 1.00 MiB is used up; the SNAPT refuses everything; it begins anew "
              "2026-12-01T00:00:00Z");
    EXPECT_EQ(text_of(R"({"of":"quota","state":"throttled","quota_bytes":1048576,"used_bytes":9,)"
                      R"("until":1796083200,"rate_bits_per_s":128000})"),
              "the quota of 1.00 MiB is used up; 128 kbit/s are left; it begins anew "
              "2026-12-01T00:00:00Z");
    EXPECT_EQ(text_of(R"({"of":"credit","state":"noted","quota_bytes":null,"until":null})"),
              "no credit is left; until a payment is booked");
    EXPECT_EQ(text_of(R"({"of":"credit","state":"warned","quota_bytes":null,"until":null})"),
              "the credit runs low: most of it is used");
}

TEST(AllowanceText, SaysWhatIsLeftOfTheMoney) {
    const auto money = [](const char* json) { return money_text(*JsonValue::parse(json)); };
    EXPECT_EQ(money(R"({"balance_ud":5000000,"credit_ud":0,"unbooked_ud":800000,)"
                    R"("left_ud":4200000})"),
              "4.200000 denarii are left (balance 5.000000, not booked yet 0.800000, credit "
              "0.000000)");
    EXPECT_EQ(money(R"({"balance_ud":-1500000,"credit_ud":null,"left_ud":null})"),
              "the balance is -1.500000 denarii");
    for (const char* json : {"null", "{}", "5"}) {
        EXPECT_EQ(money(json), "") << json;
    }
}

TEST(AllowanceText, IsEmptyWhereNothingIsLimited) {
    for (const char* json : {"null", "{}", "5", R"({"of":"quota","quota_bytes":null})",
                             R"({"of":"quota","quota_bytes":0,"state":"free"})"}) {
        EXPECT_EQ(text_of(json), "") << json;
    }
}

}  // namespace
}  // namespace continuo::report
