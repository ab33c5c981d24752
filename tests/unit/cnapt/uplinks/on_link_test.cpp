#include "cnapt/uplinks/on_link.hpp"
#include "cnapt/uplinks/uplinks.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {
namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;

IpPrefix prefix(std::string_view text) {
    return IpPrefix::parse(text).value();
}

// lo, cnapt0, wlan0, wg0, br-lan, eth0; numbers 1 to 6.
class OnLinkTest : public testing::Test {
  protected:
    OnLinkTest() {
        uint32_t index = 0;
        for (const char* name : {"lo", "cnapt0", "wlan0", "wg0", "br-lan", "eth0"}) {
            netlink::LinkEntry link;
            link.index = ++index;
            link.name = name;
            link.is_up = true;
            link.has_carrier = true;
            link.is_loopback = link.name == "lo";
            link.kind = link.name == "wg0" ? "wireguard" : "";
            net_.links.push_back(link);
        }
        uplinks_.lan = {"br-*"};
        for (uint32_t at = 1; at <= index; ++at) {
            add(at, "0.0.0.0/0");
            add(at, "::/0");
        }
    }
    netlink::RouteEntry& add(uint32_t index, std::string_view destination) {
        netlink::RouteEntry route;
        route.destination = prefix(destination);
        route.interface_index = index;
        net_.routes.push_back(route);
        return net_.routes.back();
    }
    OnLinkNetworks networks() const {
        return on_link_networks(net_, uplinks_, {rules_, is_kill_switch_});
    }
    std::string texts() const {
        std::string text;
        for (const OnLinkNetwork& network : networks().list) {
            text += network.interface + " " + network.prefix.to_string() + "\n";
        }
        return text;
    }
    bool refuses(std::string_view address) const {
        return networks().refusing(IpAddress::parse(address).value()) != nullptr;
    }

    netlink::NetSnapshot net_;
    UplinkRules uplinks_;
    std::vector<OnLinkRule> rules_;
    bool is_kill_switch_ = false;
};

TEST_F(OnLinkTest, NetworksArePublicOnesOfUplinksWithoutAGatewayBetween) {
    for (uint32_t index = 1; index <= 6; ++index) {
        add(index, "2001:db8:" + std::to_string(index) + "::/64");
    }
    add(3, "2001:db8:99::/64").gateway = IpAddress::parse("fe80::1");
    add(3, "fd00:3::/64");
    add(3, "fe80::/64");
    add(3, "192.168.3.0/24");
    add(3, "198.51.100.0/24");
    EXPECT_EQ(texts(), "wlan0 2001:db8:3::/64\neth0 2001:db8:6::/64\nwlan0 198.51.100.0/24\n");
}

TEST_F(OnLinkTest, InterfacesThatLeadNowhereHaveNone) {
    add(6, "2001:db8:6::/64");
    EXPECT_TRUE(refuses("2001:db8:6::50"));
    net_.links[5].has_carrier = false;
    EXPECT_FALSE(refuses("2001:db8:6::50")) << "a cable that was pulled";
    net_.links[5].has_carrier = true;
    std::erase_if(net_.routes, [](const netlink::RouteEntry& route) {
        return route.interface_index == 6 && route.destination == prefix("::/0");
    });
    EXPECT_FALSE(refuses("2001:db8:6::50")) << "a bridge of containers";
}

TEST_F(OnLinkTest, NetworksAreNoLargerThanALan) {
    add(3, "2001:db8::/63");
    add(3, "2000::/3");
    add(3, "203.0.0.0/15");
    EXPECT_EQ(texts(), "");
    add(3, "2001:db8::/64");
    add(3, "2001:db8::77/128");
    add(3, "203.0.0.0/16");
    EXPECT_EQ(texts(), "wlan0 2001:db8::/64\nwlan0 2001:db8::77/128\nwlan0 203.0.0.0/16\n");
    net_.addresses.push_back({3, IpAddress::parse("2001:db8::77").value(), 128});
    EXPECT_EQ(texts(), "wlan0 2001:db8::/64\nwlan0 203.0.0.0/16\n") << "this host alone";
}

TEST_F(OnLinkTest, UnlessTheConfigurationSaysSomethingIpv6IsRefusedAndIpv4Tunnelled) {
    add(3, "2001:db8:3::/64");
    add(3, "198.51.100.0/24");
    EXPECT_TRUE(refuses("2001:db8:3::50"));
    EXPECT_FALSE(refuses("2001:db8:4::50"));
    EXPECT_FALSE(refuses("198.51.100.50"));
    EXPECT_TRUE(networks().near().empty());
    rules_ = {{"eth*", OnLink::Near}};
    EXPECT_TRUE(refuses("2001:db8:3::50")) << "another interface";
    rules_ = {{"*", OnLink::Refuse}};
    EXPECT_TRUE(refuses("198.51.100.50"));
    rules_ = {{"wlan*", OnLink::Near}, {"*", OnLink::Refuse}};
    EXPECT_FALSE(refuses("2001:db8:3::50"));
    EXPECT_EQ(networks().near(),
              (std::vector<IpPrefix>{prefix("198.51.100.0/24"), prefix("2001:db8:3::/64")}));
    is_kill_switch_ = true;
    EXPECT_TRUE(networks().near().empty()) << "it would be dropped";
    EXPECT_TRUE(refuses("2001:db8:3::50"));
}

TEST_F(OnLinkTest, TheNameItselfCountsThenTheLongestGlob) {
    const OnLinkRule any{"*", OnLink::Refuse};
    const OnLinkRule some{"wl*", OnLink::Tunnel};
    const OnLinkRule name{"wlan0", OnLink::Near};
    const OnLinkRule as_long{"wlan*", OnLink::Refuse};
    for (const auto& rules :
         {std::vector{any, some, name, as_long}, std::vector{as_long, name, some, any}}) {
        EXPECT_EQ(on_link_fate(rules, "wlan0", IpVersion::V6), OnLink::Near);
        EXPECT_EQ(on_link_fate(rules, "wlan1", IpVersion::V4), OnLink::Refuse);
        EXPECT_EQ(on_link_fate(rules, "wlp2s0", IpVersion::V6), OnLink::Tunnel);
        EXPECT_EQ(on_link_fate(rules, "eth0", IpVersion::V4), OnLink::Refuse);
    }
}

TEST_F(OnLinkTest, NetworksBeyondTheLimitAreCounted) {
    for (size_t i = 0; i < kMaxOnLinkNetworks + 3; ++i) {
        add(3, "2001:db8::" + std::to_string(i) + "/128");
        add(6, "2001:db8::" + std::to_string(i) + "/128");
    }
    EXPECT_EQ(networks().list.size(), kMaxOnLinkNetworks);
    EXPECT_EQ(networks().left_out, kMaxOnLinkNetworks + 6);
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
