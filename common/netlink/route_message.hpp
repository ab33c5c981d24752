// Links, addresses, routes and rules in rtnetlink messages, for netlink_route.cpp. Pure.
#pragma once

#include "common/netlink/netlink.hpp"
#include "common/netlink/route_set.hpp"

#include <optional>
#include <vector>

namespace continuo::netlink {

// AF_INET or AF_INET6.
uint8_t family_of(base::IpVersion version);
// RTN_*, FR_ACT_*.
uint8_t from_route_type(RouteType type);
uint8_t from_rule_action(RuleAction action);

LinkEntry parse_link(const NetlinkMessage& message);
std::optional<AddressEntry> parse_address(const NetlinkMessage& message);
// The message, also from a list, if it is a route in `table`; otherwise without next hops.
void parse_route(const NetlinkMessage& message, uint32_t table, RouteChange& change);
// Nothing for rules of other actions.
std::optional<RuleEntry> parse_rule(const NetlinkMessage& message);
void write_rule_matches(NetlinkRequest& request, const RuleEntry& rule);

}  // namespace continuo::netlink
