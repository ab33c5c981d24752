#include "cnapt/links/app_tags.hpp"

#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::cnapt::links {
namespace {

using base::PathMode;

struct AppTagsTest : testing::Test {
    uint16_t tag_of(std::string_view name, PathMode mode) {
        return tags_.tag_of(name, mode, tell_);
    }

    AppTags tags_;
    std::vector<std::string> told_;
    AppTags::Tell tell_ = [this](uint16_t tag, const std::string& name, PathMode mode) {
        told_.push_back(std::to_string(tag) + " " + name + " " +
                        std::string(base::to_string(mode)));
    };
};

TEST_F(AppTagsTest, ANameHasATagForEachModeAndEachIsToldOnce) {
    EXPECT_EQ(tag_of("web", PathMode::Handover), 1);
    EXPECT_EQ(tag_of("web", PathMode::Packet), 2);
    EXPECT_EQ(tag_of("web", PathMode::Handover), 1);
    EXPECT_EQ(tag_of("call", PathMode::Handover), 3);
    const std::vector<std::string> expected = {"1 web handover", "2 web packet", "3 call handover"};
    EXPECT_EQ(told_, expected);
}

TEST_F(AppTagsTest, FlowsWithoutANameHaveTagZeroWhoseModeIsToldWhenItChanges) {
    EXPECT_EQ(tag_of("", PathMode::Handover), 0);
    EXPECT_TRUE(told_.empty()) << "SNAPT takes it for granted";
    EXPECT_EQ(tag_of("", PathMode::Packet), 0);
    EXPECT_EQ(tag_of("", PathMode::Packet), 0);
    EXPECT_EQ(told_, std::vector<std::string>{"0  packet"});
}

TEST_F(AppTagsTest, ANewAssociationIsToldAll) {
    (void)tag_of("web", PathMode::Handover);
    (void)tag_of("", PathMode::Packet);
    const std::vector<std::string> before = std::exchange(told_, {});
    tags_.tell_all(tell_);
    EXPECT_EQ(told_, before);
}

TEST_F(AppTagsTest, TooManyNamesHaveNoTag) {
    for (size_t i = 0; i < AppTags::kMaxApps; ++i) {
        EXPECT_EQ(tag_of("app" + std::to_string(i), PathMode::Handover), i + 1);
    }
    EXPECT_EQ(tag_of("another", PathMode::Handover), 0);
    EXPECT_EQ(tag_of("app0", PathMode::Handover), 1);
    EXPECT_EQ(told_.size(), AppTags::kMaxApps);
}

}  // namespace
}  // namespace continuo::cnapt::links
