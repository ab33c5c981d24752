// Readers of netlink::NetSnapshot find in the routes that netlink::RouteSet keeps what they find in
// all.
#include "cnapt/capture/source_routes.hpp"
#include "cnapt/node/tunnel_uplinks.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/on_link.hpp"

#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::cnapt::uplinks {

using node::carriers;

namespace {

constexpr size_t kMany = 3000;
constexpr uint32_t kUplink = 2;
constexpr uint32_t kVpn = 3;

// A cable and a VPN of WireGuard, numbers 2 and 3.
class RouteKindsTest : public testing::Test {
  protected:
    RouteKindsTest() {
        for (const auto& [index, name, kind] :
             {std::tuple(kUplink, "eth0", ""), std::tuple(kVpn, "wg0", "wireguard")}) {
            netlink::LinkEntry link;
            link.index = index;
            link.name = name;
            link.kind = kind;
            link.is_up = link.has_carrier = true;
            kept_.links.push_back(link);
        }
        all_.links = kept_.links;
        add("0.0.0.0/0", "192.0.2.1");
        add("::/0", "fe80::1");
    }
    // Far behind the others.
    void add(const std::string& destination, const char* gateway, uint32_t index = kUplink) {
        netlink::RouteEntry route;
        route.destination = base::IpPrefix::parse(destination).value();
        route.interface_index = index;
        route.protocol = 3;
        if (gateway != nullptr) {
            route.gateway = base::IpAddress::parse(gateway).value();
        }
        all_.routes.push_back(route);
        set_.apply({false, false, 0, {route}});
        kept_.routes = set_.list();
    }
    // Routes to BEGIN.x.y.END.
    void add_many(const std::string& begin,
                  const std::string& end,
                  const char* gateway,
                  uint32_t index = kUplink) {
        netlink::RouteChange change;
        for (size_t i = 0; i < kMany; ++i) {
            std::string to = begin;
            to += "." + std::to_string(i / 256) + "." + std::to_string(i % 256) + end;
            netlink::RouteEntry route;
            route.destination = base::IpPrefix::parse(to).value();
            route.interface_index = index;
            route.protocol = 3;
            if (gateway != nullptr) {
                route.gateway = base::IpAddress::parse(gateway).value();
            }
            all_.routes.push_back(route);
            change.hops = {route};
            set_.apply(change);
        }
    }
    OnLinkNetworks on_link(const netlink::NetSnapshot& network) const {
        return on_link_networks(network, rules_, {});
    }
    capture::SourcePlan plan(const netlink::NetSnapshot& network) const {
        const std::vector<capture::SourceUplink> uplinks = {
            {0, kUplink, base::IpAddress::parse("192.0.2.5").value()}};
        return capture::source_plan(network, uplinks, {}, {});
    }
    std::vector<NearLink> near(const netlink::NetSnapshot& network) const {
        return near_links(network, rules_, {}, 0).links;
    }

    UplinkRules rules_;
    netlink::RouteSet set_{netlink::RouteInterest{{}, kind_of_route}};
    netlink::NetSnapshot all_;
    netlink::NetSnapshot kept_;
};

TEST_F(RouteKindsTest, HostsThatMayCarryAVpnAreFoundAmongManyRoutes) {
    add_many("20", ".0/24", "192.0.2.1");
    add_many("30", ".7/32", nullptr);
    add_many("10", ".7/32", "192.0.2.1");
    add("203.0.113.10/32", "192.0.2.1");
    EXPECT_LT(kept_.routes.size(), kMany);
    EXPECT_EQ(carriers(kept_).front().to_string(), "203.0.113.10/32");
    EXPECT_EQ(carriers(kept_), carriers(all_));
}

TEST_F(RouteKindsTest, NetworksOfUplinksAreFoundAmongManyRoutes) {
    add_many("20", ".0/24", "192.0.2.1");
    add_many("30", ".7/32", "192.0.2.1");
    add_many("10", ".0/24", nullptr);
    for (size_t i = 0; i < kMany; ++i) {
        add("2001:db8:" + std::to_string(i) + "::/48", nullptr);
    }
    add("198.51.100.0/24", nullptr);
    add("2001:db8:f:7::/64", nullptr);
    EXPECT_EQ(on_link(kept_).list.size(), 2U);
    EXPECT_EQ(on_link(kept_).list, on_link(all_).list);
    add_many("40", ".0/24", nullptr);
    add("198.51.100.0/24", nullptr);
    EXPECT_EQ(on_link(kept_).list.size(), kMaxOnLinkNetworks);
    EXPECT_GT(on_link(kept_).left_out, 0U);
}

TEST_F(RouteKindsTest, RoutesThatAreCopiedForAnUplinkAreFoundAmongManyRoutes) {
    add_many("20", ".0/24", "192.0.2.1");
    add("192.0.2.0/24", nullptr);
    EXPECT_EQ(plan(kept_).routes.size(), 2U);
    EXPECT_EQ(plan(kept_), plan(all_));
    add("198.51.100.0/24", "fe80::1");
    EXPECT_TRUE(plan(kept_).routes.empty()) << "a copy would lose its gateway";
}

TEST_F(RouteKindsTest, AnInterfaceIsJudgedAsByAllItsRoutes) {
    add_many("10", ".0/24", nullptr, kVpn);
    EXPECT_TRUE(near(kept_).empty());
    add("198.51.100.0/24", nullptr, kVpn);
    ASSERT_EQ(near(kept_).size(), 1U);
    EXPECT_EQ(near(kept_), near(all_));
}

TEST_F(RouteKindsTest, NoReaderTakesMoreThanAreKeptOfAKind) {
    for (const size_t taken : {node::kMaxCarriers, kMaxOnLinkNetworks, capture::kMaxSourceOnLink}) {
        EXPECT_LE(taken, netlink::kFewestOfKind);
    }
}

}  // namespace
}  // namespace continuo::cnapt::uplinks
