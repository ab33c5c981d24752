#include "snapt/nat/settled_trouble.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::nat {
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

TEST(SettledForwarding, AVersionThatIsLostLeavesTheOther) {
    const std::vector<base::IpVersion> both = {base::IpVersion::V4, base::IpVersion::V6};
    SettledForwarding trouble;
    trouble.begin({"", "", "no default route", both, false});
    EXPECT_TRUE(trouble.forwards());
    EXPECT_FALSE(trouble.is_serious()) << "it never had IPv6";
    trouble.begin({"", "", "no default route", both, true});
    EXPECT_TRUE(trouble.is_serious());
    EXPECT_TRUE(trouble.forwards());
    EXPECT_EQ(trouble.no_way_out(), (control::VersionSet{false, true}));
    EXPECT_EQ(trouble.text(), "no way out for IPv6: no default route");
    const ForwardingTroubles worse = {"", "wan has no carrier", "wan has no carrier", both};
    EXPECT_FALSE(trouble.note(worse));
    EXPECT_TRUE(trouble.note(worse)) << "the second in a row";
    EXPECT_FALSE(trouble.forwards());
    EXPECT_EQ(trouble.text(),
              "no way out for IPv4: wan has no carrier; no way out for IPv6: wan has no carrier");
    const ForwardingTroubles well = {"", "", "", both};
    EXPECT_FALSE(trouble.note(well) || trouble.note(well));
    EXPECT_TRUE(trouble.note(well));
    EXPECT_TRUE(trouble.forwards());
    EXPECT_EQ(trouble.text(), "");
}

TEST(SettledForwarding, WithLeasesOfOneVersionThatOneIsAll) {
    SettledForwarding trouble;
    trouble.begin({"", "no default route", "", {base::IpVersion::V4}});
    EXPECT_FALSE(trouble.forwards());
    EXPECT_TRUE(trouble.is_serious());
    trouble.begin({"", "", "no default route", {base::IpVersion::V6}, false});
    EXPECT_TRUE(trouble.is_serious()) << "nothing else passes";
    trouble.begin({"a chain drops", "", "", {base::IpVersion::V4}});
    EXPECT_FALSE(trouble.forwards());
    EXPECT_EQ(trouble.no_way_out(), control::VersionSet{});
}

}  // namespace
}  // namespace continuo::snapt::nat
