#include "snapt/nat/nat.hpp"
#include "snapt/nat/nat_guard.hpp"
#include "snapt/nat/nat_limit.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::snapt::nat {
namespace {

using base::IpAddress;
using base::IpPrefix;
using settings::SelfService;

IpAddress address(std::string_view text) {
    return IpAddress::parse(text).value();
}
IpPrefix prefix(std::string_view text) {
    return IpPrefix::parse(text).value();
}
bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}
bool is_denied(std::span<const IpPrefix> list, std::string_view text) {
    return std::any_of(list.begin(), list.end(),
                       [&](const IpPrefix& p) { return p.contains(address(text)); });
}

// The rules of a chain, with its first line.
std::string chain(const std::string& text, const std::string& name) {
    const std::string head = "  chain " + name + " {\n";
    const size_t begin = text.find(head);
    return begin == std::string::npos
               ? ""
               : text.substr(begin + head.size(), text.find("  }\n", begin) - begin - head.size());
}

RelayOptions usual() {
    RelayOptions options;
    options.lease_ipv4 = prefix("100.64.0.0/16");
    options.lease_ipv6 = prefix("fd93:47::/64");
    return options;
}

TEST(DenyList, NamesWhatIsNotTheInternetButNotDocumentation) {
    const auto list = built_in_deny_list();
    for (const char* denied : {"0.0.0.1",
                               "10.255.255.255",
                               "100.64.0.1",
                               "100.100.100.200",
                               "127.0.0.1",
                               "169.254.169.254",
                               "172.31.0.1",
                               "192.168.1.1",
                               "224.0.0.1",
                               "239.255.255.250",
                               "255.255.255.255",
                               "168.63.129.16",
                               "192.0.0.192",
                               "198.18.0.1",
                               "198.19.255.255",
                               "240.0.0.1",
                               "64:ff9b:1::1",
                               "64:ff9b:1:ffff::1",
                               "2002:7f00:1::1",
                               "::",
                               "::1",
                               "::ffff:10.0.0.1",
                               "fc00::1",
                               "fd00:ec2::254",
                               "fe80::1",
                               "ff02::1"}) {
        EXPECT_TRUE(is_denied(list, denied)) << denied;
    }
    for (const char* allowed : {"192.0.2.1", "198.51.100.1", "203.0.113.1", "198.20.0.1", "8.8.8.8",
                                "172.32.0.1", "100.128.0.1", "2001:db8::1", "2606:4700::1"}) {
        EXPECT_FALSE(is_denied(list, allowed)) << allowed;
    }
}

TEST(DenyList, AllowCutsOutExactlyItsPrefix) {
    const std::vector<IpPrefix> allow = {prefix("10.20.0.0/16"), prefix("fd00:1::/32"),
                                         prefix("192.168.0.0/16"), prefix("203.0.113.0/24")};
    const auto list = effective_deny_list(allow, {});
    for (const char* allowed : {"10.20.0.0", "10.20.255.255", "fd00:1::1", "192.168.3.4"}) {
        EXPECT_FALSE(is_denied(list, allowed)) << allowed;
    }
    for (const char* denied : {"10.19.255.255", "10.21.0.0", "10.0.0.1", "10.255.0.1", "fd00:2::1",
                               "fd00::1", "fc00::1"}) {
        EXPECT_TRUE(is_denied(list, denied)) << denied;
    }
    // 8 pieces in place of 10/8, 25 of fc00::/7, none of 192.168/16.
    const auto count = [](std::span<const IpPrefix> prefixes, base::IpVersion version) {
        return std::count_if(prefixes.begin(), prefixes.end(), [&](const IpPrefix& p) {
            return p.address.version == version && !prefix("64:ff9b::/96").contains(p.address);
        });
    };
    for (const auto& [version, change] :
         {std::pair{base::IpVersion::V4, -2 + 8}, std::pair{base::IpVersion::V6, -1 + 25}}) {
        EXPECT_EQ(count(list, version), count(built_in_deny_list(), version) + change);
    }
}

TEST(DenyList, ATranslatedAddressIsJudgedByTheIpv4AddressInIt) {
    const std::vector<IpPrefix> allow = {prefix("10.20.0.0/16"), prefix("64:ff9b::c0a8:0/112")};
    const std::vector<IpPrefix> deny = {prefix("203.0.113.0/24")};
    const auto list = effective_deny_list(allow, deny);
    for (const char* denied :
         {"64:ff9b::10.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254",
          "64:ff9b::10.21.0.1", "64:ff9b::203.0.113.7", "64:ff9b::240.0.0.1",
          "64:ff9b::172.16.0.1"}) {
        EXPECT_TRUE(is_denied(list, denied)) << denied;
    }
    for (const char* allowed :
         {"64:ff9b::8.8.8.8", "64:ff9b::10.20.0.1", "64:ff9b::198.51.100.1", "64:ff9b::192.168.0.1",
          "64:ff9b::192.169.0.1", "64:ff9b:0:1::a00:1", "64:ff9b:2::1"}) {
        EXPECT_FALSE(is_denied(list, allowed)) << allowed;
    }
    EXPECT_TRUE(is_denied(list, "192.168.0.1")) << "that one is not";
    EXPECT_TRUE(is_denied(effective_deny_list({}, {}), "64:ff9b::192.168.0.1"));
}

TEST(DenyList, AllowingAHostCutsToTheLastBitAndAWholeVersionLeavesNothing) {
    const std::vector<IpPrefix> host = {prefix("169.254.169.254/32")};
    const auto list = effective_deny_list(host, {});
    EXPECT_FALSE(is_denied(list, "169.254.169.254"));
    EXPECT_TRUE(is_denied(list, "169.254.169.255"));
    EXPECT_TRUE(is_denied(list, "169.254.169.253"));
    const std::vector<IpPrefix> all = {prefix("0.0.0.0/0"), prefix("::/0")};
    EXPECT_TRUE(effective_deny_list(all, {}).empty());
}

TEST(DenyList, NodesAreToldWhatOfItIsPrivate) {
    const auto told = [](std::span<const IpPrefix> allow, std::span<const IpPrefix> deny) {
        return denied_private(allow, deny, {}, 64);
    };
    EXPECT_EQ(told({}, {}), (std::vector<IpPrefix>{prefix("10.0.0.0/8"), prefix("100.64.0.0/10"),
                                                   prefix("172.16.0.0/12"),
                                                   prefix("192.168.0.0/16"), prefix("fc00::/7")}));
    const std::vector<IpPrefix> allow = {prefix("10.0.0.0/9"), prefix("fc00::/7"),
                                         prefix("100.64.0.0/10"), prefix("172.16.0.0/12")};
    const std::vector<IpPrefix> deny = {prefix("192.0.0.0/8"), prefix("203.0.113.0/24")};
    EXPECT_EQ(told(allow, deny),
              (std::vector<IpPrefix>{prefix("10.128.0.0/9"), prefix("192.168.0.0/16")}));
    EXPECT_EQ(denied_private({}, {}, {}, 2).size(), 2U);
    const auto list = denied_private({}, {}, {prefix("100.64.3.0/24"), prefix("fd93:47::/64")}, 64);
    EXPECT_FALSE(is_denied(list, "100.64.0.1"));
    EXPECT_TRUE(is_denied(list, "100.65.0.1"));
    EXPECT_FALSE(is_denied(list, "fd93:47::1"));
    EXPECT_TRUE(is_denied(list, "fd94::1"));
    EXPECT_EQ(list.size(), 3U + 6 + 9);
}

TEST(DenyList, DenyWinsOverAllowAndOverlapsAreMerged) {
    const std::vector<IpPrefix> allow = {prefix("10.0.0.0/8")};
    const std::vector<IpPrefix> deny = {prefix("10.1.0.0/16"), prefix("10.1.2.0/24"),
                                        prefix("203.0.113.0/24"), prefix("203.0.113.0/24")};
    const auto list = effective_deny_list(allow, deny);
    EXPECT_TRUE(is_denied(list, "10.1.2.3"));
    EXPECT_FALSE(is_denied(list, "10.2.0.1"));
    EXPECT_EQ(std::count(list.begin(), list.end(), prefix("203.0.113.0/24")), 1);
    EXPECT_EQ(std::count(list.begin(), list.end(), prefix("10.1.2.0/24")), 0);
    EXPECT_TRUE(std::is_sorted(list.begin(), list.end(),
                               [](auto& a, auto& b) { return a.address < b.address; }));
}

TEST(RelayRuleset, OnlyDestinationsNearADeniedOneAreLookedUp) {
    RelayOptions options = usual();
    const std::string text = build_relay_ruleset(options);
    EXPECT_TRUE(contains(text, "\n    ip daddr & 255.0.0.0 { 0.0.0.0, 10.0.0.0, 100.0.0.0, "
                               "127.0.0.0, 168.0.0.0, 169.0.0.0, 172.0.0.0, 192.0.0.0, 198.0.0.0, "
                               "224.0.0.0, "));
    EXPECT_TRUE(contains(text, "254.0.0.0, 255.0.0.0 } ip daddr @denied4 counter name denied "
                               "reject with icmpx type admin-prohibited\n"));
    EXPECT_TRUE(contains(text, "\n    ip6 daddr & ff00:: { ::, 2000::, fc00::, fd00::, fe00::, "
                               "ff00:: } ip6 daddr @denied6 counter name denied reject "));
    // Prefixes shorter than an octet, and no octet's beginning.
    options.deny = {IpPrefix{address("15.1.2.3"), 6}, prefix("4000::/3")};
    const std::string more = build_relay_ruleset(options);
    EXPECT_TRUE(contains(more, "10.0.0.0, 12.0.0.0, 13.0.0.0, 14.0.0.0, 15.0.0.0, 100.0.0.0, "));
    EXPECT_TRUE(contains(more, "2000::, 4000::, 4100::, "));
    EXPECT_TRUE(contains(more, "5f00::, fc00::, "));
    options.deny.clear();
    options.allow = {prefix("0.0.0.0/0"), prefix("::/0")};
    EXPECT_TRUE(contains(build_relay_ruleset(options), "\n    ip daddr @denied4 counter"))
        << "nothing is denied";
}

TEST(RelayRuleset, MasqueradesByDefaultWithThePortRange) {
    RelayOptions options = usual();
    options.source_ports = {{2000, 3000}};
    const std::string text = build_relay_ruleset(options);
    EXPECT_EQ(text.find("add table inet continuo_snapt_snapt0\n"
                        "delete table inet continuo_snapt_snapt0\n"),
              0U);
    EXPECT_TRUE(contains(
        text, "ip saddr 100.64.0.0/16 oifname != \"lo\" oifname != \"snapt0\" meta l4proto "
              "{ tcp, udp } masquerade to :2000-3000"));
    EXPECT_TRUE(contains(text, "ip6 saddr fd93:47::/64 oifname != \"lo\" oifname != \"snapt0\" "
                               "masquerade\n"));
}

TEST(RelayRuleset, PoolGivesEachLeaseOneAddressOfItsVersion) {
    RelayOptions options = usual();
    options.egress = {"eth0", "eth1"};
    options.source_pool = {address("203.0.113.1"), address("203.0.113.2"), address("2001:db8::1")};
    const std::string text = build_relay_ruleset(options);
    EXPECT_TRUE(contains(text,
                         "ip saddr 100.64.0.0/16 oifname { \"eth0\", \"eth1\" } jhash ip saddr mod "
                         "2 seed 0x436f6e74 0 meta l4proto { tcp, udp } snat ip to "
                         "203.0.113.1:1024-65535"));
    EXPECT_TRUE(contains(text,
                         "ip saddr 100.64.0.0/16 oifname { \"eth0\", \"eth1\" } meta l4proto { "
                         "tcp, udp } snat ip to 203.0.113.2:1024-65535"));
    EXPECT_TRUE(contains(text, "ip6 saddr fd93:47::/64 oifname { \"eth0\", \"eth1\" } snat ip6 to "
                               "2001:db8::1\n"));
    EXPECT_FALSE(contains(text, "masquerade"));
}

TEST(RelayRuleset, EachPartOfThePortsKeepsItsOwnAndTheFirstTakesTheRest) {
    RelayOptions options = usual();
    options.source_ports = {{9348, 65535}, {1024, 9346}, {80, 80}};
    const std::string text = build_relay_ruleset(options);
    const std::string match = "    ip saddr 100.64.0.0/16 oifname != \"lo\" oifname != \"snapt0\" "
                              "meta l4proto { tcp, udp } ";
    EXPECT_TRUE(contains(text, match + "th sport 1024-9346 masquerade to :1024-9346\n" + match +
                                   "th sport 80 masquerade to :80\n" + match +
                                   "masquerade to :9348-65535\n"));
}

TEST(RelayRuleset, WithoutAPortNewConnectionsAreDroppedAndCounted) {
    RelayOptions options = usual();
    options.source_ports.clear();
    const std::string text = build_relay_ruleset(options);
    EXPECT_TRUE(contains(text, "oifname != \"snapt0\" meta l4proto { tcp, udp } counter name "
                               "no_port drop"));
    EXPECT_FALSE(contains(text, "masquerade to"));
}

TEST(RelayRuleset, VersionWithoutLeasesIsSpoofedWhateverItsSource) {
    RelayOptions options = usual();
    options.lease_ipv6.reset();
    const std::string text = build_relay_ruleset(options);
    EXPECT_TRUE(contains(text, "meta nfproto ipv6 counter name spoofed drop"));
    EXPECT_FALSE(contains(text, "ip6 saddr"));
}

TEST(SelfService, IsAPortARangeOrPing) {
    for (const char* text : {"tcp/22", "udp/5000-5010", "ping"}) {
        const auto service = SelfService::parse(text);
        ASSERT_TRUE(service) << text;
        EXPECT_EQ(service->to_string(), text);
    }
    for (const char* bad : {"", "22", "tcp", "tcp/", "tcp/0", "tcp/65536", "tcp/9-8", "TCP/22",
                            "sctp/22", "icmp", "ping/1", "tcp/22;", "tcp/22 accept", "tcp/ 22"}) {
        EXPECT_FALSE(SelfService::parse(bad)) << bad;
    }
}

TEST(RelayRuleset, AllowsServicesOfItsHostAndRejectsTheRest) {
    RelayOptions options = usual();
    const std::string_view refused =
        "    counter name to_self reject with icmpx type admin-prohibited\n  }\n";
    EXPECT_TRUE(contains(build_relay_ruleset(options), refused));
    EXPECT_FALSE(contains(build_relay_ruleset(options), "dport"));
    options.allow_self = {*SelfService::parse("tcp/22"), *SelfService::parse("udp/1-9")};
    EXPECT_TRUE(
        contains(build_relay_ruleset(options), "    tcp dport 22 accept\n    udp dport 1-9 accept\n"
                                               "    ct state related accept\n" +
                                                   std::string(refused)));
}

TEST(ConnectionLimit, ALeaseHasSoManyCountsThatEachIsShort) {
    EXPECT_EQ(connection_counts(1), (ConnectionCounts{1, 4}));
    EXPECT_EQ(connection_counts(31), (ConnectionCounts{1, 124}));
    EXPECT_EQ(connection_counts(4096), (ConnectionCounts{256, 64}));
    EXPECT_EQ(connection_counts(5000), (ConnectionCounts{256, 78}));
    for (uint32_t user_flows = 1; user_flows < 20'000'000; user_flows = user_flows * 3 / 2 + 1) {
        const ConnectionCounts counts = connection_counts(user_flows);
        EXPECT_LE(counts.limit(), user_flows * kConnectionsPerUserFlow);
        EXPECT_GE(counts.limit(), user_flows * kConnectionsPerUserFlow / 65 * 64);
    }
}

TEST(ConnectionLimit, TheTableIsNotTheRelaysAndItsChainNamesTheLimit) {
    EXPECT_EQ(limit_table("snapt-1"), "inet continuo_connections_snapt_1");
    const std::string text = build_limit_ruleset("snapt0", {256, 64});
    EXPECT_EQ(text.find("add table inet continuo_connections_snapt0\n"
                        "delete table inet continuo_connections_snapt0\n"),
              0U);
    EXPECT_TRUE(contains(text, "  chain at_most_256x64 {"));
    EXPECT_EQ(limit_chain({256, 64}), "at_most_256x64");
    EXPECT_TRUE(contains(text, "policy accept;\n    ct state established accept\n    iifname"));
    EXPECT_TRUE(contains(text,
                         "iifname \"snapt0\" ct state new ct status ! confirmed add @leases4 { "
                         "ip saddr . ct id & 255 ct count over 64 } goto refuse"));
}

TEST(RelayGuard, WhatLacksTheMarkOfTheRelaysChainHasNoWayOut) {
    for (const netlink::RuleEntry& rule : guard_rules("snapt0")) {
        EXPECT_EQ(rule.action, netlink::RuleAction::Blackhole);
        EXPECT_EQ(rule.input_interface, "snapt0");
        EXPECT_EQ(rule.fwmark, 0U);
        EXPECT_EQ(rule.fwmark_mask, kPassMark);
    }
    EXPECT_EQ(guard_rules("snapt0").size(), 2U);
    const std::string text = build_relay_ruleset(usual());
    EXPECT_TRUE(contains(text, "policy accept;\n    iifname \"snapt0\" goto from_node\n"));
    const std::string from_node = chain(text, "from_node");
    EXPECT_TRUE(from_node.ends_with("\n    meta mark set meta mark | 0x08000000\n"))
        << "after all that is refused";
    EXPECT_EQ(from_node.find("mark set"), from_node.rfind("mark set"));
    EXPECT_TRUE(contains(text, "chain up {\n    meta mark set meta mark & 0xf7ffffff\n"));
    EXPECT_TRUE(contains(text, "chain self {\n    meta mark set meta mark & 0xf7ffffff\n"));
    EXPECT_TRUE(contains(chain(text, "prerouting"),
                         "ip daddr 100.64.0.0/16 meta mark set meta mark | 0x08000000\n"))
        << "answers, too: reverse path filters look up the other way";
    EXPECT_TRUE(contains(text, "chain down {\n    meta mark set meta mark & 0xf7ffffff\n"));
}

TEST(RelayGuard, TheOwnedTableTranslatesAndTracksAndLetsNoLeaseOut) {
    const std::string text = build_guard_ruleset(usual());
    EXPECT_TRUE(contains(text, "table inet snapt_guard_snapt0 {\n  flags owner;\n"));
    EXPECT_TRUE(contains(text, "type nat hook postrouting"));
    EXPECT_TRUE(contains(text, "ct state "));
    for (const char* lease : {"ip saddr 100.64.0.0/16", "ip6 saddr fd93:47::/64"}) {
        EXPECT_TRUE(
            contains(text, std::string(lease) + " oifname != \"lo\" oifname != \"snapt0\" drop\n"));
    }
}

// Each datagram of the tunnel passes prerouting, input, output and postrouting, each packet of a
// node prerouting, forward and postrouting. A look-up in a set costs as much as several
// comparisons.
TEST(RelayRuleset, WhatEveryPacketMeetsComparesAddressesFirstAndLooksNothingUp) {
    const std::string relay = build_relay_ruleset(usual());
    for (const char* name : {"prerouting", "forward", "input", "output", "leak"}) {
        const std::string rules = chain(relay, name);
        EXPECT_FALSE(rules.empty()) << name;
        EXPECT_FALSE(contains(rules, "{ \"") || contains(rules, "@")) << name << rules;
    }
    for (const std::string& rules :
         {chain(relay, "leak"), chain(relay, "nat"), chain(build_guard_ruleset(usual()), "leak")}) {
        EXPECT_TRUE(contains(rules, "\n    ip saddr "));
        EXPECT_FALSE(contains(rules, "{ \"lo\"") || contains(rules, "\n    oifname")) << rules;
    }
}

TEST(RelaySysctls, ForwardingOnlyWhenAskedAndRouterAdvertisementsSurviveIt) {
    const std::vector<std::string> interfaces = {"eth0"};
    const auto with = relay_sysctls(usual(), true, interfaces);
    const auto find = [](const std::vector<host::SysctlSetting>& list, std::string_view key) {
        return std::find_if(list.begin(), list.end(), [&](auto& s) { return s.key == key; });
    };
    const auto advertisements = find(with, "net/ipv6/conf/eth0/accept_ra");
    const auto forwarding = find(with, "net/ipv6/conf/all/forwarding");
    ASSERT_NE(advertisements, with.end());
    ASSERT_NE(forwarding, with.end());
    EXPECT_EQ(advertisements->value, "2");
    EXPECT_LT(advertisements, forwarding);
    EXPECT_NE(find(with, "net/ipv4/ip_forward"), with.end());
    const auto without = relay_sysctls(usual(), false, interfaces);
    EXPECT_EQ(find(without, "net/ipv4/ip_forward"), without.end());
    const auto udp = find(without, "net/netfilter/nf_conntrack_udp_timeout");
    ASSERT_NE(udp, without.end());
    EXPECT_EQ(udp->value, "120");
    EXPECT_TRUE(udp->at_least);
}

}  // namespace
}  // namespace continuo::snapt::nat
