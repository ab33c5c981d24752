#include "cnapt/capture/routes.hpp"
#include "cnapt/capture/rule_place.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "tests/support/net_namespace.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::capture {
namespace {

using netlink::RuleEntry;

// As wg-quick gives it.
RuleEntry of_vpn(uint32_t priority) {
    RuleEntry rule;
    rule.priority = priority;
    rule.table = 51820;
    rule.fwmark = 51820;
    rule.is_inverted = true;
    rule.protocol = 3;  // RTPROT_BOOT
    return rule;
}

uint32_t place_among(const std::vector<RuleEntry>& rules) {
    return rule_place(rules);
}

TEST(RulePlace, IsTheUsualOneUnlessARuleThatTakesAllStandsBefore) {
    EXPECT_EQ(kUsualRulePriority, CaptureOptions{}.rule_priority);
    EXPECT_EQ(kUsualRulePriority, kSnaptRulePriority + 1);
    EXPECT_EQ(place_among({}), kUsualRulePriority);
    EXPECT_EQ(place_among({of_vpn(32765), of_vpn(kUsualRulePriority)}), kUsualRulePriority);
    EXPECT_EQ(place_among({of_vpn(9345), of_vpn(9344)}), 9344 - kRulePriorities);
    EXPECT_EQ(place_among({of_vpn(9344), of_vpn(9345)}), 9344 - kRulePriorities);
}

TEST(RulePlace, IsBehindRulesThatWerePutFarBefore) {
    EXPECT_EQ(place_among({of_vpn(5000), of_vpn(kLowestRulePriority - 1)}), kUsualRulePriority);
    EXPECT_EQ(place_among({of_vpn(5000), of_vpn(9345)}), 9345 - kRulePriorities);
}

TEST(RulePlace, StaysWhereItIsWithoutRoom) {
    const uint32_t last_with_room = kLowestRulePriority + kRulePriorities + 1;
    EXPECT_EQ(place_among({of_vpn(last_with_room)}), kLowestRulePriority + 1);
    EXPECT_EQ(place_among({of_vpn(last_with_room - 1)}), kUsualRulePriority);
}

TEST(RulePlace, RulesThatAskForSomethingStayBefore) {
    std::vector<RuleEntry> rules(9, of_vpn(9340));
    rules[0].from = base::IpPrefix::parse("192.168.1.2/32");
    rules[1].to = base::IpPrefix::parse("203.0.113.0/24");
    rules[2].input_interface = "lan0";
    rules[3].ip_protocol = uint8_t{6};
    rules[4].users = netlink::NumberRange{7, 7};
    rules[5].is_inverted = false;  // one mark alone
    rules[6].protocol = netlink::kRouteProtocol;
    rules[7].table = 255;
    rules[8].has_other_selector = true;
    for (const RuleEntry& rule : rules) {
        EXPECT_FALSE(takes_all(rule));
    }
    EXPECT_EQ(place_among(rules), kUsualRulePriority);
}

// The kernel's choice of a priority, and how a rule is listed.
class RulePlaceInKernel : public test::NetNamespaceTest {};

TEST_F(RulePlaceInKernel, IsBeforeRulesWithoutAPriority) {
    auto routes = netlink::RouteClient::open().value();
    RuleEntry ours;
    ours.table = 9347;
    for (const auto version : {base::IpVersion::V4, base::IpVersion::V6}) {
        ours.version = version;
        ours.priority = rule_place(routes).value();
        EXPECT_EQ(ours.priority, kUsualRulePriority);
        ASSERT_TRUE(routes.add_rule(ours));
        const std::string ip = version == base::IpVersion::V4 ? "ip" : "ip -6";
        ASSERT_TRUE(net().shell(ip + " rule add not fwmark 51820 table 51820"));
        ASSERT_TRUE(net().shell(ip + " rule add table main suppress_prefixlength 0"));
        EXPECT_EQ(rule_place(routes).value(), kUsualRulePriority - 2 - kRulePriorities);
        ASSERT_TRUE(net().shell(ip + " rule del table 51820"));
        ASSERT_TRUE(net().shell(ip + " rule del table main suppress_prefixlength 0"));
        EXPECT_EQ(rule_place(routes).value(), kUsualRulePriority);
    }
}

}  // namespace
}  // namespace continuo::cnapt::capture
