#include "common/netlink/route_message.hpp"

#include <algorithm>
#include <cstring>

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace continuo::netlink {

namespace {

using base::ByteView;
using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;

std::optional<IpAddress> to_address(IpVersion version, std::optional<ByteView> bytes) {
    const size_t length = version == IpVersion::V4 ? 4 : 16;
    if (!bytes || bytes->size() != length) {
        return std::nullopt;
    }
    return version == IpVersion::V4 ? IpAddress::v4(*bytes) : IpAddress::v6(*bytes);
}

std::optional<IpVersion> to_version(uint8_t family) {
    if (family == AF_INET) {
        return IpVersion::V4;
    }
    return family == AF_INET6 ? std::optional(IpVersion::V6) : std::nullopt;
}

std::optional<RouteType> to_route_type(uint8_t type) {
    switch (type) {
    case RTN_UNICAST:
        return RouteType::Unicast;
    case RTN_UNREACHABLE:
        return RouteType::Unreachable;
    case RTN_BLACKHOLE:
        return RouteType::Blackhole;
    case RTN_PROHIBIT:
        return RouteType::Prohibit;
    default:
        return std::nullopt;
    }
}

std::optional<RuleAction> to_rule_action(uint8_t action) {
    switch (action) {
    case FR_ACT_TO_TBL:
        return RuleAction::Lookup;
    case FR_ACT_GOTO:
        return RuleAction::Goto;
    case FR_ACT_NOP:
        return RuleAction::Nothing;
    case FR_ACT_BLACKHOLE:
        return RuleAction::Blackhole;
    default:
        return std::nullopt;
    }
}

// A gateway of the other IP version (RFC 8950) has an attribute of its own.
std::optional<IpAddress> gateway_of(IpVersion version, ByteView attributes) {
    if (const auto via = find_attribute(attributes, RTA_VIA); via && via->size() > sizeof(rtvia)) {
        rtvia head{};
        std::memcpy(&head, via->data(), sizeof head);
        const auto other = to_version(static_cast<uint8_t>(head.rtvia_family));
        return other ? to_address(*other, via->subspan(sizeof head)) : std::nullopt;
    }
    return to_address(version, find_attribute(attributes, RTA_GATEWAY));
}

void add_next_hops(ByteView list, const RouteEntry& route, std::vector<RouteEntry>& routes) {
    while (list.size() >= sizeof(rtnexthop)) {
        rtnexthop hop{};
        std::memcpy(&hop, list.data(), sizeof hop);
        if (hop.rtnh_len < sizeof hop || hop.rtnh_len > list.size()) {
            return;
        }
        const ByteView attributes = list.subspan(sizeof hop, hop.rtnh_len - sizeof hop);
        RouteEntry one = route;
        one.interface_index = static_cast<uint32_t>(hop.rtnh_ifindex);
        one.gateway = gateway_of(route.destination.address.version, attributes);
        one.is_on_link = (hop.rtnh_flags & RTNH_F_ONLINK) != 0;
        routes.push_back(std::move(one));
        const size_t step = (hop.rtnh_len + size_t{3}) & ~size_t{3};
        list = list.subspan(std::min(step, list.size()));
    }
}

std::optional<NumberRange> parse_ports(ByteView attributes, uint16_t type) {
    const auto value = find_attribute(attributes, type);
    fib_rule_port_range range{};
    if (!value || value->size() != sizeof range) {
        return std::nullopt;
    }
    std::memcpy(&range, value->data(), sizeof range);
    return NumberRange{range.start, range.end};
}

std::optional<NumberRange> parse_users(ByteView attributes) {
    const auto value = find_attribute(attributes, FRA_UID_RANGE);
    fib_rule_uid_range range{};
    if (!value || value->size() != sizeof range) {
        return std::nullopt;
    }
    std::memcpy(&range, value->data(), sizeof range);
    return NumberRange{range.start, range.end};
}

std::optional<IpPrefix>
parse_prefix(IpVersion version, std::optional<ByteView> value, uint8_t length) {
    if (length == 0) {
        return std::nullopt;
    }
    return IpPrefix{to_address(version, value).value_or(IpAddress::any(version)), length};
}

uint8_t parse_u8(ByteView attributes, uint16_t type, uint8_t otherwise) {
    const auto value = find_attribute(attributes, type);
    return value && !value->empty() ? value->front() : otherwise;
}

void write_ports(NetlinkRequest& request, uint16_t type, const std::optional<NumberRange>& ports) {
    if (ports) {
        request.attribute(type, fib_rule_port_range{static_cast<uint16_t>(ports->first),
                                                    static_cast<uint16_t>(ports->last)});
    }
}

}  // namespace

uint8_t family_of(IpVersion version) {
    return version == IpVersion::V4 ? AF_INET : AF_INET6;
}

uint8_t from_route_type(RouteType type) {
    switch (type) {
    case RouteType::Unreachable:
        return RTN_UNREACHABLE;
    case RouteType::Blackhole:
        return RTN_BLACKHOLE;
    case RouteType::Prohibit:
        return RTN_PROHIBIT;
    case RouteType::Unicast:
        break;
    }
    return RTN_UNICAST;
}

uint8_t from_rule_action(RuleAction action) {
    switch (action) {
    case RuleAction::Goto:
        return FR_ACT_GOTO;
    case RuleAction::Nothing:
        return FR_ACT_NOP;
    case RuleAction::Blackhole:
        return FR_ACT_BLACKHOLE;
    case RuleAction::Lookup:
        break;
    }
    return FR_ACT_TO_TBL;
}

LinkEntry parse_link(const NetlinkMessage& message) {
    const auto info = message.fixed<ifinfomsg>();
    const ByteView attributes = message.attributes(sizeof info);
    LinkEntry link;
    link.index = static_cast<uint32_t>(info.ifi_index);
    link.name = find_text(attributes, IFLA_IFNAME);
    link.is_up = (info.ifi_flags & IFF_UP) != 0;
    link.has_carrier = (info.ifi_flags & IFF_RUNNING) != 0;
    link.is_loopback = (info.ifi_flags & IFF_LOOPBACK) != 0;
    link.mtu = find_u32(attributes, IFLA_MTU).value_or(0);
    link.group = find_u32(attributes, IFLA_GROUP).value_or(0);
    link.alias = find_text(attributes, IFLA_IFALIAS);
    if (const auto info_of_kind = find_attribute(attributes, IFLA_LINKINFO)) {
        link.kind = find_text(*info_of_kind, IFLA_INFO_KIND);
    }
    return link;
}

std::optional<AddressEntry> parse_address(const NetlinkMessage& message) {
    const auto info = message.fixed<ifaddrmsg>();
    const ByteView attributes = message.attributes(sizeof info);
    const auto version = to_version(info.ifa_family);
    if (!version) {
        return std::nullopt;
    }
    // On point-to-point links IFA_ADDRESS is the other side.
    auto value = find_attribute(attributes, IFA_LOCAL);
    if (!value) {
        value = find_attribute(attributes, IFA_ADDRESS);
    }
    const auto address = to_address(*version, value);
    if (!address) {
        return std::nullopt;
    }
    AddressEntry entry;
    entry.interface_index = info.ifa_index;
    entry.address = *address;
    entry.prefix_length = info.ifa_prefixlen;
    entry.scope = info.ifa_scope;
    entry.flags = find_u32(attributes, IFA_FLAGS).value_or(info.ifa_flags);
    return entry;
}

void parse_route(const NetlinkMessage& message, uint32_t table, RouteChange& change) {
    const auto info = message.fixed<rtmsg>();
    change.is_removal = message.type == RTM_DELROUTE;
    change.replaces = (message.flags & NLM_F_REPLACE) != 0;
    change.type_of_service = info.rtm_tos;
    change.hops.clear();
    const ByteView attributes = message.attributes(sizeof info);
    const auto version = to_version(info.rtm_family);
    const auto type = to_route_type(info.rtm_type);
    const uint32_t in_table = find_u32(attributes, RTA_TABLE).value_or(info.rtm_table);
    if (!version || !type || in_table != table || (info.rtm_flags & RTM_F_CLONED) != 0) {
        return;
    }
    RouteEntry route;
    route.destination.address = to_address(*version, find_attribute(attributes, RTA_DST))
                                    .value_or(IpAddress::any(*version));
    route.destination.length = info.rtm_dst_len;
    route.interface_index = find_u32(attributes, RTA_OIF).value_or(0);
    route.gateway = gateway_of(*version, attributes);
    route.preferred_source = to_address(*version, find_attribute(attributes, RTA_PREFSRC));
    route.table = in_table;
    route.metric = find_u32(attributes, RTA_PRIORITY).value_or(0);
    route.type = *type;
    route.protocol = info.rtm_protocol;
    route.is_on_link = (info.rtm_flags & RTNH_F_ONLINK) != 0;
    if (const auto hops = find_attribute(attributes, RTA_MULTIPATH)) {
        add_next_hops(*hops, route, change.hops);
    } else {
        change.hops.push_back(std::move(route));
    }
}

std::optional<RuleEntry> parse_rule(const NetlinkMessage& message) {
    const auto info = message.fixed<fib_rule_hdr>();
    const ByteView attributes = message.attributes(sizeof info);
    const auto version = to_version(info.family);
    const auto action = to_rule_action(info.action);
    if (!version || !action) {
        return std::nullopt;
    }
    RuleEntry rule;
    rule.action = *action;
    rule.target = find_u32(attributes, FRA_GOTO).value_or(0);
    rule.version = *version;
    rule.priority = find_u32(attributes, FRA_PRIORITY).value_or(0);
    if (rule.action == RuleAction::Lookup) {
        rule.table = find_u32(attributes, FRA_TABLE).value_or(info.table);
    }
    rule.fwmark = find_u32(attributes, FRA_FWMARK);
    rule.fwmark_mask = find_u32(attributes, FRA_FWMASK).value_or(UINT32_MAX);
    if (!rule.fwmark && rule.fwmark_mask != UINT32_MAX) {
        rule.fwmark = 0;  // the kernel lists no mark of zero
    }
    rule.from = parse_prefix(*version, find_attribute(attributes, FRA_SRC), info.src_len);
    rule.to = parse_prefix(*version, find_attribute(attributes, FRA_DST), info.dst_len);
    rule.input_interface = find_text(attributes, FRA_IIFNAME);
    if (const uint8_t ip_protocol = parse_u8(attributes, FRA_IP_PROTO, 0); ip_protocol != 0) {
        rule.ip_protocol = ip_protocol;
    }
    rule.source_ports = parse_ports(attributes, FRA_SPORT_RANGE);
    rule.destination_ports = parse_ports(attributes, FRA_DPORT_RANGE);
    rule.users = parse_users(attributes);
    const auto suppressed = find_u32(attributes, FRA_SUPPRESS_PREFIXLEN);
    if (suppressed && *suppressed != UINT32_MAX) {
        rule.suppress_prefix_length = suppressed;
    }
    const auto group = find_u32(attributes, FRA_SUPPRESS_IFGROUP);
    if (group && *group != UINT32_MAX) {
        rule.suppress_group = group;
    }
    rule.find_source = (info.flags & FIB_RULE_FIND_SADDR) != 0;
    rule.is_inverted = (info.flags & FIB_RULE_INVERT) != 0;
    rule.has_other_selector = info.tos != 0 || find_attribute(attributes, FRA_OIFNAME) ||
                              find_attribute(attributes, FRA_TUN_ID) ||
                              parse_u8(attributes, FRA_L3MDEV, 0) != 0;
    rule.protocol = parse_u8(attributes, FRA_PROTOCOL, 0);
    return rule;
}

void write_rule_matches(NetlinkRequest& request, const RuleEntry& rule) {
    if (rule.fwmark) {
        request.attribute(FRA_FWMARK, *rule.fwmark);
        request.attribute(FRA_FWMASK, rule.fwmark_mask);
    }
    if (rule.from) {
        request.attribute(FRA_SRC, rule.from->address.bytes());
    }
    if (rule.to) {
        request.attribute(FRA_DST, rule.to->address.bytes());
    }
    if (!rule.input_interface.empty()) {
        request.text(FRA_IIFNAME, rule.input_interface);
    }
    if (rule.ip_protocol) {
        request.attribute(FRA_IP_PROTO, *rule.ip_protocol);
    }
    write_ports(request, FRA_SPORT_RANGE, rule.source_ports);
    write_ports(request, FRA_DPORT_RANGE, rule.destination_ports);
    if (rule.users) {
        request.attribute(FRA_UID_RANGE, fib_rule_uid_range{rule.users->first, rule.users->last});
    }
    if (rule.suppress_prefix_length) {
        request.attribute(FRA_SUPPRESS_PREFIXLEN, *rule.suppress_prefix_length);
    }
    if (rule.suppress_group) {
        request.attribute(FRA_SUPPRESS_IFGROUP, *rule.suppress_group);
    }
}

}  // namespace continuo::netlink
