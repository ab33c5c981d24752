#include "common/report/json.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

TEST(JsonWriter, WritesNestedValues) {
    JsonWriter json;
    json.begin_object();
    json.field("name", "zrh-1")
        .field("up", true)
        .field("rtt_ms", 1.25)
        .field("none", std::optional<int>());
    json.key("list").begin_array().integer(-1).string("x").begin_object().end_object().end_array();
    json.key("raw").raw("[1]");
    json.end_object();
    EXPECT_EQ(json.take(), R"({"name":"zrh-1","up":true,"rtt_ms":1.25,"none":null,)"
                           R"("list":[-1,"x",{}],"raw":[1]})");
}

TEST(JsonWriter, KeepsIntegersExact) {
    JsonWriter json;
    json.begin_array();
    json.value(std::numeric_limits<uint64_t>::max()).value(std::numeric_limits<int64_t>::min());
    json.value(uint8_t{7}).value(int16_t{-7});
    json.end_array();
    EXPECT_EQ(json.take(), "[18446744073709551615,-9223372036854775808,7,-7]");
}

TEST(JsonWriter, WritesRealNumbersWithFixedPrecision) {
    JsonWriter json;
    json.begin_array();
    json.number(0.1 + 0.2).number(1e21).number(-0.0).number(2.0 / 3.0, 2).number(5, 0).number(1e-9);
    json.number(std::nan("")).number(INFINITY);
    json.end_array();
    EXPECT_EQ(json.take(), "[0.3,1000000000000000000000,0,0.67,5,0,null,null]");
}

TEST(JsonString, EscapesWhatMustBeEscaped) {
    EXPECT_EQ(json_string("\xC2\x9B\xE2\x80\xAE\xE2\x81\xA6\xC3\xA4"),
              "\"\\u009b\\u202e\\u2066\xC3\xA4\"");
    EXPECT_EQ(json_string("a\"b\\c\n\t\r\x01\x7f/"), R"("a\"b\\c\n\t\r\u0001\u007f/")");
    EXPECT_EQ(json_string(std::string_view("a\0b", 3)), R"("a\u0000b")");
}

TEST(JsonString, ReplacesBytesThatAreNotUtf8) {
    EXPECT_EQ(json_string("\xC3\xA9\xF0\x9F\x98\x80"), "\"\xC3\xA9\xF0\x9F\x98\x80\"");
    EXPECT_EQ(json_string("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
    EXPECT_EQ(json_string("\xC3"), "\"\xEF\xBF\xBD\"");
    EXPECT_EQ(json_string("\xC0\xAF"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");  // overlong
    EXPECT_EQ(json_string("\xED\xA0\x80"),
              "\"\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"");  // surrogate
}

}  // namespace
}  // namespace continuo::report
