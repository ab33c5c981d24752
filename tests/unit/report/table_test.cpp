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

TEST(Table, LeavesOutTheHighestRankUntilItFits) {
    Table table({{"A"}, {"B", Align::Left, 2}, {"C", Align::Left, 1}, {"D", Align::Left, 2}});
    table.add_row({"aaaa", "bbbb", "cccc", "dddd"});
    EXPECT_EQ(table.render(false, 22), "A     B     C     D\naaaa  bbbb  cccc  dddd\n");
    EXPECT_EQ(table.render(false, 21), "A     C\naaaa  cccc\n") << "all of a rank";
    EXPECT_EQ(table.render(false, 15), "A     C\naaaa  cccc\n");
    EXPECT_EQ(table.render(false, 9), "A\naaaa\n");
}

TEST(Table, LeavesOutFirstWhatSaysNothing) {
    Table table({{"A"}, {"B", Align::Left, 9}, {"C", Align::Left, 1}});
    table.add_row({"aaaa", "bbbb", "-"});
    table.add_row({"aaaa", "-", ""});
    EXPECT_EQ(table.render(false, 12), "A     B\naaaa  bbbb\naaaa  -\n");
}

TEST(Table, CutsWhatIsLongerThanEnoughBeforeItLeavesOutAColumn) {
    Table table({{"TO", Align::Left, 0, 10}, {"B", Align::Left, 1}});
    table.add_row({"192.0.2.1", "bbbb"});
    table.add_row({"[2001:db8:1:2::3]:443", "bbbb"});
    EXPECT_EQ(table.render(false, 16), "TO          B\n192.0.2.1   bbbb\n[2001:d...  bbbb\n");
    EXPECT_EQ(table.render(false, 20),
              "TO              B\n192.0.2.1       bbbb\n[2001:db8:1...  bbbb\n");
    EXPECT_EQ(table.render(false), "TO                     B\n192.0.2.1              bbbb\n"
                                   "[2001:db8:1:2::3]:443  bbbb\n");
    EXPECT_EQ(table.render(false, 15), "TO\n192.0.2.1\n[2001:db8:1:...\n");
}

TEST(Table, ShortensWhatHasToStay) {
    Table table({{"NAME"}, {"N", Align::Right}});
    table.add_row({"j\xC3\xBCrgens-laptop", "7"});
    EXPECT_EQ(table.render(false, 13), "NAME        N\nj\xC3\xBCrgens...  7\n");
    EXPECT_EQ(table.render(false, 1), "NAME      N\nj\xC3\xBCrge...  7\n") << "not to nothing";
}

TEST(Wrapped, BreaksBehindCommasElseAtBlanks) {
    EXPECT_EQ(wrapped("deny  10.0.0.0/8, fc00::/7, fe80::/10\nx", 30, 6),
              "deny  10.0.0.0/8, fc00::/7,\n      fe80::/10\nx");
    EXPECT_EQ(wrapped("one two three", 8, 2), "one two\n  three");
    EXPECT_EQ(wrapped("one two three", 13, 2), "one two three");
    EXPECT_EQ(wrapped("a-word-without-any-blank", 8, 2), "a-word-without-any-blank");
    EXPECT_EQ(wrapped("", 8, 2), "");
    EXPECT_EQ(wrapped("a\n\nb\n", 8, 2), "a\n\nb\n");
    const std::string coloured_text = "state " + coloured("up", Colour::Green, true) + " since 9";
    EXPECT_EQ(wrapped(coloured_text, 16, 2), coloured_text) << "a colour takes no place";
}

TEST(FirstLines, CutsBehindALine) {
    EXPECT_EQ(first_lines("a\nb\nc", 2), "a\nb\n");
    EXPECT_EQ(first_lines("a\nb", 2), "a\nb");
    EXPECT_EQ(first_lines("a\nb\n", SIZE_MAX), "a\nb\n");
    EXPECT_EQ(first_lines("", 3), "");
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

// A carriage return alone would let a terminal write over what stands before it.
TEST(SafeOutput, KeepsTheLineEndsOfCsvAndNoOtherCarriageReturn) {
    EXPECT_EQ(safe_output("a,b\r\n1,2\r\n"), "a,b\r\n1,2\r\n");
    EXPECT_EQ(safe_output("ab\rc\r\r\n\r"), "ab\\u000dc\\u000d\r\n\\u000d");
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

TEST(Format, DenariiHaveEveryMicroDenarius) {
    EXPECT_EQ(format_denarii(0), "0.000000");
    EXPECT_EQ(format_denarii(51'220'418), "51.220418");
    EXPECT_EQ(format_denarii(-5), "-0.000005");
    EXPECT_EQ(format_denarii(INT64_MIN), "-9223372036854.775808");
}

TEST(Format, UtcIsOneInstantForEveryReader) {
    EXPECT_EQ(format_utc(0), "1970-01-01T00:00:00Z");
    EXPECT_EQ(format_utc(1795435509), "2026-11-23T12:05:09Z");
}

}  // namespace
}  // namespace continuo::report
