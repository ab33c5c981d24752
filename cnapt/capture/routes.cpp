#include "cnapt/capture/routes.hpp"

#include "cnapt/capture/capture_answers.hpp"
#include "cnapt/capture/capture_ruleset.hpp"
#include "cnapt/uplinks/interface_name.hpp"
#include "cnapt/uplinks/near_links.hpp"
#include "common/packet/five_tuple.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace continuo::cnapt::capture {

namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;
using netlink::RuleAction;
using netlink::RuleEntry;

constexpr uint32_t kDefaultGroup = 0;
constexpr uint8_t kWrittenHeader = 255;  // IPPROTO_RAW

// Offsets from rule_priority.
enum class RulePlace : uint32_t {
    Outer,
    Own,
    Bypass,
    Groups,
    Near,
    Portal,
    Capture,
    Gateway,
    End = 15
};
static_assert(static_cast<uint32_t>(RulePlace::End) + 1 == kRulePriorities);

constexpr std::array kGroups4 = {"224.0.0.0/4", "255.255.255.255/32"};
constexpr std::array kGroups6 = {"ff00::/8", "fe80::/10"};

constexpr uint8_t number(packet::Protocol protocol) {
    return static_cast<uint8_t>(protocol);
}

IpPrefix host_prefix(const IpAddress& address) {
    return IpPrefix{address, static_cast<uint8_t>(address.is_v4() ? 32 : 128)};
}

IpPrefix default_prefix(IpVersion version) {
    return IpPrefix{IpAddress::any(version), 0};
}

RuleEntry rule_at(const CaptureOptions& options, IpVersion version, RulePlace place) {
    RuleEntry rule;
    rule.version = version;
    rule.priority = options.rule_priority + static_cast<uint32_t>(place);
    return rule;
}

// Leaves the decision to the host's own rules.
RuleEntry leave_at(const CaptureOptions& options, IpVersion version, RulePlace place) {
    RuleEntry rule = rule_at(options, version, place);
    rule.action = RuleAction::Goto;
    rule.target = options.rule_priority + static_cast<uint32_t>(RulePlace::End);
    return rule;
}

RuleEntry tunnel_at(const CaptureOptions& options, IpVersion version, RulePlace place) {
    RuleEntry rule = rule_at(options, version, place);
    rule.table = options.routing_table;
    return rule;
}

// Routes of the main table except default ones, also in parts. fc00::/7 is as short as one of
// those.
RuleEntry
near_at(const CaptureOptions& options, IpVersion version, const std::optional<IpPrefix>& to) {
    RuleEntry rule = rule_at(options, version, RulePlace::Near);
    const bool is_short = to && to->length == uplinks::kLongestPartOfDefault;
    rule.suppress_prefix_length = uplinks::kLongestPartOfDefault - (is_short ? 1U : 0U);
    rule.to = to;
    return rule;
}

void add_near(const CaptureOptions& options, IpVersion version, std::vector<RuleEntry>& rules) {
    const auto add = [&](const IpPrefix& prefix) {
        if (prefix.address.version == version) {
            rules.push_back(near_at(options, version, prefix));
        }
    };
    for (const IpPrefix& prefix : uplinks::private_prefixes()) {
        add(prefix);
    }
    for (const IpPrefix& prefix : options.near) {
        add(prefix);
    }
    if (options.has_near_links) {
        rules.push_back(near_at(options, version, std::nullopt));
        rules.back().suppress_group = kDefaultGroup;
    }
}

void add_portal(const CaptureOptions& options, IpVersion version, std::vector<RuleEntry>& rules) {
    constexpr std::array<std::pair<packet::Protocol, uint32_t>, 4> kWeb = {
        {{packet::Protocol::Tcp, 80},
         {packet::Protocol::Tcp, 443},
         {packet::Protocol::Udp, 53},
         {packet::Protocol::Tcp, 53}}};
    if (!options.portal || version != IpVersion::V4) {
        return;
    }
    for (const auto& [protocol, port] : kWeb) {
        RuleEntry rule = rule_at(options, version, RulePlace::Portal);
        rule.table = portal_table(options.routing_table);
        rule.ip_protocol = number(protocol);
        rule.destination_ports = netlink::NumberRange{port, port};
        rule.users = netlink::NumberRange{options.portal->user, options.portal->user};
        rules.push_back(std::move(rule));
    }
}

// ICMP stands for ICMPv6 too.
std::optional<uint8_t> protocol_in(IpVersion version, std::optional<uint8_t> protocol) {
    return version == IpVersion::V6 && protocol == number(packet::Protocol::Icmp)
               ? number(packet::Protocol::IcmpV6)
               : protocol;
}

void add_bypass(const CaptureOptions& options, IpVersion version, std::vector<RuleEntry>& rules) {
    for (const IpPrefix& prefix : options.exclude) {
        if (prefix.address.version == version) {
            rules.push_back(leave_at(options, version, RulePlace::Bypass));
            rules.back().to = prefix;
        }
    }
    for (const BypassMatch& match : options.bypass) {
        if (match.destination && match.destination->address.version != version) {
            continue;
        }
        RuleEntry rule = leave_at(options, version, RulePlace::Bypass);
        if (!match.is_bypassed) {
            rule.target = options.rule_priority + static_cast<uint32_t>(RulePlace::Groups);
        }
        rule.to = match.destination;
        rule.ip_protocol = protocol_in(version, match.ip_protocol);
        rule.destination_ports = match.destination_ports;
        rule.users = match.users;
        rule.fwmark = match.fwmark;
        rules.push_back(std::move(rule));
    }
    if (options.kill_switch) {
        return;
    }
    // The own route of a carrier alone leads beside the tunnel. When its network goes, the kernel
    // removes that route without a word, and the next best one may lead into the tunnel itself.
    for (const IpPrefix& carrier : options.carriers) {
        if (carrier.address.version == version) {
            rules.push_back(rule_at(options, version, RulePlace::Bypass));
            rules.back().suppress_prefix_length = carrier.length - 1U;
            rules.back().to = carrier;
        }
    }
}

void add_groups(const CaptureOptions& options, IpVersion version, std::vector<RuleEntry>& rules) {
    for (const char* group : version == IpVersion::V4 ? kGroups4 : kGroups6) {
        rules.push_back(leave_at(options, version, RulePlace::Groups));
        rules.back().to = IpPrefix::parse(group);
    }
    // Leases are renewed by unicast, also with servers that have a public address.
    const bool is_v4 = version == IpVersion::V4;
    const uint32_t client = is_v4 ? 68 : 546;
    const uint32_t server = is_v4 ? 67 : 547;
    rules.push_back(leave_at(options, version, RulePlace::Groups));
    rules.back().ip_protocol = number(packet::Protocol::Udp);
    rules.back().source_ports = netlink::NumberRange{client, client};
    rules.back().destination_ports = netlink::NumberRange{server, server};
}

void add_capture(const CaptureOptions& options,
                 const IpAddress& own,
                 std::vector<RuleEntry>& rules) {
    const IpVersion version = own.version;
    const bool is_v4 = own.is_v4();
    const packet::Protocol icmp = is_v4 ? packet::Protocol::Icmp : packet::Protocol::IcmpV6;
    for (const uint8_t protocol : {number(packet::Protocol::Tcp), number(packet::Protocol::Udp),
                                   number(icmp), kWrittenHeader}) {
        RuleEntry rule = tunnel_at(options, version, RulePlace::Capture);
        rule.from = host_prefix(is_v4 ? IpAddress::any(version) : own);
        rule.find_source = !is_v4;
        rule.ip_protocol = protocol;
        rules.push_back(std::move(rule));
    }
}

void add_rules(const CaptureOptions& options, const IpAddress& own, std::vector<RuleEntry>& rules) {
    const IpVersion version = own.version;
    // First the target, so that a jump never leads nowhere.
    rules.push_back(rule_at(options, version, RulePlace::End));
    rules.back().action = RuleAction::Nothing;
    rules.push_back(leave_at(options, version, RulePlace::Outer));
    rules.back().fwmark = options.fwmark;
    rules.push_back(tunnel_at(options, version, RulePlace::Own));
    rules.back().from = host_prefix(own);
    add_groups(options, version, rules);
    add_bypass(options, version, rules);
    add_near(options, version, rules);
    add_portal(options, version, rules);
    if (!options.gateway_interfaces.empty()) {
        rules.push_back(tunnel_at(options, version, RulePlace::Gateway));
        rules.back().fwmark = gateway_mark(options);
    }
}

std::vector<host::SysctlSetting> build_device_settings(const std::string& device) {
    const std::string four = "net/ipv4/conf/" + device + "/";
    const std::string six = "net/ipv6/conf/" + device + "/";
    return {
        // Strict filtering would drop answers to a gateway's clients, which the main table routes
        // elsewhere.
        {four + "rp_filter", "2", false, false},
        {four + "send_redirects", "0", false, true},
        // The capture rules then match their source even with a deprecated address, instead of an
        // uplink's.
        {six + "use_oif_addrs_only", "1", false, true},
        // Only our address; no router or listener messages into the tunnel.
        {six + "addr_gen_mode", "1", false, true},
        {six + "accept_ra", "0", false, true},
        {six + "router_solicitations", "0", false, true},
    };
}

}  // namespace

// Comes after the rules for a gateway's connections.
uint32_t bypass_mark(uint32_t fwmark) {
    return fwmark + 3;
}

std::string capture_table(std::string_view device) {
    std::string name = "inet continuo_cnapt_";
    for (const char c : device) {
        const bool is_plain =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        name.push_back(is_plain ? c : '_');
    }
    return name;
}

uint32_t portal_table(uint32_t routing_table) {
    constexpr uint32_t kFirstOfKernel = 253;
    const bool has_room = routing_table != UINT32_MAX && routing_table + 1 != kFirstOfKernel;
    return has_room ? routing_table + 1 : routing_table - 1;
}

CapturePlan build_capture_plan(const CaptureOptions& options) {
    CTN_ASSERT(uplinks::is_safe_interface_name(options.device));
    for (const std::string& name : options.gateway_interfaces) {
        CTN_ASSERT(uplinks::is_gateway_pattern(name));
    }
    CapturePlan plan;
    std::vector<IpAddress> own;
    std::vector<IpAddress> answering;  // the same while the host has no IPv6: its text stays
    for (const auto& address : {options.ipv4, options.ipv6}) {
        if (address) {
            answering.push_back(*address);
        }
        if (!address || (!address->is_v4() && !options.has_ipv6)) {
            continue;
        }
        own.push_back(*address);
        netlink::RouteEntry route;
        route.destination = default_prefix(address->version);
        route.interface = options.device;
        route.preferred_source = *address;
        route.table = options.routing_table;
        plan.routes.push_back(std::move(route));
        add_rules(options, *address, plan.rules);
        add_capture(options, *address, plan.capture_rules);
    }
    if (options.portal && options.ipv4) {
        netlink::RouteEntry route;
        route.destination = default_prefix(IpVersion::V4);
        route.interface = options.portal->interface;
        route.gateway = options.portal->gateway;
        route.table = portal_table(options.routing_table);
        plan.routes.push_back(std::move(route));
    }
    plan.device_settings = build_device_settings(options.device);
    plan.table = capture_table(options.device);
    plan.ruleset = build_ruleset(options, plan.table, own);
    plan.answers_table = answers_table(options.device);
    plan.answers = build_answers(options, plan.answers_table, answering);
    plan.guard = build_guard(options.device, plan.table, own);
    if (!options.gateway_interfaces.empty()) {
        const std::string chain = plan.table + " " + std::string(kLanBeginsChain);
        plan.close_gateway = "flush chain " + chain + "\n";
        plan.open_gateway =
            plan.close_gateway + lan_begins_rules(options, "add rule " + chain + " ");
    }
    plan.first_priority = options.rule_priority;
    plan.bypass_priority = options.rule_priority + static_cast<uint32_t>(RulePlace::Bypass);
    plan.near_priority = options.rule_priority + static_cast<uint32_t>(RulePlace::Near);
    plan.last_priority = options.rule_priority + kRulePriorities - 1;
    return plan;
}

}  // namespace continuo::cnapt::capture
