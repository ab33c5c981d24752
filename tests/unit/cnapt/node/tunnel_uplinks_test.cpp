#include "cnapt/node/tunnel_uplinks.hpp"
#include "tests/support/net_namespace.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::node {
namespace {

using Names = std::vector<std::string>;

Names names_of(const std::vector<OtherVpn>& vpns) {
    Names names;
    for (const OtherVpn& vpn : vpns) {
        names.push_back(vpn.interface + (vpn.is_in_main ? "" : " by rule") +
                        (vpn.takes_programs ? " first" : ""));
    }
    return names;
}

netlink::NetSnapshot host(const char* kind_of_second) {
    netlink::NetSnapshot network;
    network.links.push_back({1, "lo", true, true, true, 65536});
    network.links.push_back({2, "wlan0", true, true, false, 1500});
    network.links.push_back({3, "vpn0", true, true, false, 1500, 0, kind_of_second});
    return network;
}

constexpr uint8_t kByProgram = 3;
constexpr uint8_t kByDhcp = 16;

void add_route(netlink::NetSnapshot& network,
               uint32_t index,
               std::string_view destination,
               const char* gateway = nullptr,
               uint8_t protocol = kByProgram) {
    netlink::RouteEntry route;
    route.destination = base::IpPrefix::parse(destination).value();
    route.interface_index = index;
    route.protocol = protocol;
    if (gateway != nullptr) {
        route.gateway = base::IpAddress::parse(gateway).value();
    }
    network.routes.push_back(route);
}

std::vector<std::string> texts(const std::vector<base::IpPrefix>& prefixes) {
    std::vector<std::string> list;
    for (const base::IpPrefix& prefix : prefixes) {
        list.push_back(prefix.to_string());
    }
    return list;
}

TEST(Carriers, AreHostsThatGatewaysOfOtherInterfacesThanTunnelsLeadTo) {
    netlink::NetSnapshot network = host("tun");
    EXPECT_TRUE(carriers(network).empty());
    add_route(network, 2, "10.5.0.1/32", "192.168.1.1");
    add_route(network, 2, "2001:db8::10/128", "fe80::1");
    add_route(network, 2, "203.0.113.10/32", "192.168.1.1");
    add_route(network, 2, "203.0.113.10/32", "192.168.1.2");
    add_route(network, 2, "203.0.113.0/24", "192.168.1.1");
    add_route(network, 2, "2001:db8:1::/64", "fe80::1");
    add_route(network, 2, "0.0.0.0/0", "192.168.1.1");
    add_route(network, 2, "203.0.113.7/32");
    add_route(network, 2, "203.0.113.8/32", "192.168.1.1", kByDhcp);
    add_route(network, 3, "10.99.0.1/32", "10.99.0.2");
    add_route(network, 9, "203.0.113.9/32", "192.168.1.1");
    EXPECT_EQ(texts(carriers(network)),
              (Names{"203.0.113.10/32", "2001:db8::10/128", "10.5.0.1/32"}));
}

TEST(Carriers, HaveALimitThatLeavesOutPrivateOnesFirst) {
    netlink::NetSnapshot network = host("tun");
    for (size_t i = 0; i <= kMaxCarriers; ++i) {
        add_route(network, 2, "10.0.0." + std::to_string(i + 1) + "/32", "192.168.1.1");
    }
    add_route(network, 2, "203.0.113.10/32", "192.168.1.1");
    EXPECT_EQ(carriers(network).size(), kMaxCarriers);
    EXPECT_EQ(carriers(network).front().to_string(), "203.0.113.10/32");
}

TEST(OtherVpns, AreTunnelsWithADefaultRouteAlsoInParts) {
    for (const char* to : {"0.0.0.0/0", "128.0.0.0/1", "::/0", "2000::/3"}) {
        netlink::NetSnapshot network = host("wireguard");
        add_route(network, 2, "0.0.0.0/0");
        EXPECT_EQ(names_of(vpns_with_default_route(network, {}, 0)), Names{});
        add_route(network, 3, "10.0.0.0/8");
        add_route(network, 3, "198.18.0.0/15");
        add_route(network, 3, "fd00::/8");
        EXPECT_EQ(names_of(vpns_with_default_route(network, {}, 0)), Names{});
        add_route(network, 3, to);
        EXPECT_EQ(names_of(vpns_with_default_route(network, {}, 0)), Names{"vpn0"}) << to;
    }
    netlink::NetSnapshot modem = host("ppp");
    add_route(modem, 3, "0.0.0.0/0");
    EXPECT_EQ(names_of(vpns_with_default_route(modem, {}, 0)), Names{});
}

// As wg-quick does it: a table of its own, and rules.
class OtherVpnsByRule : public test::NetNamespaceTest {};

TEST_F(OtherVpnsByRule, AreFoundAsThePacketsOfCnaptAreRouted) {
    constexpr uint32_t kMark = 0x9347;
    const base::IpAddress snapt = base::IpAddress::parse("198.51.100.2").value();
    const auto asked = [&](uint32_t mark) {
        io::EventLoop loop;
        const auto monitor = netlink::NetMonitor::start(loop, [](const netlink::NetEvent&) {});
        return names_of(
            vpns_with_default_route((*monitor)->snapshot(), std::span(&snapt, 1), mark));
    };
    ASSERT_TRUE(net().shell("ip link add up0 type veth peer name x0 && ip link set up0 up && "
                            "ip link set x0 up && ip addr add 192.0.2.2/24 dev up0 && "
                            "ip route add default via 192.0.2.1 && "
                            "ip tuntap add vpn0 mode tun && ip link set vpn0 up && "
                            "ip addr add 10.99.0.2/32 dev vpn0"));
    EXPECT_EQ(asked(kMark), Names{});
    ASSERT_TRUE(net().shell("ip route add default dev vpn0 table 51820 && "
                            "ip rule add not fwmark 51820 table 51820 priority 32765"));
    EXPECT_EQ(asked(kMark), Names{"vpn0 by rule"});
    ASSERT_TRUE(net().shell("ip rule add not fwmark 51820 table 51820 priority 9346"));
    EXPECT_EQ(asked(kMark), Names{"vpn0 by rule"}) << "those of cnapt would go before";
    ASSERT_TRUE(net().shell("ip rule add table 9347 priority 9347 protocol 147"));
    EXPECT_EQ(asked(kMark), Names{"vpn0 by rule first"}) << "they have not yet";
    ASSERT_TRUE(net().shell("ip rule del priority 9347 && ip rule del priority 9346 && "
                            "ip rule add not fwmark 51820 table 51820 priority 5000"));
    EXPECT_EQ(asked(kMark), Names{"vpn0 by rule first"}) << "nor would they";
    EXPECT_EQ(asked(51820), Names{}) << "its own packets";
}

}  // namespace
}  // namespace continuo::cnapt::node
