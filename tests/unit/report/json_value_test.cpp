#include "common/report/json.hpp"
#include "common/report/json_value.hpp"

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

JsonValue parse(std::string_view text) {
    auto result = JsonValue::parse(text);
    EXPECT_TRUE(result) << text;
    return result ? std::move(*result) : JsonValue();
}

TEST(JsonValue, IsWrittenAsItWasRead) {
    for (const char* text : {R"({"a":[1,-2,2.5,true,null,"x\"y"],"b":{"c":18446744073709551615}})",
                             "[]", "{}", "null", R"("")"}) {
        EXPECT_EQ(json_text(parse(text)), text);
    }
}

TEST(JsonValue, ReadsEveryKind) {
    const JsonValue value =
        parse(R"({"a":[1,-2,2.5,true,null,"x\u00e9"],"b":{"c":18446744073709551615}})");
    const auto& items = value["a"].items();
    ASSERT_EQ(items.size(), 6U);
    EXPECT_EQ(items[0].integer(), 1);
    EXPECT_EQ(items[0].unsigned_integer(), 1U);
    EXPECT_EQ(items[1].integer(), -2);
    EXPECT_FALSE(items[1].unsigned_integer());
    EXPECT_DOUBLE_EQ(*items[2].number(), 2.5);
    EXPECT_FALSE(items[2].integer());
    EXPECT_EQ(items[3].boolean(), true);
    EXPECT_TRUE(items[4].is_null());
    EXPECT_EQ(items[5].string(), "x\xC3\xA9");
    EXPECT_EQ(value["b"]["c"].unsigned_integer(), UINT64_MAX);
    EXPECT_FALSE(value["b"]["c"].integer());
}

TEST(JsonValue, GivesNullForWhatIsNotThere) {
    const JsonValue value = parse(R"({"a":1,"a":2})");
    EXPECT_EQ(value["a"].integer(), 2);
    EXPECT_TRUE(value["x"]["y"]["z"].is_null());
    EXPECT_TRUE(value.has("a"));
    EXPECT_FALSE(value.has("x"));
    EXPECT_EQ(value.text("x", "none"), "none");
    EXPECT_TRUE(value["a"].items().empty());
}

TEST(JsonValue, RefusesWhatIsNotJson) {
    for (const std::string_view wrong :
         {"", "{", "[1,]", "{\"a\"}", "nul", "1 2", "'a'", "[1e999]", "\"\xFF\"", "{\"a\":1}}"}) {
        const auto result = JsonValue::parse(wrong);
        ASSERT_FALSE(result) << wrong;
        EXPECT_EQ(result.error().code, base::Errc::Malformed) << wrong;
    }
}

TEST(JsonValue, StopsAtItsLimits) {
    const JsonLimits limits{1000, 10, 4};
    EXPECT_TRUE(JsonValue::parse("[[[[]]]]", limits));
    EXPECT_EQ(JsonValue::parse("[[[[[]]]]]", limits).error().code, base::Errc::LimitReached);
    EXPECT_TRUE(JsonValue::parse("[1,2,3,4,5,6,7,8,9]", limits));
    EXPECT_EQ(JsonValue::parse("[1,2,3,4,5,6,7,8,9,10]", limits).error().code,
              base::Errc::LimitReached);
    EXPECT_EQ(JsonValue::parse(std::string(1001, ' '), limits).error().code,
              base::Errc::LimitReached);
    EXPECT_FALSE(JsonValue::parse(std::string(1'000'000, '[')));
}

TEST(JsonValue, SurvivesEveryTruncation) {
    const std::string_view text = R"({"a":[1,-2.5e3,"\u00e9\ud83d\ude00"],"b":{"c":null}})";
    for (size_t length = 0; length < text.size(); ++length) {
        EXPECT_FALSE(JsonValue::parse(text.substr(0, length))) << length;
    }
}

TEST(JsonValue, ReadsWhatTheWriterWrites) {
    JsonWriter json;
    json.begin_object().field("text", "a\"\\\n\x01\xC3\xA9").field("n", INT64_MIN).end_object();
    const JsonValue value = parse(json.take());
    EXPECT_EQ(value["text"].string(), "a\"\\\n\x01\xC3\xA9");
    EXPECT_EQ(value["n"].integer(), INT64_MIN);
}

}  // namespace
}  // namespace continuo::report
