#include "cnapt/uplinks/near_links.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {
namespace {

constexpr uint32_t kGroup = 9347;
constexpr uint8_t kKernel = 2;
constexpr uint8_t kBoot = 3;
constexpr uint8_t kAdvertised = 9;
constexpr uint8_t kDhcp = 16;

base::IpAddress address(std::string_view text) {
    return base::IpAddress::parse(text).value();
}

// lo, cnapt0, an uplink, a VPN, a LAN; numbers 1 to 5.
class NearLinksTest : public testing::Test {
  protected:
    NearLinksTest() {
        uint32_t index = 0;
        for (const char* name : {"lo", "cnapt0", "wlan0", "wg0", "br-lan"}) {
            netlink::LinkEntry link;
            link.index = ++index;
            link.name = name;
            link.is_loopback = link.name == "lo";
            link.kind = link.name == "wg0" ? "wireguard" : "";
            net_.links.push_back(link);
        }
        rules_.lan = {"br-*"};
        add(3, "0.0.0.0/0");
    }
    void add(uint32_t index, std::string_view destination, uint8_t protocol = kBoot) {
        netlink::RouteEntry route;
        route.destination = base::IpPrefix::parse(destination).value();
        route.interface_index = index;
        route.protocol = protocol;
        net_.routes.push_back(route);
    }
    NearLinks near() const { return near_links(net_, rules_, snapts_, kGroup); }
    std::vector<uint32_t> indexes() const {
        std::vector<uint32_t> list;
        for (const NearLink& link : near().links) {
            list.push_back(link.index);
        }
        return list;
    }

    netlink::NetSnapshot net_;
    UplinkRules rules_;
    std::vector<base::IpAddress> snapts_ = {address("198.51.100.2")};
};
using Indexes = std::vector<uint32_t>;

TEST_F(NearLinksTest, AreThoseWithRoutesToPublicDestinationsAndNoUplinks) {
    EXPECT_EQ(indexes(), Indexes{}) << "nothing to tell apart";
    for (uint32_t index = 1; index <= 5; ++index) {
        add(index, "10.9.0.0/16");
        add(index, "fd00:9::/48");
    }
    EXPECT_EQ(indexes(), Indexes{});
    EXPECT_FALSE(near().is_counted());
    for (uint32_t index = 1; index <= 5; ++index) {
        add(index, "203.0.113.0/24");
    }
    EXPECT_EQ(indexes(), (Indexes{4, 5}));
    EXPECT_TRUE(near().is_counted());
}

TEST_F(NearLinksTest, ADefaultRouteInPartsMakesAnUplinkAlsoOfALanSide) {
    add(4, "2001:db8::/32");
    add(5, "2001:db8::/32");
    EXPECT_EQ(indexes(), (Indexes{4, 5}));
    add(4, "128.0.0.0/1");
    EXPECT_EQ(indexes(), Indexes{5});
    add(5, "2000::/3");
    EXPECT_EQ(indexes(), Indexes{});
}

TEST_F(NearLinksTest, ARouteToUniqueLocalAddressesIsNoDefaultRoute) {
    add(4, "fc00::/7");
    add(4, "203.0.113.0/24");
    EXPECT_EQ(indexes(), Indexes{4});
}

TEST_F(NearLinksTest, ARouteToASnaptMakesAnUplink) {
    add(4, "198.51.100.0/30");
    EXPECT_EQ(indexes(), Indexes{});
    snapts_.clear();
    EXPECT_EQ(indexes(), Indexes{4});
}

TEST_F(NearLinksTest, WhatTheNetworkHasConfiguredIsAnUplinkButALanSide) {
    add(4, "203.0.113.0/24");
    add(5, "203.0.113.0/24");
    EXPECT_EQ(indexes(), (Indexes{4, 5}));
    for (const uint8_t protocol : {kAdvertised, kDhcp}) {
        add(4, "192.0.2.0/24", protocol);
        EXPECT_EQ(indexes(), Indexes{5}) << int{protocol};
        net_.routes.pop_back();
    }
}

// An address may be of a lease without end: only the kind of the interface tells.
TEST_F(NearLinksTest, WhatMayBeALinkToStrangersIsAnUplinkButALanSide) {
    add(4, "203.0.113.0/24");
    add(5, "203.0.113.0/24", kKernel);
    net_.addresses.push_back({4, address("203.0.113.77"), 24});
    for (const char* kind : {"", "veth", "vlan", "bridge", "bond", "macvlan", "ipoib", "tu"}) {
        net_.links[3].kind = kind;
        EXPECT_EQ(indexes(), Indexes{5}) << kind;
    }
    for (const char* kind : {"tun", "wireguard", "gre", "xfrm", "vti6", "ppp", "vxlan", "batadv"}) {
        net_.links[3].kind = kind;
        EXPECT_EQ(indexes(), (Indexes{4, 5})) << kind;
    }
}

TEST_F(NearLinksTest, AnOnLinkPrefixWithoutAnAddressOfItIsARoutersWord) {
    add(4, "2001:db8::/32", kKernel);
    EXPECT_EQ(indexes(), Indexes{});
    net_.addresses.push_back({4, address("2001:db8::5"), 32});
    EXPECT_EQ(indexes(), Indexes{4});
}

TEST_F(NearLinksTest, AnUplinkInAGroupOfItsOwnCannotBeToldApart) {
    add(4, "203.0.113.0/24");
    net_.links[2].group = kGroup;  // until it is taken out
    EXPECT_TRUE(near().is_counted());
    net_.links[3].group = 7;
    EXPECT_EQ(near().links, (std::vector<NearLink>{{4, 7}}));
    EXPECT_TRUE(near().is_counted());
    net_.links[2].group = 7;
    EXPECT_FALSE(near().is_counted());
}

TEST(PrivatePrefixes, AreWhatNoAttackerGainsBy) {
    for (const char* text : {"10.1.2.3", "172.31.0.1", "192.168.1.1", "100.127.0.1", "169.254.1.1",
                             "fd00::1", "fe80::1"}) {
        EXPECT_TRUE(is_private(address(text))) << text;
    }
    for (const char* text :
         {"11.0.0.1", "172.32.0.1", "192.0.2.1", "100.128.0.1", "2001:db8::1", "::1", "ff02::1"}) {
        EXPECT_FALSE(is_private(address(text))) << text;
    }
}

TEST(UsableAddress, HasANetworkByItsPrefix) {
    const auto is_in = [](std::string_view other, std::string_view own, uint8_t length) {
        netlink::UsableAddress usable;
        usable.address = address(own);
        usable.prefix_length = length;
        return is_in_network(address(other), usable);
    };
    EXPECT_TRUE(is_in("192.168.1.3", "192.168.1.2", 24));
    EXPECT_TRUE(is_in("192.168.1.3", "192.168.1.2", 31));
    EXPECT_FALSE(is_in("192.168.1.3", "192.168.1.2", 32));
    EXPECT_TRUE(is_in("192.168.1.2", "192.168.1.2", 32));
    EXPECT_FALSE(is_in("192.168.9.3", "192.168.1.2", 21));
    EXPECT_TRUE(is_in("192.168.9.3", "192.168.1.2", 20));
    EXPECT_TRUE(is_in("2001:db8::1:1", "2001:db8::2", 64));
    EXPECT_FALSE(is_in("2001:db8:0:1::1", "2001:db8::2", 64));
    EXPECT_FALSE(is_in("::c0a8:102", "192.168.1.2", 0)) << "of another version";
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
