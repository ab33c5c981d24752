#include "cnapt/snapts/learned_snapts.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::snapts {
namespace {

control::DirectoryEntry entry(const std::string& snapt, const std::string& address) {
    return {snapt, "continuo", {*base::Endpoint::parse(address)}, 0, 1000};
}

std::vector<std::string> names(const LearnedSnapts& snapts) {
    std::vector<std::string> names;
    for (const auto& [name, snapt] : snapts.all()) {
        names.push_back(name);
    }
    return names;
}

class LearnedSnaptsTest : public testing::Test {
  protected:
    LearnedSnapts snapts{"continuo", {"zrh-1", "zrh-2"}};
    const control::DirectoryEntry own = entry("zrh-1", "203.0.113.1:9347");
    const control::DirectoryEntry other = entry("ber-1", "203.0.113.2:9347");
};

using Names = std::vector<std::string>;

TEST_F(LearnedSnaptsTest, LearnsWhatIsNotConfigured) {
    EXPECT_TRUE(snapts.take("zrh-1", {{own, other}}));
    EXPECT_EQ(names(snapts), Names{"ber-1"});
    EXPECT_EQ(snapts.all().at("ber-1"),
              (LearnedSnapt{{{"203.0.113.2", 9347}}, "zrh-1", false, true}));
    EXPECT_TRUE(snapts.is_listed("ber-1"));
    EXPECT_TRUE(snapts.is_listed("zrh-1"));
    EXPECT_FALSE(snapts.take("zrh-1", {{own, other}})) << "nothing new";
}

TEST_F(LearnedSnaptsTest, TakesNamesToLookUp) {
    control::DirectoryEntry named = other;
    named.names.push_back({"snapt.example.org", 443});
    snapts.take("zrh-1", {{named}});
    const std::vector<config::HostPort> both = {{"203.0.113.2", 9347}, {"snapt.example.org", 443}};
    EXPECT_EQ(snapts.all().at("ber-1").addresses, both);
}

TEST_F(LearnedSnaptsTest, ATellerReplacesWhatItToldBefore) {
    snapts.take("zrh-1", {{other}});
    EXPECT_TRUE(snapts.take("zrh-1", {{entry("ber-1", "203.0.113.3:9347")}}));
    EXPECT_EQ(snapts.all().at("ber-1").addresses.front().host, "203.0.113.3");
    EXPECT_FALSE(snapts.take("zrh-2", {{other}})) << "who told first says where it is";
    EXPECT_FALSE(snapts.take("zrh-1", {{own}}));
    EXPECT_TRUE(snapts.is_listed("ber-1")) << "the other one lists it still";
    EXPECT_TRUE(snapts.take("zrh-2", {{other}})) << "and says where it is";
    EXPECT_EQ(snapts.all().at("ber-1").addresses.front().host, "203.0.113.2");
    EXPECT_TRUE(snapts.take("zrh-2", {{own}}));
    EXPECT_FALSE(snapts.is_listed("ber-1"));
    EXPECT_EQ(names(snapts), Names{"ber-1"}) << "it may have flows";
    snapts.take("zrh-2", {{other}});
    EXPECT_TRUE(snapts.is_listed("ber-1"));
    snapts.take("zrh-2", {{own}});
    snapts.forget("ber-1");
    EXPECT_TRUE(snapts.all().empty());
}

TEST_F(LearnedSnaptsTest, AnOfferIsTakenFromTheSnaptItself) {
    control::DirectoryEntry dear = other;
    dear.load_permille = 900;
    dear.price_permille = 3000;
    control::DirectoryEntry self = own;
    self.load_permille = 2000;
    self.no_way_out.ipv6 = true;
    dear.no_way_out.ipv4 = true;
    snapts.take("zrh-1", {{self, dear}});
    EXPECT_EQ(snapts.offer("ber-1").load, 0.0);
    EXPECT_EQ(snapts.offer("ber-1").price, 1.0);
    EXPECT_EQ(snapts.offer("zrh-1").load, 1.0) << "no more than there can be";
    EXPECT_TRUE(snapts.offer("zrh-1").no_way_out.ipv6);
    EXPECT_FALSE(snapts.offer("ber-1").no_way_out.ipv4);
}

// Two that name each other would list each other for ever.
TEST_F(LearnedSnaptsTest, OnlyConfiguredOnesTeach) {
    snapts.take("zrh-1", {{other}});
    control::DirectoryEntry itself = other;
    itself.load_permille = 300;
    itself.price_permille = 2000;
    EXPECT_FALSE(snapts.take("ber-1", {{itself, entry("ber-2", "203.0.113.4:9347")}}));
    EXPECT_EQ(names(snapts), Names{"ber-1"});
    EXPECT_EQ(snapts.offer("ber-1").load, 0.3);
    EXPECT_EQ(snapts.offer("ber-1").price, 2.0);
    snapts.take("zrh-1", {{own}});
    EXPECT_FALSE(snapts.is_listed("ber-1"));
}

TEST_F(LearnedSnaptsTest, LeavesOutWhatCannotBe) {
    control::DirectoryEntry foreign = other;
    foreign.realm = "other";
    control::DirectoryEntry bad_name = other;
    bad_name.snapt = "a/b";
    control::DirectoryEntry bad_host = other;
    bad_host.addresses.clear();
    bad_host.names = {{"host name", 9347}};
    EXPECT_FALSE(snapts.take("zrh-1", {{foreign, bad_name, bad_host, entry("l", "127.0.0.1:9347"),
                                        entry("m", "224.0.0.1:9347"), entry("n", "[fe80::1]:9347"),
                                        entry("o", "0.0.0.0:1")}}));
    EXPECT_TRUE(snapts.all().empty());
    EXPECT_EQ(snapts.left_out(), 7U);
}

TEST_F(LearnedSnaptsTest, PrivateAddressesAreBelievedOfASnaptThatHasOneItself) {
    const control::DirectoryEntry mesh = entry("mesh-1", "10.1.2.3:9347");
    EXPECT_FALSE(snapts.take("zrh-1", {{mesh}}));
    EXPECT_EQ(snapts.left_out(), 1U);
    control::DirectoryEntry both = mesh;
    both.addresses.push_back(*base::Endpoint::parse("203.0.113.2:9347"));
    EXPECT_TRUE(snapts.take("zrh-1", {{both}}));
    EXPECT_EQ(snapts.all().at("mesh-1").addresses.size(), 1U) << "the other is left out";
    EXPECT_TRUE(snapts.take("zrh-1", {{both}}, true));
    EXPECT_EQ(snapts.all().at("mesh-1").addresses.size(), 2U);
    EXPECT_TRUE(snapts.all().at("mesh-1").may_be_private);
    LearnedSnapts next("continuo", {"zrh-1"});
    next.restore(snapts.text());
    EXPECT_EQ(next.all(), snapts.all());
}

TEST(MayCall, NeverWhatIsOfThisHostItsLinkOrAGroup) {
    for (const char* text :
         {"127.0.0.1", "127.9.9.9", "0.0.0.0", "0.1.2.3", "169.254.1.1", "224.0.0.1", "240.0.0.1",
          "255.255.255.255", "::", "::1", "fe80::1", "ff02::1", "::ffff:127.0.0.1", "::127.0.0.1",
          "64:ff9b::7f00:1", "64:ff9b::a9fe:101"}) {
        for (const bool may_be_private : {false, true}) {
            EXPECT_FALSE(may_call(*base::IpAddress::parse(text), may_be_private)) << text;
        }
    }
    for (const char* text : {"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::1",
                             "::ffff:10.0.0.1", "64:ff9b::c0a8:101"}) {
        EXPECT_FALSE(may_call(*base::IpAddress::parse(text), false)) << text;
        EXPECT_TRUE(may_call(*base::IpAddress::parse(text), true)) << text;
    }
    for (const char* text : {"203.0.113.2", "2001:db8::1", "64:ff9b::cb00:7102"}) {
        EXPECT_TRUE(may_call(*base::IpAddress::parse(text), false)) << text;
    }
}

TEST_F(LearnedSnaptsTest, HasALimit) {
    control::Directory directory;
    for (size_t i = 0; i < kMaxSnapts; ++i) {
        directory.entries.push_back(entry("s" + std::to_string(i), "203.0.113.9:9347"));
    }
    snapts.take("zrh-1", directory);
    EXPECT_EQ(snapts.all().size(), kMaxSnapts - 2) << "two are configured";
    EXPECT_EQ(snapts.left_out(), 2U);
    EXPECT_FALSE(snapts.is_listed("s5"));
    snapts.take("zrh-1", {{entry("s6", "203.0.113.9:9347")}});
    EXPECT_FALSE(snapts.is_listed("s6")) << "the others may have flows";
    snapts.forget("s0");
    snapts.take("zrh-1", {{entry("s6", "203.0.113.9:9347")}});
    EXPECT_TRUE(snapts.is_listed("s6"));
}

TEST_F(LearnedSnaptsTest, LastsOverARestart) {
    snapts.take("zrh-1", {{other, entry("ber-2", "[2001:db8::4]:9347")}});
    LearnedSnapts next("continuo", {"zrh-1", "zrh-2"});
    next.restore(snapts.text());
    EXPECT_EQ(next.all(), snapts.all());
    EXPECT_TRUE(next.is_listed("ber-1")) << "nothing has been heard yet";
    next.take("zrh-2", {{own}});
    EXPECT_TRUE(next.is_listed("ber-1")) << "it was another that told of it";
    next.take("zrh-1", {{other}});
    EXPECT_TRUE(next.is_listed("ber-1"));
    EXPECT_FALSE(next.is_listed("ber-2"));
    LearnedSnapts last("continuo", {"zrh-1"});
    last.restore(next.text());
    EXPECT_EQ(names(last), (Names{"ber-1", "ber-2"})) << "flows of the run before may be bound";
    EXPECT_TRUE(last.is_listed("ber-1"));
    EXPECT_FALSE(last.is_listed("ber-2"));
}

TEST_F(LearnedSnaptsTest, AFileMayHoldAnything) {
    const std::string text = snapts.text();
    for (const std::string_view bad :
         {"", "{", "7", "[7]", "[{}]", R"([{"name":"ber-1","told_by":"zrh-1"}])",
          R"([{"name":"ber-1","told_by":"ber-2","addresses":["203.0.113.2:9347"]}])",
          R"([{"name":"a/b","told_by":"zrh-1","addresses":["203.0.113.2:9347"]}])",
          R"([{"name":"zrh-2","told_by":"zrh-1","addresses":["203.0.113.2:9347"]}])",
          R"([{"name":"ber-1","told_by":"zrh-1","addresses":["no address:", 3]}])"}) {
        snapts.restore(bad);
        EXPECT_TRUE(snapts.all().empty()) << bad;
    }
    EXPECT_EQ(snapts.text(), text);
}

}  // namespace
}  // namespace continuo::cnapt::snapts
