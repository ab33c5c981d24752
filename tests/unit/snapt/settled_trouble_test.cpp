#include "snapt/settled_trouble.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt {
namespace {

TEST(SettledTrouble, BeginsWithTheSecondLookInARowAndEndsWithTheThirdWithout) {
    SettledTrouble trouble;
    EXPECT_FALSE(trouble.note("closed"));
    EXPECT_FALSE(trouble.note(""));
    EXPECT_FALSE(trouble.note("closed"));
    EXPECT_EQ(trouble.text(), "") << "one look, twice";
    EXPECT_TRUE(trouble.note("closed"));
    EXPECT_EQ(trouble.text(), "closed");
    EXPECT_FALSE(trouble.note(""));
    EXPECT_FALSE(trouble.note(""));
    EXPECT_FALSE(trouble.note("closed otherwise"));
    EXPECT_EQ(trouble.text(), "closed otherwise");
    EXPECT_FALSE(trouble.note(""));
    EXPECT_FALSE(trouble.note(""));
    EXPECT_TRUE(trouble.note(""));
    EXPECT_EQ(trouble.text(), "");
}

TEST(SettledTrouble, OneOfTheStartCountsAtOnce) {
    SettledTrouble trouble;
    trouble.begin("closed");
    EXPECT_EQ(trouble.text(), "closed");
    EXPECT_FALSE(trouble.note("closed"));
}

}  // namespace
}  // namespace continuo::snapt
