#include "common/report/table.hpp"

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

TEST(Table, AlignsColumnsByCharacters) {
    Table table({{"USER"}, {"UP", Align::Right}, {"STATE"}});
    table.add_row({"alice", "12.1 MiB", "up"});
    table.add_row({"j\xC3\xBCrg", "5 B"});
    EXPECT_EQ(table.render(false), "USER         UP  STATE\n"
                                   "alice  12.1 MiB  up\n"
                                   "j\xC3\xBCrg        5 B\n");
}

TEST(Table, ColoursOnlyForATerminal) {
    Table table({{"A"}});
    table.add_row({"x"}, Colour::Red);
    EXPECT_EQ(table.render(false), "A\nx\n");
    EXPECT_EQ(table.render(true), "\x1b[1mA\x1b[0m\n\x1b[31mx\x1b[0m\n");
}

TEST(SafeOutput, KeepsLinesAndOurColoursAndWritesOutTheRest) {
    const std::string ours =
        "a\tb\n" + coloured("c", Colour::Red, true) + coloured("d", Colour::Bold, true);
    EXPECT_EQ(safe_output(ours), ours);
    EXPECT_EQ(safe_output("\x1b]0;title\x07"), "\\u001b]0;title\\u0007");
    EXPECT_EQ(safe_output("{\"node\":\"\xC2\x9B\xE2\x80\xAE\"}\n"),
              "{\"node\":\"\\u009b\\u202e\"}\n");
    EXPECT_EQ(safe_output("\x1b[2J\x9B\x1b"), "\\u001b[2J\xEF\xBF\xBD\\u001b");
    EXPECT_EQ(safe_output(""), "");
}

TEST(Table, LetsNoC1AndNoDirectionThrough) {
    Table table({{"A"}, {"B"}});
    table.add_row({"x\xC2\x9By", "a\xE2\x80\xAE\x9Bz"});
    EXPECT_EQ(table.render(false), "A    B\nx?y  a??z\n");
}

TEST(Table, LetsNoControlCharacterThrough) {
    Table table({{"A"}});
    table.add_row({"x\x1b[31m\n", "dropped"});
    EXPECT_EQ(table.render(false), "A\nx?[31m?\n");
}

TEST(Formats, ShowThreeDigitsAndAUnit) {
    EXPECT_EQ(format_bytes(0), "0 B");
    EXPECT_EQ(format_bytes(1023), "1023 B");
    EXPECT_EQ(format_bytes(1024), "1.00 KiB");
    EXPECT_EQ(format_bytes(12'687'770), "12.1 MiB");
    EXPECT_EQ(format_bytes(UINT64_MAX), "16.0 EiB");
    EXPECT_EQ(format_signed_bytes(-1536), "-1.50 KiB");
    EXPECT_EQ(format_signed_bytes(INT64_MIN), "-8.00 EiB");
    EXPECT_EQ(format_bits_per_s(12'400'000), "12.4 Mbit/s");
    EXPECT_EQ(format_bits_per_s(999), "999 bit/s");
    EXPECT_EQ(format_bits_per_s(-1), "-");
}

TEST(Formats, ShowTimesPercentagesAndCounts) {
    EXPECT_EQ(format_milliseconds(0.421), "0.42 ms");
    EXPECT_EQ(format_milliseconds(38), "38 ms");
    EXPECT_EQ(format_milliseconds(12'345), "12.3 s");
    EXPECT_EQ(format_milliseconds(std::nullopt), "-");
    EXPECT_EQ(format_uptime(7869), "02:11:09");
    EXPECT_EQ(format_uptime(3 * 86'400 + 4 * 3600 + 12 * 60), "3d 04:12");
    EXPECT_EQ(format_percent(41.25), "41.2 %");
    EXPECT_EQ(format_percent(std::nullopt), "-");
    EXPECT_EQ(format_count(1'234'567), "1 234 567");
    EXPECT_EQ(format_count(999), "999");
}

}  // namespace
}  // namespace continuo::report
