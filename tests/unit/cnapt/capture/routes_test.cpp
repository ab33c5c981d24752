#include "cnapt/capture/capture_ruleset.hpp"
#include "cnapt/capture/routes.hpp"
#include "cnapt/uplinks/interface_name.hpp"
#include "cnapt/uplinks/node_addresses.hpp"

#include <algorithm>
#include <map>

#include <gtest/gtest.h>

namespace continuo::cnapt::capture {

using uplinks::default_node_ipv4;
using uplinks::default_node_ipv6;

namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;
using netlink::RuleAction;
using netlink::RuleEntry;

IpPrefix prefix(std::string_view text) {
    return IpPrefix::parse(text).value();
}

CaptureOptions both_versions() {
    CaptureOptions options;
    options.ipv4 = default_node_ipv4();
    options.ipv6 = default_node_ipv6();
    return options;
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

TEST(CapturePlan, UsualAddressesAreNodeLocal) {
    EXPECT_EQ(default_node_ipv4().to_string(), "192.0.0.5");
    EXPECT_EQ(default_node_ipv6().to_string(), "64:ff9b:1::c000:5");
}

TEST(CapturePlan, DefaultRoutesLeadIntoTheDeviceWithItsOwnSource) {
    const CapturePlan plan = build_capture_plan(both_versions());
    ASSERT_EQ(plan.routes.size(), 2U);
    for (const netlink::RouteEntry& route : plan.routes) {
        EXPECT_EQ(route.destination.length, 0);
        EXPECT_EQ(route.interface, "cnapt0");
        EXPECT_EQ(route.table, 9347U);
        EXPECT_EQ(route.protocol, netlink::kRouteProtocol);
    }
    EXPECT_EQ(plan.routes[0].preferred_source, default_node_ipv4());
    EXPECT_EQ(plan.routes[1].preferred_source, default_node_ipv6());
}

TEST(CapturePlan, RulesStayInTheirRangeAndEveryJumpHasItsTargetFirst) {
    CaptureOptions options = both_versions();
    options.rule_priority = 5000;
    options.exclude = {prefix("192.0.2.0/24"), prefix("2001:db8::/32")};
    options.bypass.push_back({prefix("198.51.100.9/32"), 6, netlink::NumberRange{80, 81}, {}});
    options.gateway_interfaces = {"br-lan"};
    const CapturePlan plan = build_capture_plan(options);
    std::map<IpVersion, std::vector<uint32_t>> targets;
    for (const RuleEntry& rule : plan.rules) {
        EXPECT_GE(rule.priority, plan.first_priority);
        EXPECT_LE(rule.priority, plan.last_priority);
        EXPECT_EQ(rule.protocol, netlink::kRouteProtocol);
        auto& known = targets[rule.version];
        if (rule.action == RuleAction::Nothing) {
            known.push_back(rule.priority);
        }
        if (rule.action == RuleAction::Goto) {
            EXPECT_GT(rule.target, rule.priority);
            EXPECT_EQ(std::count(known.begin(), known.end(), rule.target), 1);
        }
    }
    EXPECT_EQ(plan.first_priority, 5000U);
    EXPECT_EQ(targets.size(), 2U);
}

TEST(CapturePlan, OuterDatagramsComeFirstAndCaptureOnlyUnspecifiedSources) {
    const CapturePlan plan = build_capture_plan(both_versions());
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        std::vector<RuleEntry> rules;
        for (const auto* part : {&plan.rules, &plan.capture_rules}) {
            std::copy_if(part->begin(), part->end(), std::back_inserter(rules),
                         [&](auto& r) { return r.version == version; });
        }
        std::stable_sort(rules.begin(), rules.end(),
                         [](auto& a, auto& b) { return a.priority < b.priority; });
        EXPECT_EQ(rules.front().fwmark, 0x1034U);
        EXPECT_EQ(rules.front().action, RuleAction::Goto);
        size_t captured = 0;
        for (const RuleEntry& rule : rules) {
            if (rule.table == 9347 && rule.ip_protocol) {
                ++captured;
                ASSERT_TRUE(rule.from);
                EXPECT_EQ(rule.from->to_string(),
                          version == IpVersion::V4 ? "0.0.0.0/32" : "64:ff9b:1::c000:5/128");
                EXPECT_EQ(rule.find_source, version == IpVersion::V6);
            }
        }
        EXPECT_EQ(captured, 4U);
    }
}

TEST(CapturePlan, BypassBecomesRulesOfItsVersion) {
    CaptureOptions options = both_versions();
    options.bypass.push_back({{}, {}, {}, netlink::NumberRange{1000, 1000}});
    options.bypass.push_back({prefix("2001:db8::9/128"), 17, netlink::NumberRange{53, 53}, {}});
    const CapturePlan plan = build_capture_plan(options);
    EXPECT_EQ(std::count_if(plan.rules.begin(), plan.rules.end(), [](auto& r) { return r.users; }),
              2);
    EXPECT_EQ(std::count_if(plan.rules.begin(), plan.rules.end(),
                            [&](auto& r) {
                                return r.destination_ports && r.priority == plan.bypass_priority;
                            }),
              1);
}

TEST(CapturePlan, BypassOfIcmpIsBypassOfIcmpV6) {
    CaptureOptions options = both_versions();
    options.bypass.push_back({{}, uint8_t{1}, {}, {}});
    const CapturePlan plan = build_capture_plan(options);
    for (const auto& [version, protocol] :
         {std::pair{IpVersion::V4, 1}, std::pair{IpVersion::V6, 58}}) {
        EXPECT_EQ(std::count_if(plan.rules.begin(), plan.rules.end(),
                                [&, version = version, protocol = protocol](const RuleEntry& rule) {
                                    return rule.version == version &&
                                           rule.priority == plan.bypass_priority &&
                                           rule.ip_protocol == protocol;
                                }),
                  1)
            << protocol;
    }
}

TEST(CapturePlan, BypassOfMarkedSocketsStandsAmongTheOtherRulesAndHasAMarkOfItsOwn) {
    CaptureOptions options = both_versions();
    options.gateway_interfaces = {"br-lan"};
    options.bypass.push_back({{}, {}, {}, netlink::NumberRange{1000, 1000}, {}, false});
    options.bypass.emplace_back();
    options.bypass.back().fwmark = bypass_mark(options.fwmark);
    const CapturePlan plan = build_capture_plan(options);
    std::vector<RuleEntry> found;
    size_t with_mark = 0;
    for (const RuleEntry& rule : plan.rules) {
        if (rule.version == IpVersion::V6 && rule.priority == plan.bypass_priority) {
            found.push_back(rule);
        }
        with_mark += rule.fwmark == bypass_mark(options.fwmark) ? 1U : 0U;
    }
    ASSERT_EQ(found.size(), 2U);
    EXPECT_TRUE(found[0].users);
    EXPECT_EQ(found[1].fwmark, 0x1037U);
    EXPECT_EQ(with_mark, 2U) << "one a version";
}

TEST(CapturePlan, TheWayToAPortalIsOneUsersAndComesBehindWhatIsNear) {
    CaptureOptions options = both_versions();
    options.portal = {"wlan0", IpAddress::parse("192.168.2.1"), 1000};
    const CapturePlan plan = build_capture_plan(options);
    ASSERT_EQ(plan.routes.size(), 3U);
    EXPECT_EQ(plan.routes[2].interface, "wlan0");
    EXPECT_EQ(plan.routes[2].gateway, IpAddress::parse("192.168.2.1"));
    EXPECT_EQ(plan.routes[2].table, 9348U);
    for (const RuleEntry& rule : plan.rules) {
        if (rule.table == 9348U) {
            EXPECT_GT(rule.priority, plan.near_priority);
            EXPECT_LT(rule.priority, plan.capture_rules.front().priority);
            EXPECT_EQ(rule.users, (netlink::NumberRange{1000, 1000}));
            EXPECT_TRUE(rule.destination_ports);
        }
    }
    EXPECT_EQ(std::count_if(plan.rules.begin(), plan.rules.end(),
                            [](const RuleEntry& rule) { return rule.table == 9348U; }),
              4);
}

TEST(CapturePlan, NearIsNoPublicDestinationButOfInterfacesThatAreNoUplinksAndWhatIsListed) {
    CaptureOptions options = both_versions();
    options.near = {prefix("198.51.100.0/24"), prefix("2001:db8:9::/48")};
    const auto near_of = [](const CapturePlan& plan) {
        std::vector<std::string> found;
        for (const RuleEntry& rule : plan.rules) {
            if (rule.table == netlink::kMainTable && rule.action == RuleAction::Lookup) {
                EXPECT_EQ(rule.priority, plan.near_priority);
                found.push_back((rule.to ? rule.to->to_string() : "any") + " " +
                                std::to_string(rule.suppress_prefix_length.value()) +
                                (rule.suppress_group ? " group" : ""));
            }
        }
        return found;
    };
    std::vector<std::string> expected = {
        "10.0.0.0/8 7",    "172.16.0.0/12 7",  "192.168.0.0/16 7",
        "100.64.0.0/10 7", "169.254.0.0/16 7", "198.51.100.0/24 7",
        "fc00::/7 6",      "fe80::/10 7",      "2001:db8:9::/48 7"};
    EXPECT_EQ(near_of(build_capture_plan(options)), expected);
    options.has_near_links = true;
    expected.insert(expected.begin() + 6, "any 7 group");
    expected.push_back("any 7 group");
    EXPECT_EQ(near_of(build_capture_plan(options)), expected);
}

TEST(CapturePlan, TheTableForAPortalIsNeverTheKernels) {
    EXPECT_EQ(portal_table(9347), 9348U);
    EXPECT_EQ(portal_table(252), 251U);
    EXPECT_EQ(portal_table(256), 257U);
    EXPECT_EQ(portal_table(UINT32_MAX), UINT32_MAX - 1);
}

TEST(CapturePlan, MissingVersionIsLeftAlone) {
    CaptureOptions options;
    options.ipv4 = default_node_ipv4();
    const CapturePlan plan = build_capture_plan(options);
    EXPECT_EQ(plan.routes.size(), 1U);
    EXPECT_TRUE(std::all_of(plan.rules.begin(), plan.rules.end(),
                            [](const RuleEntry& rule) { return rule.version == IpVersion::V4; }));
    EXPECT_FALSE(contains(plan.ruleset, "ip6 saddr"));
}

TEST(CapturePlan, TableIsReplacedInOneTransactionAndTracksConnectionsOnlyWhenNeeded) {
    CaptureOptions options = both_versions();
    options.device = "my-tun.1";
    CapturePlan plan = build_capture_plan(options);
    EXPECT_EQ(plan.table, "inet continuo_cnapt_my_tun_1");
    EXPECT_EQ(plan.ruleset.find("add table inet continuo_cnapt_my_tun_1\n"
                                "delete table inet continuo_cnapt_my_tun_1\n"),
              0U);
    EXPECT_TRUE(contains(
        plan.ruleset,
        "    ip saddr 192.0.0.5 oifname != \"my-tun.1\" oifname != \"lo\" counter name leak drop"));
    for (const std::string* text : {&plan.ruleset, &plan.guard}) {
        EXPECT_TRUE(contains(*text, "prerouting priority raw"));
        for (const char* own : {"ip daddr 192.0.0.5", "ip6 daddr 64:ff9b:1::c000:5"}) {
            EXPECT_TRUE(contains(*text, std::string("    ") + own +
                                            " iifname != \"my-tun.1\" iifname != \"lo\" counter "
                                            "name injected drop"));
        }
    }
    EXPECT_FALSE(contains(plan.ruleset, "snat"));
    EXPECT_FALSE(contains(plan.ruleset, "ct state"));
    options.gateway_interfaces = {"br-lan"};
    plan = build_capture_plan(options);
    EXPECT_TRUE(
        contains(plan.ruleset, "oifname \"my-tun.1\" ip saddr != 192.0.0.5 snat ip to 192.0.0.5"));
    EXPECT_TRUE(
        contains(plan.ruleset, "iifname \"br-lan\" ct state new ct mark 0 ct mark set 0x00001035"));
    options.kill_switch = true;
    options.exclude = {prefix("192.0.2.0/24")};
    plan = build_capture_plan(options);
    EXPECT_TRUE(contains(plan.ruleset, "meta mark 0x00001034 return"));
    EXPECT_TRUE(contains(plan.ruleset, "ip daddr 192.0.2.0/24 return"));
    EXPECT_TRUE(contains(plan.ruleset, "counter name kill_switch drop"));
}

TEST(CapturePlan, LanSidesMayBeThoseWhoseNamesBeginSo) {
    CaptureOptions options = both_versions();
    options.gateway_interfaces = {"docker0", "br-*"};
    const CapturePlan plan = build_capture_plan(options);
    const std::string chain = "inet continuo_cnapt_cnapt0 lan_begins";
    const std::string rule = " ct state new ct mark 0 ct mark set 0x00001035\n";
    EXPECT_EQ(plan.close_gateway, "flush chain " + chain + "\n");
    EXPECT_EQ(plan.open_gateway, plan.close_gateway + "add rule " + chain + " iifname \"docker0\"" +
                                     rule + "add rule " + chain + " iifname \"br-*\"" + rule);
    EXPECT_TRUE(contains(plan.ruleset, "iifname \"br-*\" ct mark 0 ct mark set 0x00001036"));
    for (const char* name : {"br-lan", "br-*", "a*"}) {
        EXPECT_TRUE(uplinks::is_gateway_pattern(name)) << name;
    }
    for (const char* name : {"", "*", "*br", "b*r", "br-?", "br**", "sixteencharacte*", "a b*"}) {
        EXPECT_FALSE(uplinks::is_gateway_pattern(name)) << name;
    }
}

TEST(CapturePlan, NothingToACarrierOfTheTunnelEntersIt) {
    CaptureOptions options = both_versions();
    EXPECT_FALSE(contains(build_capture_plan(options).ruleset, "counter name fed_back reject"));
    options.carriers = {*base::IpPrefix::parse("203.0.113.10/32"),
                        *base::IpPrefix::parse("2001:db8::10/128")};
    const CapturePlan plan = build_capture_plan(options);
    for (const char* host : {"ip daddr 203.0.113.10/32 ", "ip6 daddr 2001:db8::10/128 "}) {
        const std::string match = std::string("    oifname \"cnapt0\" ") + host;
        EXPECT_TRUE(contains(plan.ruleset, match + "meta l4proto tcp counter name fed_back reject "
                                                   "with tcp reset\n"));
        EXPECT_TRUE(contains(plan.ruleset, match + "counter name fed_back reject with icmpx type "
                                                   "admin-prohibited\n"));
    }
}

// By the next best route they would enter the tunnel that they carry.
TEST(CapturePlan, ACarrierIsReachedByItsOwnRouteAlone) {
    CaptureOptions options = both_versions();
    options.carriers = {prefix("203.0.113.10/32"), prefix("2001:db8::10/128")};
    const CapturePlan plan = build_capture_plan(options);
    std::vector<std::string> found;
    for (const RuleEntry& rule : plan.rules) {
        if (rule.priority == plan.bypass_priority) {
            EXPECT_EQ(rule.table, netlink::kMainTable);
            EXPECT_EQ(rule.action, RuleAction::Lookup);
            found.push_back(rule.to->to_string() + " " +
                            std::to_string(rule.suppress_prefix_length.value_or(0)));
        }
    }
    EXPECT_EQ(found, (std::vector<std::string>{"203.0.113.10/32 31", "2001:db8::10/128 127"}));
    options.kill_switch = true;
    const CapturePlan held = build_capture_plan(options);
    EXPECT_TRUE(std::none_of(held.rules.begin(), held.rules.end(), [](const RuleEntry& rule) {
        return rule.to == prefix("203.0.113.10/32");
    }));
}

TEST(CapturePlan, TheKillSwitchHoldsForwardedPacketsWithoutLanSidesToo) {
    CaptureOptions options = both_versions();
    EXPECT_FALSE(contains(build_capture_plan(options).ruleset, "plain_forward"));
    options.kill_switch = true;
    CapturePlan plan = build_capture_plan(options);
    EXPECT_TRUE(contains(plan.ruleset, "type filter hook forward priority filter + 10"));
    EXPECT_TRUE(contains(plan.ruleset, "counter name kill_switch_forward drop"));
    EXPECT_TRUE(contains(plan.ruleset, "set uplinks { type ifname; }"));
    options.forward_links.uplinks = {"eth0", "wlan0"};
    options.forward_links.bridges = {"docker0"};
    plan = build_capture_plan(options);
    EXPECT_TRUE(
        contains(plan.ruleset, "set uplinks { type ifname; elements = { \"eth0\", \"wlan0\" } }"));
    EXPECT_TRUE(contains(plan.ruleset, "elements = { \"docker0\" . \"docker0\" }"));
    const std::string table = "inet continuo_cnapt_cnapt0";
    EXPECT_EQ(forward_sets_text(table, {{"eth0"}, {}, 0}),
              "flush set " + table + " uplinks\nadd element " + table +
                  " uplinks { \"eth0\" }\nflush set " + table + " bridges\n");
}

TEST(CapturePlan, AnswersAreOfEachVersionAndBeforeConnectionTracking) {
    CaptureOptions options = both_versions();
    CapturePlan plan = build_capture_plan(options);
    const std::string table = "table inet continuo_cnapt_cnapt0_answers";
    EXPECT_EQ(plan.answers.find("add " + table + "\ndelete " + table + "\n" + table + " {\n"), 0U)
        << "replaces a table of its own";
    EXPECT_TRUE(contains(plan.answers, "type route hook output priority raw"));
    EXPECT_TRUE(
        contains(plan.answers, "ip saddr set udp dport . udp sport . ip daddr map @address4"));
    EXPECT_TRUE(contains(plan.answers, "ip6 saddr set ip6 daddr map @address6"));
    EXPECT_TRUE(contains(plan.answers, "delete @address6 { ip6 saddr : ip6 daddr } update "
                                       "@address6 { ip6 saddr : ip6 daddr }"))
        << "the address that was asked last";
    options.has_ipv6 = false;
    const CapturePlan without = build_capture_plan(options);
    EXPECT_EQ(without.answers, plan.answers) << "another text would forget all peers";
    EXPECT_NE(without.ruleset, plan.ruleset);
    EXPECT_LT(without.rules.size(), plan.rules.size());
    options.ipv6.reset();
    plan = build_capture_plan(options);
    EXPECT_FALSE(contains(plan.answers, "asked6"));
}

TEST(CapturePlan, DatagramsOfTheTunnelCostOneLookUpOfTheirSocket) {
    CaptureOptions options = both_versions();
    options.fwmark = 0x5678;
    const std::string& text = build_capture_plan(options).answers;
    const size_t chain = text.find("chain asked {");
    const size_t first = text.find("socket mark 0x00005678 return\n", chain);
    ASSERT_NE(chain, std::string::npos);
    ASSERT_NE(first, std::string::npos);
    for (const char* look_up : {" @", "{ \"", "socket wildcard"}) {
        EXPECT_LT(first, text.find(look_up, chain)) << look_up;
    }
}

// A look-up in a set costs as much as several comparisons.
TEST(CapturePlan, RulesThatEveryPacketMeetsBeginWithWhatSeldomMatches) {
    const std::string text = build_capture_plan(both_versions()).ruleset;
    EXPECT_FALSE(contains(text, "{ \"lo\""));
    for (const char* first :
         {"    oifname != ", "    iifname != ", " ip saddr != { ", " ip6 saddr != { "}) {
        EXPECT_FALSE(contains(text, first)) << first;
    }
    EXPECT_TRUE(contains(text, "\n    ip daddr >= 224.0.0.0 ip daddr { 224.0.0.0/4, "
                               "255.255.255.255 } counter name multicast drop\n"));
    EXPECT_LT(text.find("\n    meta l4proto tcp return\n    meta l4proto udp return\n"),
              text.find("meta l4proto != {"));
}

TEST(CapturePlan, TheGuardIsNothingButWhatHoldsBackTheOwnAddresses) {
    CaptureOptions options = both_versions();
    options.gateway_interfaces = {"lan0"};
    options.kill_switch = true;
    const CapturePlan plan = build_capture_plan(options);
    EXPECT_EQ(
        plan.guard,
        "add table inet continuo_cnapt_cnapt0\ndelete table inet continuo_cnapt_cnapt0\n"
        "table inet continuo_cnapt_cnapt0 {\n"
        "  counter leak { }\n"
        "  counter injected { }\n"
        "  chain leak {\n"
        "    type filter hook postrouting priority srcnat + 10; policy accept;\n"
        "    ip saddr 192.0.0.5 oifname != \"cnapt0\" oifname != \"lo\" counter name leak drop\n"
        "    ip6 saddr 64:ff9b:1::c000:5 oifname != \"cnapt0\" oifname != \"lo\" counter name leak "
        "drop\n"
        "  }\n"
        "  chain arrival {\n"
        "    type filter hook prerouting priority raw; policy accept;\n"
        "    ip daddr 192.0.0.5 iifname != \"cnapt0\" iifname != \"lo\" counter name injected "
        "drop\n"
        "    ip6 daddr 64:ff9b:1::c000:5 iifname != \"cnapt0\" iifname != \"lo\" counter name "
        "injected drop\n"
        "  }\n}\n");
}

TEST(CapturePlan, OnlyHarmlessInterfaceNamesAreSafe) {
    for (const char* name : {"eth0", "br-lan", "eth0.100", "wlp2s0@x", "a"}) {
        EXPECT_TRUE(uplinks::is_safe_interface_name(name)) << name;
    }
    for (const char* name :
         {"", "a b", "x\"y", "-x", ".", "..", "a/b", "a\n", "sixteencharacter"}) {
        EXPECT_FALSE(uplinks::is_safe_interface_name(name)) << name;
    }
}

TEST(CapturePlan, NoOtherSoftwareKnowsTheBitsOfTheDefaultMark) {
    // kube-proxy, portmap and netavark, Cilium, AWS' CNI, Tailscale and Calico.
    constexpr uint32_t kKnown = 0x8000 | 0x4000 | 0x2000 | 0x0F00 | 0x80 | 0xFFFF0000;
    for (uint32_t mark = uplinks::kDefaultFwmark; mark <= bypass_mark(uplinks::kDefaultFwmark);
         ++mark) {
        EXPECT_EQ(mark & kKnown, 0U);
    }
}

}  // namespace
}  // namespace continuo::cnapt::capture
