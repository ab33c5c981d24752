#include "common/config/document.hpp"

#include <gtest/gtest.h>

namespace continuo::config {
namespace {

struct Parsed {
    std::optional<Node> tree;
    std::vector<Diagnostic> diagnostics;
};

Parsed parse(std::string_view text) {
    DiagnosticSink sink("f.toml");
    Parsed parsed;
    parsed.tree = parse_toml(text, sink);
    parsed.diagnostics = sink.take();
    return parsed;
}

const Node& at(const Node& table, std::string_view key) {
    const Member* member = table.find(key);
    EXPECT_NE(member, nullptr) << key;
    static const Node kNone;
    return member == nullptr ? kNone : member->value;
}

TEST(TomlReader, KeepsValuesAndTheirPlaces) {
    const Parsed parsed = parse("a = 1\n"
                                "[x.y]\n"
                                "  k = \"v\" # comment\n"
                                "list = [1,\n"
                                "  \"two\"]\n"
                                "[[r]]\n"
                                "m = { p = [\"a\"], q.z = 0x10 }\n"
                                "'quo ted' = true\n"
                                "[[r]]\n"
                                "d = 1.5\n");
    ASSERT_TRUE(parsed.tree);
    const Node& y = at(at(*parsed.tree, "x"), "y");
    EXPECT_EQ(y.place, (Place{2, 1}));
    EXPECT_EQ(at(y, "k").text, "v");
    EXPECT_EQ(at(y, "k").place, (Place{3, 7}));
    EXPECT_EQ(y.find("k")->key_place, (Place{3, 3}));
    EXPECT_EQ(at(y, "list").items.at(1).place, (Place{5, 3}));
    const Node& rules = at(*parsed.tree, "r");
    ASSERT_EQ(rules.items.size(), 2U);
    EXPECT_EQ(rules.items[0].find("quo ted")->key_place, (Place{8, 1}));
    EXPECT_EQ(at(at(at(rules.items[0], "m"), "q"), "z").integer, 16);
    EXPECT_EQ(at(at(rules.items[0], "m"), "q").find("z")->key_place, (Place{7, 20}));
    EXPECT_EQ(rules.items[1].place, (Place{9, 1}));
    EXPECT_DOUBLE_EQ(at(rules.items[1], "d").real, 1.5);
}

TEST(TomlReader, KeepsTheOrderOfTheFile) {
    const Parsed parsed = parse("z = 1\na = 2\nm = 3\n");
    ASSERT_TRUE(parsed.tree);
    ASSERT_EQ(parsed.tree->members.size(), 3U);
    EXPECT_EQ(parsed.tree->members[0].key, "z");
    EXPECT_EQ(parsed.tree->members[1].key, "a");
    EXPECT_EQ(parsed.tree->members[2].key, "m");
}

TEST(TomlReader, SeesIntegersThatDoNotFit) {
    const Parsed parsed = parse("a = 9223372036854775807\nb = 9223372036854775808\n"
                                "c = 0xFFFFFFFFFFFFFFFFFFFF\nd = -9_223_372_036_854_775_808\n");
    ASSERT_TRUE(parsed.tree);
    EXPECT_FALSE(at(*parsed.tree, "a").overflow);
    EXPECT_TRUE(at(*parsed.tree, "b").overflow);
    EXPECT_TRUE(at(*parsed.tree, "c").overflow);
    EXPECT_FALSE(at(*parsed.tree, "d").overflow);
}

TEST(TomlReader, TakesEmptyTextBomAndMissingLastLineFeed) {
    EXPECT_TRUE(parse("").tree);
    EXPECT_TRUE(parse("\n# only a comment").tree);
    const Parsed parsed = parse("\xef\xbb\xbf"
                                "a = 1");
    ASSERT_TRUE(parsed.tree);
    EXPECT_EQ(at(*parsed.tree, "a").integer, 1);
}

TEST(TomlReader, RefusesWhatWouldTakeTooLong) {
    const std::string deep(100, '[');
    EXPECT_FALSE(parse("a = " + deep).tree);
    const std::string braces = [] {
        std::string text = "a = ";
        for (int i = 0; i < 100; ++i) {
            text += "{b=";
        }
        return text;
    }();
    EXPECT_FALSE(parse(braces).tree);
    std::string dotted = "a";
    for (int i = 0; i < 100; ++i) {
        dotted += ".a";
    }
    EXPECT_FALSE(parse(dotted + " = 1\n").tree);
    EXPECT_FALSE(parse("[" + dotted + "]\n").tree);
    EXPECT_FALSE(parse("# " + std::string(kMaxDocumentBytes, 'x')).tree);
    EXPECT_FALSE(parse("a = [" + std::string(kMaxLineBytes, ' ') + "1]\n").tree);
    // A bracket in a string or comment is no nesting.
    EXPECT_TRUE(parse("a = \"" + deep + "\" # " + deep + "\nb = '''\n" + deep + "'''\n").tree);
    // Nothing hides behind a long string's end.
    EXPECT_FALSE(parse("a = [\"\"\"x\"\"\"\", " + deep + "\n").tree);
}

TEST(TomlReader, SurvivesEveryTruncation) {
    const std::string text =
        "a = [1, {b = \"\\u00e9\"}, 1979-05-27T07:32:00Z]\n[x.'y']\nk = '''\nz'''\n"
        "[[r]]\nf = -1.5e3\n";
    for (size_t length = 0; length <= text.size(); ++length) {
        const Parsed parsed = parse(text.substr(0, length));
        EXPECT_EQ(parsed.tree.has_value(), parsed.diagnostics.empty()) << length;
    }
}

}  // namespace
}  // namespace continuo::config
