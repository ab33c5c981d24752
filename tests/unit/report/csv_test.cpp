#include "common/report/csv.hpp"

#include <array>

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

TEST(Csv, QuotesWhatWouldBeReadAsAnotherField) {
    EXPECT_EQ(csv_line({"a", "", "b c"}), "a,,b c\r\n");
    EXPECT_EQ(csv_line({"", "a"}), ",a\r\n");
    EXPECT_EQ(csv_line({"a,b", "say \"x\"", "1\n2"}), "\"a,b\",\"say \"\"x\"\"\",\"1\n2\"\r\n");
}

TEST(Csv, TextIsNoFormulaAndNumbersStay) {
    EXPECT_EQ(csv_line({"=1+1", "+1", "-a", "@a", "\ta"}), "'=1+1,'+1,'-a,'@a,'\ta\r\n");
    EXPECT_EQ(csv_line({"\ra", "=a,\"b\"", "-1+a", "-", "-inf"}),
              "\"'\ra\",\"'=a,\"\"b\"\"\",'-1+a,'-,'-inf\r\n");
    EXPECT_EQ(csv_line({"-6", "-17.65", "-1e-07", "0", "a=b", "'=1"}),
              "-6,-17.65,-1e-07,0,a=b,'=1\r\n");
}

TEST(Csv, RowsHaveTheFieldsThatAreNamed) {
    constexpr std::array<std::string_view, 4> kNames = {"b", "a", "c", "d"};
    const auto rows = JsonValue::parse(R"([{"a":"x,y","b":-1.5,"c":null,"e":1},{"d":[1],"c":{}}])");
    ASSERT_TRUE(rows);
    EXPECT_EQ(rows_csv(rows->items(), kNames), "b,a,c,d\r\n-1.5,\"x,y\",,\r\n,,,\r\n");
    EXPECT_EQ(rows_csv({}, kNames), "b,a,c,d\r\n");
    EXPECT_EQ(csv_row(std::string(R"({"a":true})"), kNames), ",true,,\r\n");
}

TEST(UsageCsv, NamesOfAppsAreNoFormulas) {
    const auto usage = JsonValue::parse(R"({"rows":[{"app":"=cmd|' /C calc'!A1","saved":-6}]})");
    ASSERT_TRUE(usage);
    const std::string text = usage_csv(*usage, {"app"});
    EXPECT_NE(text.find("\r\n'=cmd|' /C calc'!A1,"), std::string::npos) << text;
    EXPECT_NE(text.find(",-6,"), std::string::npos) << text;
}

TEST(UsageCsv, HasTheKeysAskedForAndTheNamesOfTheJson) {
    const auto usage = JsonValue::parse(
        R"({"rows":[{"user":"bob","account":3,"removed":"2026-11-27","class":"lt-ld","flows":2,)"
        R"("payload_up":10,"payload_down":20,"inner_up":12,"inner_down":22,"pre":34,"post":40,)"
        R"("undelivered":0,"tun_up":1,"tun_down":2,"as_sent":43,"saved":-6,)"
        R"("saved_percent":-17.65,"gross_ud":null,"discount_ud":5,"net_ud":9007199254740993,)"
        R"("net_ud_per_mb":-7}]})");
    ASSERT_TRUE(usage);
    EXPECT_EQ(usage_csv(*usage, {"class", "user"}),
              "user,account,removed,class,flows,payload_up,payload_down,inner_up,inner_down,pre,"
              "post,undelivered,tun_up,tun_down,as_sent,saved,saved_percent,gross_ud,discount_ud,"
              "net_ud,net_ud_per_mb\r\n"
              "bob,3,2026-11-27,lt-ld,2,10,20,12,22,34,40,0,1,2,43,-6,-17.65,,5,"
              "9007199254740993,-7\r\n");
}

TEST(UsageCsv, HasBalancesByUserAlone) {
    const auto usage = JsonValue::parse(R"({"rows":[{"user":"bob","balance_ud":-5}]})");
    ASSERT_TRUE(usage);
    EXPECT_TRUE(usage_csv(*usage, {"user"}).ends_with(",-5\r\n"));
    EXPECT_EQ(usage_csv(*usage, {"user", "day"}).find("balance_ud"), std::string::npos);
}

TEST(UsageCsv, HasItsHeadWithoutRows) {
    const auto usage = JsonValue::parse(R"({"rows":[]})");
    ASSERT_TRUE(usage);
    const std::string text = usage_csv(*usage, {"day"});
    EXPECT_TRUE(text.starts_with("day,flows,payload_up,")) << text;
    EXPECT_EQ(text.find("\r\n"), text.size() - 2);
}

}  // namespace
}  // namespace continuo::report
