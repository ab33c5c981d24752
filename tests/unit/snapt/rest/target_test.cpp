#include "snapt/rest/api.hpp"
#include "snapt/rest/target.hpp"

#include <gtest/gtest.h>

namespace continuo::rest {
namespace {

using Path = std::vector<std::string>;

TEST(RestTarget, IsSplitAndDecoded) {
    const auto target =
        parse_target("/v1/users/al%69ce/statement?month=2026-11&zone=Europe%2FZurich");
    ASSERT_TRUE(target);
    EXPECT_EQ(target->path, (Path{"v1", "users", "alice", "statement"}));
    EXPECT_EQ(target->value("month"), "2026-11");
    EXPECT_EQ(target->value("zone"), "Europe/Zurich");
    EXPECT_EQ(target->value("by"), std::nullopt);
}

TEST(RestTarget, SlashIsDecodedAfterSplitting) {
    EXPECT_EQ(parse_target("/v1/a%2fb")->path, (Path{"v1", "a/b"}));
    EXPECT_EQ(parse_target("/v1/..")->path, (Path{"v1", ".."}));
}

TEST(RestTarget, RootHasNoSegments) {
    EXPECT_EQ(parse_target("/")->path, Path());
    EXPECT_EQ(parse_target("/?a=b+c")->value("a"), "b c");
    EXPECT_EQ(parse_target("/v1/")->path, (Path{"v1", ""}));
    EXPECT_EQ(parse_target("/?a")->value("a"), "");
}

TEST(RestTarget, RefusesWhatIsNone) {
    for (const char* text :
         {"", "v1", "http://host/v1", "*", "/a#b", "/a%", "/a%4", "/a%zz", "/a%00b", "/a%0a",
          "/a\x7f", "/?=b", "/?a=1&a=2", "/?a=%", "/?a&&b", "/1/2/3/4/5/6/7/8/9",
          "/?1=&2=&3=&4=&5=&6=&7=&8=&9=&10=&11=&12=&13=&14=&15=&16=&17="}) {
        EXPECT_FALSE(parse_target(text)) << text;
    }
    EXPECT_TRUE(parse_target("/" + std::string(kMaxTargetBytes - 1, 'a')));
    EXPECT_FALSE(parse_target("/" + std::string(kMaxTargetBytes, 'a')));
}

TEST(RestTarget, EveryTruncationIsReadOrRefused) {
    const std::string whole =
        "/v1/users/a%6Cice/records?after=zrh%2f7%2f9&limit=10&from=2026-11-01";
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
        const auto target = parse_target(std::string_view(whole).substr(0, bytes));
        EXPECT_EQ(target.has_value(), bytes > 0 && whole[bytes - 1] != '%' &&
                                          (bytes < 2 || whole[bytes - 2] != '%') &&
                                          whole[bytes - 1] != '&')
            << bytes;
    }
}

TEST(RestNumbers, ThoseThatDoublesDoNotHoldAreText) {
    EXPECT_EQ(with_large_as_text(
                  R"({"a":9007199254740992,"b":9007199254740993,"c":-9223372036854775808})"),
              R"({"a":9007199254740992,"b":"9007199254740993","c":"-9223372036854775808"})");
    EXPECT_EQ(with_large_as_text(
                  R"(["9007199254740993 \" 9007199254740993",1.25e300,0.12345678901234567890])"),
              R"(["9007199254740993 \" 9007199254740993",1.25e300,0.12345678901234567890])");
    EXPECT_EQ(with_large_as_text(R"("unfinished \)"), R"("unfinished \)");
    EXPECT_EQ(with_large_as_text(""), "");
}

}  // namespace
}  // namespace continuo::rest
