#include "common/base/ip_address.hpp"
#include "common/config/section.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

// Reads `text` with `reader` and gives what was reported.
template <typename Reader>
std::vector<std::string> read(std::string_view text, Reader reader) {
    DiagnosticSink sink("f.toml");
    if (const auto tree = parse_toml(text, sink)) {
        Section root(*tree, "", sink);
        reader(root);
        root.finish();
    }
    std::vector<std::string> texts;
    for (const Diagnostic& diagnostic : sink.take()) {
        texts.push_back(to_text(diagnostic));
    }
    return texts;
}

using Lines = std::vector<std::string>;

TEST(Section, GivesFallbacksForMissingKeysWithoutAWord) {
    EXPECT_EQ(read("",
                   [](Section& root) {
                       EXPECT_TRUE(root.boolean("b", true));
                       EXPECT_EQ(root.integer<uint16_t>("i", 7, 0, 9), 7);
                       EXPECT_EQ(root.text("t", "x"), "x");
                       EXPECT_EQ(root.size_bytes("s", 5, 0, 9), 5U);
                       EXPECT_FALSE(root.child("c").is_present());
                       EXPECT_TRUE(root.tables("r").empty());
                       EXPECT_TRUE(root.texts("l").empty());
                   }),
              Lines{});
}

TEST(Section, ReportsAllMistakesInTheOrderOfTheFile) {
    const Lines lines = read("b = 1\ni = 2.0\nzz = 0\nt = [1]\n", [](Section& root) {
        root.text("t", "");
        root.integer<int>("i", 0, -3, 3);
        root.boolean("b", false);
    });
    EXPECT_EQ(lines, (Lines{"f.toml:1:5: error: \"b\" is 1; expected true or false",
                            "f.toml:2:5: error: \"i\" is 2.0; expected an integer from -3 to 3",
                            "f.toml:3:1: error: unknown key \"zz\"; expected one of b, i, t",
                            "f.toml:4:5: error: \"t\" is a list; expected a string"}));
}

TEST(Section, TakesOneValueOrAList) {
    EXPECT_EQ(read("a = \"192.0.2.0/24\"\nb = [\"2001:db8::/32\", \"198.51.100.1\"]\n",
                   [](Section& root) {
                       EXPECT_EQ(root.list("a", base::IpPrefix::parse, "x").size(), 1U);
                       EXPECT_EQ(root.list("b", base::IpPrefix::parse, "x").size(), 2U);
                   }),
              Lines{});
}

TEST(Section, ReadsQuantitiesWithAndWithoutUnits) {
    const Lines lines =
        read("a = \"2s\"\nb = 1500\nc = \"1MiB\"\nd = \"2mbit\"\ne = 2.5\nf = \"x\"\n",
             [](Section& root) {
                 const auto ms = base::milliseconds(1);
                 const auto most = base::seconds(10);
                 EXPECT_EQ(root.duration("a", {}, ms, {}, most), base::seconds(2));
                 EXPECT_EQ(root.duration("b", {}, ms, {}, most), 1500 * ms);
                 EXPECT_EQ(root.size_bytes("c", 0, 0, 1U << 30U), 1U << 20U);
                 EXPECT_EQ(root.rate_bits_per_s("d", 0, 1U << 30U), 2'000'000U);
                 EXPECT_DOUBLE_EQ(root.number("e", 0, 0, 3), 2.5);
                 EXPECT_DOUBLE_EQ(root.number("f", 1, 0, 3), 1);
             });
    EXPECT_EQ(lines, Lines{"f.toml:6:5: error: \"f\" is \"x\"; expected a number from 0 to 3"});
}

TEST(Section, RefusesNumbersThatAreNotNumbers) {
    const Lines lines = read("a = nan\nb = inf\nc = -inf\n", [](Section& root) {
        const auto ms = base::milliseconds(1);
        EXPECT_EQ(root.duration("a", ms, ms, {}, 2 * ms), ms);
        EXPECT_EQ(root.duration("b", ms, ms, {}, 2 * ms), ms);
        EXPECT_DOUBLE_EQ(root.number("c", 1, 0, 3), 1);
    });
    EXPECT_EQ(lines.size(), 3U);
}

TEST(Section, SuggestsOnlyWhatIsNear) {
    const std::vector<std::string> known = {"hold_ms", "fill", "ipv4", "ipv6"};
    EXPECT_EQ(nearest("hodl_ms", known), "hold_ms");
    EXPECT_EQ(nearest("fil", known), "fill");
    EXPECT_EQ(nearest("ipv5", known), "ipv4");
    EXPECT_EQ(nearest("colour", known), "");
    EXPECT_EQ(nearest("x", known), "");
    EXPECT_EQ(nearest(std::string(100'000, 'x'), known), "");
}

TEST(Section, NamesMissingKeysWithTheirTable) {
    EXPECT_EQ(read("[a]\n\n[a.b]\n",
                   [](Section& root) {
                       Section a = root.child("a");
                       a.required_text("name", "a name", nullptr);
                       a.child("b").required_text("x", "an x", nullptr);
                   }),
              (Lines{"f.toml:1:1: error: missing key \"name\" in [a]; expected a name",
                     "f.toml:3:1: error: missing key \"x\" in [a.b]; expected an x"}));
}

}  // namespace
}  // namespace continuo::config
