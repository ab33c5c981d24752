#include "cnapt/snapts/usage_sum.hpp"
#include "common/report/status_report.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::snapts {
namespace {

using report::JsonValue;

JsonValue json(const std::string& text) {
    auto value = JsonValue::parse(text);
    EXPECT_TRUE(value) << text;
    return value ? std::move(value).value() : JsonValue();
}

std::string row(const std::string& keys, int64_t bytes) {
    const std::string number = std::to_string(bytes);
    return "{" + keys + (keys.empty() ? "" : ",") + "\"flows\":1,\"payload_up\":" + number +
           ",\"payload_down\":2,\"inner_up\":" + number + ",\"inner_down\":3,\"pre\":" + number +
           ",\"post\":10,\"saved\":" + std::to_string(bytes - 10) +
           ",\"saved_percent\":1.0,\"gross_ud\":null,\"discount_ud\":null,\"net_ud\":null}";
}

std::string answer(const std::string& rows) {
    return R"({"from":1,"to":null,"zone":"Europe/Zurich","rows":[)" + rows + "]}";
}

TEST(UsageSum, AddsUpWhatSeveralSnaptsCounted) {
    UsageSum sum(json("{}"));
    sum.expect("zrh-1");
    sum.expect("bsl-1");
    EXPECT_FALSE(sum.is_complete());
    sum.add("zrh-1", answer(row("", 100)));
    EXPECT_FALSE(sum.is_complete());
    sum.add("bsl-1", answer(row("", 300)));
    EXPECT_TRUE(sum.is_complete());
    const JsonValue total = json(sum.json());
    EXPECT_EQ(total["from"].integer(), 1);
    EXPECT_TRUE(total["to"].is_null());
    EXPECT_EQ(total.text("zone"), "Europe/Zurich");
    ASSERT_EQ(total["rows"].items().size(), 1U);
    const JsonValue& only = total["rows"].items()[0];
    EXPECT_EQ(only["flows"].integer(), 2);
    EXPECT_EQ(only["payload_up"].integer(), 400);
    EXPECT_EQ(only["payload_down"].integer(), 4);
    EXPECT_EQ(only["inner_up"].integer(), 400);
    EXPECT_EQ(only["inner_down"].integer(), 6);
    EXPECT_EQ(only["pre"].integer(), 400);
    EXPECT_EQ(only["post"].integer(), 20);
    EXPECT_EQ(only["saved"].integer(), 380);
    EXPECT_EQ(only["saved_percent"].number(), 95.0);
    EXPECT_TRUE(only.has("net_ud"));
    EXPECT_TRUE(only["net_ud"].is_null());
    ASSERT_EQ(total["snapts"].items().size(), 2U);
    EXPECT_TRUE(total["snapts"].items()[0]["error"].is_null());
}

TEST(UsageSum, PricesAddUpWhereThereAreSome) {
    UsageSum sum(json("{}"));
    for (const char* snapt : {"a", "b"}) {
        sum.expect(snapt);
        sum.add(snapt, answer(R"({"flows":1,"gross_ud":50,"discount_ud":null,"net_ud":-7})"));
    }
    const JsonValue total = json(sum.json());
    const JsonValue& only = total["rows"].items()[0];
    EXPECT_EQ(only["gross_ud"].integer(), 100);
    EXPECT_TRUE(only["discount_ud"].is_null());
    EXPECT_EQ(only["net_ud"].integer(), -14);
}

TEST(UsageSum, ThePriceOfAMegabyteIsThatOfTheSums) {
    UsageSum sum(json("{}"));
    for (const char* snapt : {"a", "b"}) {
        sum.expect(snapt);
    }
    sum.add("a", answer(R"({"payload_up":1000000,"payload_down":2000000,"gross_ud":9,)"
                        R"("discount_ud":2,"net_ud":7,"net_ud_per_mb":2})"));
    sum.add("b", answer(R"({"payload_up":0,"payload_down":1000000,"gross_ud":9,)"
                        R"("discount_ud":0,"net_ud":9,"net_ud_per_mb":9})"));
    const JsonValue total = json(sum.json());
    EXPECT_EQ(total["rows"].items()[0]["net_ud_per_mb"].integer(), 4) << "16 for 4 MB";
    const std::string text = report::usage_report_text(total, false, 200);
    EXPECT_NE(text.find("  NET/MB\n"), std::string::npos) << text;
    EXPECT_NE(text.find("0.000016  0.000004\n"), std::string::npos) << text;
    UsageSum nothing(json("{}"));
    nothing.expect("a");
    nothing.add("a", answer(R"({"payload_up":0,"gross_ud":0,"discount_ud":0,"net_ud":0})"));
    EXPECT_TRUE(json(nothing.json())["rows"].items()[0]["net_ud_per_mb"].is_null());
}

TEST(UsageSum, EachSnaptTellsWhatUsageCostsThere) {
    UsageSum sum(json("{}"));
    for (const char* snapt : {"a", "b", "c"}) {
        sum.expect(snapt);
    }
    const std::string one = row("", 1);
    sum.add("a", R"({"from":1,"to":null,"zone":"UTC","price":1.25,"rows":[)" + one + "]}");
    sum.add("b", answer(one));
    sum.fail("c", "no control link");
    const JsonValue total = json(sum.json());
    EXPECT_EQ(total["snapts"].items()[0]["price"].number(), 1.25);
    EXPECT_TRUE(total["snapts"].items()[1]["price"].is_null()) << "an older SNAPT tells none";
    EXPECT_TRUE(total["snapts"].items()[2]["price"].is_null());
    const std::string text = report::usage_report_text(total, false, 200);
    EXPECT_NE(text.find("a: usage costs 1.25 times the plan's price\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("b: usage"), std::string::npos) << text;
}

TEST(UsageSum, OneUnknownPriceMakesTheSumUnknown) {
    const std::string priced = R"({"flows":1,"gross_ud":50,"discount_ud":7,"net_ud":43})";
    const std::string unpriced = R"({"flows":1,"gross_ud":null,"net_ud":null})";
    for (const bool is_first : {true, false}) {
        UsageSum sum(json("{}"));
        sum.expect("a");
        sum.expect("b");
        sum.add("a", answer(is_first ? unpriced : priced));
        sum.add("b", answer(is_first ? priced : unpriced));
        const JsonValue total = json(sum.json());
        const JsonValue& only = total["rows"].items()[0];
        EXPECT_EQ(only["flows"].integer(), 2);
        for (const char* price : {"gross_ud", "discount_ud", "net_ud"}) {
            EXPECT_TRUE(only[price].is_null()) << price << is_first;
        }
    }
}

TEST(UsageSum, NumbersThatAreTooLargeStayTheLargest) {
    UsageSum sum(json("{}"));
    for (const char* snapt : {"a", "b"}) {
        sum.expect(snapt);
        sum.add(snapt, answer(R"({"inner_up":9223372036854775807,"saved":-9223372036854775807,)"
                              R"("gross_ud":9223372036854775807})"));
    }
    const JsonValue total = json(sum.json());
    const JsonValue& only = total["rows"].items()[0];
    EXPECT_EQ(only["inner_up"].integer(), INT64_MAX);
    EXPECT_EQ(only["saved"].integer(), INT64_MIN);
    EXPECT_EQ(only["gross_ud"].integer(), INT64_MAX);
}

TEST(UsageSum, GroupsStayApartAndInTheirOrder) {
    UsageSum sum(json(R"({"by":["class","app"]})"));
    for (const char* snapt : {"a", "b"}) {
        sum.expect(snapt);
        sum.add(snapt, answer(row(R"("class":"ht-hd","app":"ssh")", 1) + "," +
                              row(R"("class":"lt-ld","app":"0")", 10) + "," +
                              row(R"("class":"lt-ld","app":"lt-ld")", 100) + "," +
                              row(R"("class":"lt-ld")", 1000)));
    }
    const JsonValue total = json(sum.json());
    const auto& rows = total["rows"].items();
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_FALSE(rows[0].has("app"));
    EXPECT_EQ(rows[0].text("class"), "lt-ld");
    EXPECT_EQ(rows[0]["inner_up"].integer(), 2000);
    EXPECT_EQ(rows[3].text("class"), "ht-hd");
    EXPECT_EQ(rows[3].text("app"), "ssh");
    EXPECT_EQ(rows[3]["inner_up"].integer(), 2);
}

TEST(UsageSum, SaysWhoIsMissing) {
    UsageSum sum(json(R"({"by":["snapt"]})"));
    for (const char* snapt : {"zrh-1", "bsl-1", "gva-1"}) {
        sum.expect(snapt);
    }
    sum.fail("lug-1", "no control link");
    sum.add("bsl-1", answer(row(R"("snapt":"bsl-1")", 7)));
    sum.add("zrh-1", R"({"error":"too many rows"})");
    EXPECT_FALSE(sum.is_complete()) << "gva-1 may answer still";
    const std::string text = report::usage_report_text(json(sum.json()), false);
    for (const char* part :
         {"bsl-1", "not included: zrh-1 (too many rows)", "not included: gva-1 (no answer)",
          "not included: lug-1 (no control link)"}) {
        EXPECT_NE(text.find(part), std::string::npos) << text;
    }
    EXPECT_EQ(text.find("not included: bsl-1"), std::string::npos) << text;
}

TEST(UsageSum, WhenNobodyAnswersItIsAnError) {
    UsageSum sum(json("7"));
    EXPECT_TRUE(sum.is_complete());
    EXPECT_TRUE(json(sum.json()).has("error"));
    sum.expect("zrh-1");
    sum.add("zrh-1", "no JSON");
    EXPECT_TRUE(sum.is_complete());
    EXPECT_NE(json(sum.json()).text("error").find("zrh-1"), std::string::npos);
}

TEST(UsageSum, NobodyIsCountedTwiceOrUnasked) {
    UsageSum sum(json("{}"));
    sum.expect("zrh-1");
    sum.add("zrh-1", answer(row("", 100)));
    sum.add("zrh-1", answer(row("", 100)));
    sum.add("other", answer(row("", 100)));
    EXPECT_EQ(json(sum.json())["rows"].items()[0]["inner_up"].integer(), 100);
}

}  // namespace
}  // namespace continuo::cnapt::snapts
