#include "common/io/netlink_route.hpp"

#include <algorithm>
#include <cerrno>

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace continuo::io {

namespace {

using base::ByteView;
using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;
using base::Result;

constexpr uint16_t kAcknowledged = NLM_F_ACK;

uint8_t family_of(IpVersion version) {
    return version == IpVersion::V4 ? AF_INET : AF_INET6;
}

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
    default:
        return std::nullopt;
    }
}

uint8_t from_rule_action(RuleAction action) {
    switch (action) {
    case RuleAction::Goto:
        return FR_ACT_GOTO;
    case RuleAction::Nothing:
        return FR_ACT_NOP;
    case RuleAction::Lookup:
        break;
    }
    return FR_ACT_TO_TBL;
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
        one.gateway =
            to_address(route.destination.address.version, find_attribute(attributes, RTA_GATEWAY));
        routes.push_back(std::move(one));
        const size_t step = (hop.rtnh_len + size_t{3}) & ~size_t{3};
        list = list.subspan(std::min(step, list.size()));
    }
}

// A route with several next hops gives one entry for each.
void parse_route(const NetlinkMessage& message, uint32_t table, std::vector<RouteEntry>& routes) {
    const auto info = message.fixed<rtmsg>();
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
    route.gateway = to_address(*version, find_attribute(attributes, RTA_GATEWAY));
    route.preferred_source = to_address(*version, find_attribute(attributes, RTA_PREFSRC));
    route.table = in_table;
    route.metric = find_u32(attributes, RTA_PRIORITY).value_or(0);
    route.type = *type;
    route.protocol = info.rtm_protocol;
    if (const auto hops = find_attribute(attributes, RTA_MULTIPATH)) {
        add_next_hops(*hops, route, routes);
    } else {
        routes.push_back(std::move(route));
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
    rule.table = find_u32(attributes, FRA_TABLE).value_or(info.table);
    rule.fwmark = find_u32(attributes, FRA_FWMARK);
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
    rule.find_source = (info.flags & FIB_RULE_FIND_SADDR) != 0;
    rule.protocol = parse_u8(attributes, FRA_PROTOCOL, 0);
    return rule;
}

void write_ports(NetlinkRequest& request, uint16_t type, const std::optional<NumberRange>& ports) {
    if (ports) {
        request.attribute(type, fib_rule_port_range{static_cast<uint16_t>(ports->first),
                                                    static_cast<uint16_t>(ports->last)});
    }
}

void write_rule_matches(NetlinkRequest& request, const RuleEntry& rule) {
    if (rule.fwmark) {
        request.attribute(FRA_FWMARK, *rule.fwmark);
        request.attribute(FRA_FWMASK, UINT32_MAX);
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
}

Result<void> forgive(Result<void> result, int error) {
    return !result && result.error().sys_errno == error ? Result<void>() : result;
}

}  // namespace

Result<RouteClient> RouteClient::open() {
    return RouteClient(CTN_TRY(NetlinkSocket::open(NETLINK_ROUTE)));
}

Result<uint32_t> RouteClient::interface_index(std::string_view name) {
    const uint32_t index = ::if_nametoindex(std::string(name).c_str());
    if (index == 0) {
        return Error{Errc::NotFound, "interface", errno};
    }
    return index;
}

Result<void> RouteClient::set_link(uint32_t interface_index, const LinkSettings& settings) {
    NetlinkRequest request(RTM_NEWLINK, kAcknowledged);
    ifinfomsg info{};
    info.ifi_family = AF_UNSPEC;
    info.ifi_index = static_cast<int>(interface_index);
    if (settings.up) {
        info.ifi_change = IFF_UP;
        info.ifi_flags = *settings.up ? unsigned{IFF_UP} : 0U;
    }
    request.fixed(info);
    if (settings.mtu) {
        request.attribute(IFLA_MTU, *settings.mtu);
    }
    if (settings.transmit_queue_length) {
        request.attribute(IFLA_TXQLEN, *settings.transmit_queue_length);
    }
    return socket_.change(request, "set interface");
}

Result<void> RouteClient::delete_link(uint32_t interface_index) {
    NetlinkRequest request(RTM_DELLINK, kAcknowledged);
    ifinfomsg info{};
    info.ifi_index = static_cast<int>(interface_index);
    request.fixed(info);
    return socket_.change(request, "remove interface");
}

Result<std::vector<LinkEntry>> RouteClient::links() {
    std::vector<LinkEntry> links;
    NetlinkRequest request(RTM_GETLINK, NLM_F_DUMP);
    request.fixed(ifinfomsg{});
    CTN_TRY(socket_.list(
        request, "list interfaces",
        [&](const NetlinkMessage& message) { links.push_back(parse_link(message)); },
        [&] { links.clear(); }));
    return links;
}

Result<void> RouteClient::change_address(uint16_t type,
                                         uint16_t flags,
                                         uint32_t interface_index,
                                         const IpAddress& address,
                                         uint8_t prefix_length) {
    NetlinkRequest request(type, static_cast<uint16_t>(kAcknowledged | flags));
    ifaddrmsg info{};
    info.ifa_family = family_of(address.version);
    info.ifa_prefixlen = prefix_length;
    info.ifa_flags = address.is_v4() ? uint8_t{0} : uint8_t{IFA_F_NODAD};
    info.ifa_scope = address.is_link_local() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
    info.ifa_index = interface_index;
    request.fixed(info);
    request.attribute(IFA_LOCAL, address.bytes());
    request.attribute(IFA_ADDRESS, address.bytes());
    return socket_.change(request, type == RTM_NEWADDR ? "add address" : "remove address");
}

Result<void> RouteClient::add_address(uint32_t interface_index,
                                      const IpAddress& address,
                                      uint8_t prefix_length) {
    return change_address(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, interface_index, address,
                          prefix_length);
}

Result<void> RouteClient::remove_address(uint32_t interface_index,
                                         const IpAddress& address,
                                         uint8_t prefix_length) {
    return change_address(RTM_DELADDR, 0, interface_index, address, prefix_length);
}

Result<std::vector<AddressEntry>> RouteClient::addresses() {
    std::vector<AddressEntry> addresses;
    NetlinkRequest request(RTM_GETADDR, NLM_F_DUMP);
    request.fixed(ifaddrmsg{});
    CTN_TRY(socket_.list(
        request, "list addresses",
        [&](const NetlinkMessage& message) {
            if (auto entry = parse_address(message)) {
                addresses.push_back(*entry);
            }
        },
        [&] { addresses.clear(); }));
    return addresses;
}

Result<void> RouteClient::change_route(uint16_t type, uint16_t flags, const RouteEntry& route) {
    uint32_t index = route.interface_index;
    if (!route.interface.empty()) {
        index = CTN_TRY(interface_index(route.interface));
    }
    NetlinkRequest request(type, static_cast<uint16_t>(kAcknowledged | flags));
    rtmsg info{};
    info.rtm_family = family_of(route.destination.address.version);
    info.rtm_dst_len = route.destination.length;
    info.rtm_table =
        route.table < 256 ? static_cast<uint8_t>(route.table) : uint8_t{RT_TABLE_UNSPEC};
    info.rtm_protocol = route.protocol;
    const bool is_direct = route.type == RouteType::Unicast && !route.gateway;
    info.rtm_scope = is_direct ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
    info.rtm_type = from_route_type(route.type);
    request.fixed(info);
    if (route.destination.length > 0) {
        request.attribute(RTA_DST, route.destination.address.bytes());
    }
    if (index != 0) {
        request.attribute(RTA_OIF, index);
    }
    if (route.gateway) {
        request.attribute(RTA_GATEWAY, route.gateway->bytes());
    }
    if (route.preferred_source) {
        request.attribute(RTA_PREFSRC, route.preferred_source->bytes());
    }
    if (route.metric != 0) {
        request.attribute(RTA_PRIORITY, route.metric);
    }
    request.attribute(RTA_TABLE, route.table);
    return socket_.change(request, type == RTM_NEWROUTE ? "set route" : "remove route");
}

Result<void> RouteClient::set_route(const RouteEntry& route) {
    return change_route(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_REPLACE, route);
}

Result<void> RouteClient::remove_route(const RouteEntry& route) {
    return change_route(RTM_DELROUTE, 0, route);
}

Result<std::vector<RouteEntry>> RouteClient::routes(IpVersion version, uint32_t table) {
    std::vector<RouteEntry> routes;
    NetlinkRequest request(RTM_GETROUTE, NLM_F_DUMP);
    rtmsg info{};
    info.rtm_family = family_of(version);
    request.fixed(info);
    request.attribute(RTA_TABLE, table);
    const auto done = socket_.list(
        request, "list routes",
        [&](const NetlinkMessage& message) { parse_route(message, table, routes); },
        [&] { routes.clear(); });
    // A table that no route was ever put in.
    if (!done && done.error().sys_errno != ENOENT) {
        return done.error();
    }
    return routes;
}

Result<size_t> RouteClient::remove_own_routes(uint32_t table) {
    size_t removed = 0;
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        for (const RouteEntry& route : CTN_TRY(routes(version, table))) {
            if (route.protocol == kRouteProtocol) {
                CTN_TRY(forgive(remove_route(route), ESRCH));
                ++removed;
            }
        }
    }
    return removed;
}

Result<void> RouteClient::change_rule(uint16_t type, uint16_t flags, const RuleEntry& rule) {
    NetlinkRequest request(type, static_cast<uint16_t>(kAcknowledged | flags));
    fib_rule_hdr info{};
    info.family = family_of(rule.version);
    info.src_len = rule.from ? rule.from->length : uint8_t{0};
    info.dst_len = rule.to ? rule.to->length : uint8_t{0};
    const bool is_lookup = rule.action == RuleAction::Lookup;
    info.table =
        is_lookup && rule.table < 256 ? static_cast<uint8_t>(rule.table) : uint8_t{RT_TABLE_UNSPEC};
    info.action = from_rule_action(rule.action);
    info.flags = rule.find_source ? uint32_t{FIB_RULE_FIND_SADDR} : 0U;
    request.fixed(info);
    request.attribute(FRA_PRIORITY, rule.priority);
    if (is_lookup) {
        request.attribute(FRA_TABLE, rule.table);
    }
    if (rule.action == RuleAction::Goto) {
        request.attribute(FRA_GOTO, rule.target);
    }
    request.attribute(FRA_PROTOCOL, rule.protocol);
    write_rule_matches(request, rule);
    return socket_.change(request, type == RTM_NEWRULE ? "add rule" : "remove rule");
}

Result<void> RouteClient::add_rule(const RuleEntry& rule) {
    // NLM_F_EXCL: without it the kernel keeps duplicates.
    return forgive(change_rule(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule), EEXIST);
}

Result<void> RouteClient::remove_rule(const RuleEntry& rule) {
    return change_rule(RTM_DELRULE, 0, rule);
}

Result<std::vector<RuleEntry>> RouteClient::rules(IpVersion version) {
    std::vector<RuleEntry> rules;
    NetlinkRequest request(RTM_GETRULE, NLM_F_DUMP);
    fib_rule_hdr info{};
    info.family = family_of(version);
    request.fixed(info);
    CTN_TRY(socket_.list(
        request, "list rules",
        [&](const NetlinkMessage& message) {
            if (auto rule = parse_rule(message)) {
                rules.push_back(std::move(*rule));
            }
        },
        [&] { rules.clear(); }));
    return rules;
}

Result<size_t> RouteClient::remove_own_rules(uint32_t first_priority, uint32_t last_priority) {
    size_t removed = 0;
    for (const IpVersion version : {IpVersion::V4, IpVersion::V6}) {
        for (const RuleEntry& rule : CTN_TRY(rules(version))) {
            const bool is_in_range =
                rule.priority >= first_priority && rule.priority <= last_priority;
            if (is_in_range && rule.protocol == kRouteProtocol) {
                CTN_TRY(forgive(remove_rule(rule), ENOENT));
                ++removed;
            }
        }
    }
    return removed;
}

}  // namespace continuo::io
