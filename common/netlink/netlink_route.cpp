#include "common/netlink/netlink_route.hpp"

#include "common/netlink/route_message.hpp"

#include <array>
#include <cerrno>

#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

namespace continuo::netlink {

namespace {

using base::Errc;
using base::Error;
using base::IpAddress;
using base::IpVersion;
using base::Result;

constexpr uint16_t kAcknowledged = NLM_F_ACK;

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
    if (settings.group) {
        request.attribute(IFLA_GROUP, *settings.group);
    }
    if (settings.alias) {
        const auto* const text = reinterpret_cast<const uint8_t*>(settings.alias->data());
        request.attribute(IFLA_IFALIAS, base::ByteView(text, settings.alias->size()));
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

Result<LinkEntry> RouteClient::link(uint32_t interface_index) {
    NetlinkRequest request(RTM_GETLINK, 0);
    ifinfomsg info{};
    info.ifi_index = static_cast<int>(interface_index);
    request.fixed(info);
    std::optional<LinkEntry> link;
    CTN_TRY(socket_.list(request, "look up interface",
                         [&](const NetlinkMessage& message) { link = parse_link(message); }));
    return link ? Result<LinkEntry>(std::move(*link)) : Error{Errc::NotFound, "look up interface"};
}

Result<void> RouteClient::change_address(uint16_t type,
                                         uint16_t flags,
                                         uint32_t interface_index,
                                         const IpAddress& address,
                                         uint8_t prefix_length,
                                         bool is_deprecated) {
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
    if (is_deprecated) {
        ifa_cacheinfo times{};
        times.ifa_valid = UINT32_MAX;  // for ever, and preferred never
        request.attribute(IFA_CACHEINFO, times);
    }
    return socket_.change(request, type == RTM_NEWADDR ? "add address" : "remove address");
}

Result<void> RouteClient::add_address(uint32_t interface_index,
                                      const IpAddress& address,
                                      uint8_t prefix_length,
                                      bool is_deprecated) {
    return change_address(RTM_NEWADDR, NLM_F_CREATE | NLM_F_REPLACE, interface_index, address,
                          prefix_length, is_deprecated);
}

Result<void> RouteClient::remove_address(uint32_t interface_index,
                                         const IpAddress& address,
                                         uint8_t prefix_length) {
    return change_address(RTM_DELADDR, 0, interface_index, address, prefix_length, false);
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
    info.rtm_flags = route.is_on_link ? unsigned{RTNH_F_ONLINK} : 0U;
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

Result<void> RouteClient::each_route(IpVersion version,
                                     uint32_t table,
                                     const std::function<void(const RouteChange&)>& each,
                                     const std::function<void()>& restart) {
    NetlinkRequest request(RTM_GETROUTE, NLM_F_DUMP);
    rtmsg info{};
    info.rtm_family = family_of(version);
    request.fixed(info);
    request.attribute(RTA_TABLE, table);
    RouteChange one;
    const auto done = socket_.list(
        request, "list routes",
        [&](const NetlinkMessage& message) {
            parse_route(message, table, one);
            each(one);
        },
        restart);
    // No route was ever added to the table.
    return forgive(done, ENOENT);
}

Result<std::vector<RouteEntry>> RouteClient::routes(IpVersion version, uint32_t table) {
    std::vector<RouteEntry> routes;
    CTN_TRY(each_route(
        version, table,
        [&](const RouteChange& one) {
            routes.insert(routes.end(), one.hops.begin(), one.hops.end());
        },
        [&] { routes.clear(); }));
    return routes;
}

Result<std::string> RouteClient::interface_to(const IpAddress& destination,
                                              const std::optional<IpAddress>& source,
                                              uint32_t mark) {
    NetlinkRequest request(RTM_GETROUTE, 0);
    rtmsg info{};
    info.rtm_family = family_of(destination.version);
    info.rtm_dst_len = static_cast<uint8_t>(destination.bytes().size() * 8);
    info.rtm_src_len = source ? info.rtm_dst_len : uint8_t{0};
    request.fixed(info);
    request.attribute(RTA_DST, destination.bytes());
    if (source) {
        request.attribute(RTA_SRC, source->bytes());
    }
    if (mark != 0) {
        request.attribute(RTA_MARK, mark);
    }
    return interface_of(std::move(request));
}

Result<std::string> RouteClient::interface_to(const ForwardedPacket& packet) {
    NetlinkRequest request(RTM_GETROUTE, 0);
    rtmsg info{};
    info.rtm_family = family_of(packet.destination.version);
    info.rtm_dst_len = static_cast<uint8_t>(packet.destination.bytes().size() * 8);
    info.rtm_src_len = info.rtm_dst_len;
    request.fixed(info);
    request.attribute(RTA_DST, packet.destination.bytes());
    request.attribute(RTA_SRC, packet.source.bytes());
    request.attribute(RTA_IIF, packet.input_interface);
    request.attribute(RTA_MARK, packet.mark);
    return interface_of(std::move(request));
}

Result<std::string> RouteClient::interface_of(NetlinkRequest request) {
    std::optional<uint32_t> index;
    CTN_TRY(socket_.list(request, "look up route", [&](const NetlinkMessage& message) {
        index = find_u32(message.attributes(sizeof(rtmsg)), RTA_OIF);
    }));
    std::array<char, IF_NAMESIZE> name{};
    if (!index || ::if_indextoname(*index, name.data()) == nullptr) {
        return Error{Errc::NotFound, "look up route"};
    }
    return std::string(name.data());
}

Result<RouteClient::Way>
RouteClient::way_to(const IpAddress& destination, uint32_t mark, uint32_t interface_index) {
    NetlinkRequest request(RTM_GETROUTE, 0);
    rtmsg info{};
    info.rtm_family = family_of(destination.version);
    info.rtm_dst_len = static_cast<uint8_t>(destination.bytes().size() * 8);
    request.fixed(info);
    request.attribute(RTA_DST, destination.bytes());
    if (interface_index != 0) {
        request.attribute(RTA_OIF, interface_index);
    }
    request.attribute(RTA_MARK, mark);
    std::optional<Way> way;
    CTN_TRY(socket_.list(request, "look up route", [&](const NetlinkMessage& message) {
        const base::ByteView attributes = message.attributes(sizeof(rtmsg));
        const auto source = find_attribute(attributes, RTA_PREFSRC);
        const uint32_t by = find_u32(attributes, RTA_OIF).value_or(0);
        const bool is_meant = interface_index == 0 || by == interface_index;
        if (is_meant && source && source->size() == destination.bytes().size()) {
            way = Way{by, destination.is_v4() ? IpAddress::v4(*source) : IpAddress::v6(*source)};
        }
    }));
    if (!way) {
        return Error{Errc::NotFound, "look up route"};
    }
    return *way;
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

Result<bool> RouteClient::restore_rule(const RuleEntry& rule) {
    const auto added = change_rule(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, rule);
    if (!added && added.error().sys_errno == EEXIST) {
        return false;
    }
    return added ? Result<bool>(true) : added.error();
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

}  // namespace continuo::netlink
