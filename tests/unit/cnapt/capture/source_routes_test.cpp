#include "cnapt/capture/source_routes.hpp"
#include "tests/support/net_namespace.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::cnapt::capture {
namespace {

using base::IpAddress;
using base::IpPrefix;
using netlink::RouteEntry;
using netlink::RuleEntry;

constexpr uint32_t kTable = 9349;  // of the first slot

IpAddress parsed(std::string_view text) {
    return IpAddress::parse(text).value();
}

// Two uplinks, numbers 1 and 2 in slots 0 and 1; routes as a test says.
class SourcePlanTest : public testing::Test {
  protected:
    void add(uint32_t index,
             std::string_view destination,
             std::string_view gateway = {},
             uint32_t metric = 0) {
        RouteEntry route;
        route.destination = IpPrefix::parse(destination).value();
        route.interface_index = index;
        route.metric = metric;
        if (!gateway.empty()) {
            route.gateway = parsed(gateway);
        }
        net_.routes.push_back(route);
    }
    SourcePlan plan() const { return source_plan(net_, uplinks_, snapts_, {}); }
    static std::string told(const RouteEntry& route) {
        return std::to_string(route.table) + " " + route.destination.to_string() + " " +
               (route.gateway ? route.gateway->to_string() : "-") + " " +
               std::to_string(route.interface_index);
    }
    std::vector<std::string> routes() const {
        std::vector<std::string> list;
        for (const RouteEntry& route : plan().routes) {
            list.push_back(told(route));
        }
        return list;
    }

    netlink::NetSnapshot net_;
    std::vector<SourceUplink> uplinks_ = {{0, 1, parsed("192.168.1.2")},
                                          {1, 2, parsed("192.168.2.2")}};
    std::vector<IpAddress> snapts_ = {parsed("198.51.100.2"), parsed("2001:db8:1::2")};
};
using Lines = std::vector<std::string>;

TEST_F(SourcePlanTest, EachUplinkHasItsDefaultRouteAndItsWayToTheSnapt) {
    add(1, "0.0.0.0/0", "192.168.1.1", 100);
    add(2, "0.0.0.0/0", "192.168.2.1", 200);
    EXPECT_EQ(routes(),
              (Lines{"9349 0.0.0.0/0 192.168.1.1 1", "9349 198.51.100.2/32 192.168.1.1 1",
                     "9350 0.0.0.0/0 192.168.2.1 2", "9350 198.51.100.2/32 192.168.2.1 2"}));
    const SourcePlan made = plan();
    ASSERT_EQ(made.rules.size(), 6U);
    for (const RuleEntry& rule : made.rules) {
        EXPECT_TRUE(rule.from && rule.from->length == 32) << "never of packets without a source";
    }
}

TEST_F(SourcePlanTest, AMoreSpecificRouteLeadsToTheSnaptByItsOwnUplinkOnly) {
    add(1, "0.0.0.0/0", "192.168.1.1");
    add(2, "0.0.0.0/0", "192.168.2.1");
    add(1, "198.51.100.0/24", "192.168.1.9");
    EXPECT_EQ(routes(),
              (Lines{"9349 0.0.0.0/0 192.168.1.1 1", "9349 198.51.100.2/32 192.168.1.9 1",
                     "9350 0.0.0.0/0 192.168.2.1 2", "9350 198.51.100.2/32 192.168.2.1 2"}));
}

TEST_F(SourcePlanTest, AllDefaultRoutesAreKeptInTheirOrderAndPartsToo) {
    uplinks_.pop_back();
    snapts_.clear();
    add(1, "0.0.0.0/0", "192.168.1.9", 200);
    add(1, "0.0.0.0/0", "192.168.1.1", 100);
    add(1, "128.0.0.0/1");
    add(1, "10.0.0.0/8", "192.168.1.7");
    EXPECT_EQ(routes(), (Lines{"9349 128.0.0.0/1 - 1", "9349 0.0.0.0/0 192.168.1.1 1",
                               "9349 0.0.0.0/0 192.168.1.9 1"}));
    EXPECT_LT(plan().routes[1].metric, plan().routes[2].metric);
}

TEST_F(SourcePlanTest, WhatIsOnTheUplinksOwnLinkStaysThere) {
    snapts_.clear();
    add(2, "0.0.0.0/0", "192.168.2.1");
    add(1, "192.168.2.0/24");
    add(2, "192.168.2.0/24");
    add(2, "10.0.0.0/8", "192.168.2.9");
    EXPECT_EQ(routes(), (Lines{"9350 0.0.0.0/0 192.168.2.1 2", "9350 192.168.2.0/24 - 2"}));
}

TEST_F(SourcePlanTest, AGatewayOfTheOtherVersionIsNotCopied) {
    add(1, "0.0.0.0/0", "fe80::1");
    add(2, "0.0.0.0/0", "192.168.2.1");
    EXPECT_EQ(routes(),
              (Lines{"9350 0.0.0.0/0 192.168.2.1 2", "9350 198.51.100.2/32 192.168.2.1 2"}));
    EXPECT_EQ(plan().rules.size(), 3U);
}

TEST_F(SourcePlanTest, TheTunnelsOwnDatagramsUseNoCopy) {
    add(1, "0.0.0.0/0", "192.168.1.1");
    for (const RuleEntry& rule : plan().rules) {
        EXPECT_TRUE(rule.fwmark == 0U && rule.fwmark_mask == SourceNumbers{}.fwmark);
    }
}

TEST_F(SourcePlanTest, WhoHasNoRouteAndWhoSharesItsAddressHasNoRule) {
    add(1, "0.0.0.0/0", "192.168.1.1");
    EXPECT_EQ(plan().rules.size(), 3U) << "the second has no route";
    add(2, "0.0.0.0/0", "192.168.1.1");
    uplinks_[1].address = uplinks_[0].address;
    EXPECT_TRUE(plan().rules.empty());
    EXPECT_TRUE(plan().routes.empty());
}

TEST_F(SourcePlanTest, VersionsStayApart) {
    uplinks_[1].address = parsed("2001:db8:12::2");
    add(2, "::/0", "fe80::1", 1024);
    add(2, "fc00::/7", "fe80::9");
    EXPECT_EQ(routes(), (Lines{"9350 ::/0 fe80::1 2", "9350 2001:db8:1::2/128 fe80::1 2"}));
}

TEST_F(SourcePlanTest, WhatIsTooMuchIsLeftOutAndCounted) {
    uplinks_.pop_back();
    for (int i = 0; i < 10; ++i) {
        add(1, std::to_string(2 * i + 16) + ".0.0.0/7", "192.168.1.1");
    }
    add(1, "198.51.100.0/24", "192.168.1.1");
    snapts_.clear();
    for (int i = 0; i < 40; ++i) {
        snapts_.push_back(parsed("198.51.100." + std::to_string(i + 1)));
    }
    EXPECT_EQ(plan().left_out, 10 - kMaxSourceDefaults + 40 - kMaxSourceSnapts);
    EXPECT_EQ(plan().routes.size(), kMaxSourceDefaults + kMaxSourceSnapts);
}

TEST(SourceTable, IsNoneOfTheKernelsNorOfTheCapture) {
    for (const uint32_t own : {1U, 230U, 240U, 252U, 256U, 9347U, UINT32_MAX - 5, UINT32_MAX}) {
        std::vector<uint32_t> tables;
        for (uint8_t slot = 0; slot < wire::kTcpPath; ++slot) {
            const uint32_t table = source_table(own, slot);
            EXPECT_TRUE(table > 0 && (table < 253 || table > 255)) << own << " " << table;
            EXPECT_GT(std::max(table, own) - std::min(table, own), 1U) << "own and the portal's";
            tables.push_back(table);
        }
        std::sort(tables.begin(), tables.end());
        EXPECT_EQ(std::unique(tables.begin(), tables.end()), tables.end());
    }
}

// In a kernel: two uplinks with a default route each, the first is the better one.
class SourceRoutesTest : public test::NetNamespaceTest {
  protected:
    void SetUp() override {
        NetNamespaceTest::SetUp();
        if (IsSkipped()) {
            return;
        }
        for (const char* n : {"1", "2"}) {
            const std::string up = std::string("up") + n;
            const std::string of_v4 = std::string("192.168.") + n;
            const std::string of_v6 = std::string("2001:db8:1") + n + "::";
            ASSERT_TRUE(net().shell(
                "ip link add " + up + " type veth peer name x" + n + " && ip link set x" + n +
                " up && ip link set " + up + " up && ip addr add " + of_v4 + ".2/24 dev " + up +
                " && ip addr add " + of_v6 + "2/64 dev " + up +
                " nodad && ip route add default via " + of_v4 + ".1 metric 10" + n +
                " && ip -6 route add default via " + of_v6 + "1 dev " + up + " metric 10" + n));
        }
        client_.emplace(netlink::RouteClient::open().value());
        for (uint8_t slot = 0; slot < 4; ++slot) {
            tables_.push_back(source_table(9347, slot));
        }
    }
    void TearDown() override {
        client_.reset();
        NetNamespaceTest::TearDown();
    }
    // Both versions of both uplinks, in slots 0 to 3.
    SourcePlan plan() {
        netlink::NetSnapshot network;
        for (const auto version : {base::IpVersion::V4, base::IpVersion::V6}) {
            const auto routes = client_->routes(version, netlink::kMainTable).value();
            network.routes.insert(network.routes.end(), routes.begin(), routes.end());
        }
        const uint32_t first = client_->interface_index("up1").value();
        const uint32_t second = client_->interface_index("up2").value();
        const std::vector<SourceUplink> uplinks = {{0, first, parsed("192.168.1.2")},
                                                   {1, first, parsed("2001:db8:11::2")},
                                                   {2, second, parsed("192.168.2.2")},
                                                   {3, second, parsed("2001:db8:12::2")}};
        return source_plan(network, uplinks, snapts_, {});
    }
    void apply(const SourcePlan& plan) { ASSERT_TRUE(apply_source_plan(plan, tables_)); }
    std::string way(std::string_view to, std::string_view from) {
        const auto found = client_->interface_to(parsed(to), parsed(from));
        return found ? *found : client_->last_error_text();
    }
    bool is_clean() {
        return net().shell("! { ip rule; ip -6 rule; ip route show table all; ip -6 route show "
                           "table all; } | grep 'proto 147'");
    }

    std::optional<netlink::RouteClient> client_;
    std::vector<uint32_t> tables_;
    std::vector<IpAddress> snapts_ = {parsed("198.51.100.2"), parsed("2001:db8:1::2")};
};

TEST_F(SourceRoutesTest, WhatHasAnUplinksAddressLeavesByThatUplink) {
    EXPECT_EQ(way("203.0.113.1", "192.168.2.2"), "up1") << "the plain host";
    apply(plan());
    for (const char* to : {"203.0.113.1", "198.51.100.2"}) {
        EXPECT_EQ(way(to, "192.168.1.2"), "up1");
        EXPECT_EQ(way(to, "192.168.2.2"), "up2");
    }
    for (const char* to : {"2001:db8:3::1", "2001:db8:1::2"}) {
        EXPECT_EQ(way(to, "2001:db8:11::2"), "up1");
        EXPECT_EQ(way(to, "2001:db8:12::2"), "up2");
    }
    EXPECT_EQ(client_->interface_to(parsed("203.0.113.1")).value(), "up1") << "no source yet";
    EXPECT_EQ(way("192.168.1.7", "192.168.2.2"), "up1") << "a neighbour of the other uplink";
}

TEST_F(SourceRoutesTest, OtherRoutesToTheSnaptAndOtherRulesDoNotMislead) {
    ASSERT_TRUE(net().shell("ip route add 198.51.100.0/24 via 192.168.1.1; "
                            "ip route add default dev lo table 51820; "
                            "ip rule add not fwmark 0xca6c lookup 51820 priority 20000"));
    EXPECT_EQ(way("198.51.100.2", "192.168.2.2"), "lo");
    apply(plan());
    EXPECT_EQ(way("198.51.100.2", "192.168.2.2"), "up2");
    EXPECT_EQ(way("203.0.113.1", "192.168.2.2"), "lo") << "the host's own rules come first";
}

// As wg-quick does it, when there are rules already.
TEST_F(SourceRoutesTest, RulesThatComeLaterWithoutAPriorityDoNotMislead) {
    apply(plan());
    ASSERT_TRUE(net().shell("ip route add default dev lo table 51820; "
                            "ip rule add not fwmark 0xca6c lookup 51820"));
    EXPECT_EQ(way("198.51.100.2", "192.168.2.2"), "lo");
    apply(plan());
    EXPECT_EQ(way("198.51.100.2", "192.168.2.2"), "up2");
    ASSERT_TRUE(net().shell("ip rule del lookup 51820"));
    apply(plan());
    EXPECT_TRUE(net().shell("test $(ip rule | grep -c ^9346:) = 2 && "
                            "test $(ip rule | grep -c 'proto 147') = 6"));
    ASSERT_TRUE(net().shell("ip rule add not fwmark 0xca6c lookup 51820"));
    apply(plan());
    apply({});
    EXPECT_TRUE(is_clean());
}

TEST_F(SourceRoutesTest, IsKeptUpAndGoesWithoutATrace) {
    apply(plan());
    const SourcePlan before = plan();
    // Somebody else's hand.
    ASSERT_TRUE(net().shell("ip rule del priority 32765 from 192.168.2.2; "
                            "ip route flush table 9351"));
    EXPECT_EQ(way("203.0.113.1", "192.168.2.2"), "up1");
    apply(before);
    EXPECT_EQ(way("203.0.113.1", "192.168.2.2"), "up2");
    // Another gateway, the other address.
    ASSERT_TRUE(net().shell("ip route replace default via 192.168.2.9 metric 102 && "
                            "ip -6 route del default via 2001:db8:12::1 dev up2"));
    apply(plan());
    EXPECT_TRUE(net().shell("ip route get 203.0.113.1 from 192.168.2.2 | grep -q 192.168.2.9"));
    EXPECT_TRUE(net().shell("test -z \"$(ip -6 route show table 9352; ip -6 rule | "
                            "grep 2001:db8:12)\""));
    apply({});
    EXPECT_TRUE(is_clean());
}

TEST_F(SourceRoutesTest, AnUplinkThatCannotBeSetDoesNotKeepOthersFromIt) {
    SourcePlan broken = plan();
    broken.routes.insert(broken.routes.begin(), RouteEntry{});
    broken.routes.front().destination = IpPrefix::parse("0.0.0.0/0").value();
    broken.routes.front().interface_index = 4711;
    broken.routes.front().table = kTable + 1;
    EXPECT_FALSE(apply_source_plan(broken, tables_));
    EXPECT_EQ(way("203.0.113.1", "192.168.2.2"), "up2");
}

}  // namespace
}  // namespace continuo::cnapt::capture
