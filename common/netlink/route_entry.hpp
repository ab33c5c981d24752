// Addresses, routes and policy rules as values for netlink_route.hpp. No system headers, so that
// pure builders can make them.
#pragma once

#include "common/base/ip_address.hpp"

#include <optional>
#include <string>

namespace continuo::netlink {

// Table numbers and the origin of routes and rules (rtm_protocol, FRA_PROTOCOL) that mark
// Continuo's own.
inline constexpr uint32_t kMainTable = 254;
inline constexpr uint8_t kRouteProtocol = 147;

enum class RouteType : uint8_t { Unicast, Unreachable, Blackhole, Prohibit };

struct RouteEntry {
    base::IpPrefix destination;    // length 0: default route of that version
    std::string interface;         // empty: none
    uint32_t interface_index = 0;  // instead of the name; filled in listings
    std::optional<base::IpAddress> gateway;
    std::optional<base::IpAddress> preferred_source;
    uint32_t table = kMainTable;
    uint32_t metric = 0;
    RouteType type = RouteType::Unicast;
    uint8_t protocol = kRouteProtocol;
    bool is_on_link = false;  // gateway on the link, whatever addresses the interface has

    bool operator==(const RouteEntry&) const = default;
};

struct NumberRange {
    uint32_t first = 0;
    uint32_t last = 0;  // included

    bool operator==(const NumberRange&) const = default;
};

// Goto continues at the rule of priority `target`; Nothing is such a target. Blackhole drops.
enum class RuleAction : uint8_t { Lookup, Goto, Nothing, Blackhole };

struct RuleEntry {
    base::IpVersion version = base::IpVersion::V4;
    uint32_t priority = 0;
    RuleAction action = RuleAction::Lookup;
    uint32_t table = kMainTable;  // for Lookup; default for others
    uint32_t target = 0;          // Goto
    std::optional<uint32_t> fwmark;
    uint32_t fwmark_mask = UINT32_MAX;   // bits of the mark that count
    std::optional<base::IpPrefix> from;  // 0.0.0.0/32: source not yet chosen (IPv4)
    std::optional<base::IpPrefix> to;
    std::string input_interface;
    std::optional<uint8_t> ip_protocol;
    std::optional<NumberRange> source_ports;
    std::optional<NumberRange> destination_ports;
    std::optional<NumberRange> users;
    std::optional<uint32_t> suppress_prefix_length;  // ignore routes of at most this length
    std::optional<uint32_t> suppress_group;          // ignore routes over interfaces of this group
    // IPv6: `from` also matches a source not yet chosen if the route found would choose one in
    // `from`.
    bool find_source = false;
    // Rules of others: an oif, tos, l3mdev or tun_id, which is not stored here.
    bool has_other_selector = false;
    bool is_inverted = false;  // rules of others: inverted match (not fwmark)
    uint8_t protocol = kRouteProtocol;

    bool operator==(const RuleEntry&) const = default;
};

struct AddressEntry {
    uint32_t interface_index = 0;
    base::IpAddress address;
    uint8_t prefix_length = 0;
    uint8_t scope = 0;   // RT_SCOPE_*: 0 global
    uint32_t flags = 0;  // IFA_F_*

    bool operator==(const AddressEntry&) const = default;
};

struct LinkEntry {
    uint32_t index = 0;
    std::string name;
    bool is_up = false;        // administratively
    bool has_carrier = false;  // operational
    bool is_loopback = false;
    uint32_t mtu = 0;
    uint32_t group = 0;   // 0: the default group
    std::string kind{};   // as in `ip link add type`; empty: hardware
    std::string alias{};  // as in `ip link set alias`

    bool operator==(const LinkEntry&) const = default;
};

}  // namespace continuo::netlink
