// NearLinks: which interfaces are no uplinks, so that all their routes stay outside the tunnel. The
// network may have set routes on an uplink (DHCP option 121, router advertisements): there only
// private destinations and those of `near` in the configuration stay outside. Pure.
#pragma once

#include "cnapt/uplinks/uplinks.hpp"

#include <span>

namespace continuo::cnapt::uplinks {

// RFC 1918, RFC 6598, ULA, link-local: an attacker's route to these diverts nothing that the tunnel
// could have delivered.
std::span<const base::IpPrefix> private_prefixes();
bool is_private(const base::IpAddress& address);

// Point-to-point and overlay networks that the host's owner has set up, by kind.
bool is_tunnel(const netlink::LinkEntry& link);

using netlink::kLongestPartOfDefault;

// Equivalence of routes for all users of netlink::NetSnapshot: they check whether an interface has
// such a route, or use some of them, at most netlink::kFewestOfKind.
uint8_t kind_of_route(const netlink::RouteEntry& route);
// A single host.
bool is_host(const base::IpPrefix& prefix);
// With a gateway of the other IP version (RFC 8950), which a copy of the route would lose.
bool has_foreign_gateway(const netlink::RouteEntry& route);

// A tunnel, by its kind, whose packets this host sends on by another interface: a VPN, an overlay.
bool is_carried_over_ip(const netlink::LinkEntry& link);

// DHCP, a router advertisement or a redirect has set it.
bool is_set_by_network(const netlink::RouteEntry& route);

// `address` is in the prefix of `own`.
bool is_in_network(const base::IpAddress& address, const netlink::UsableAddress& own);

struct NearLink {
    uint32_t index = 0;
    uint32_t group = 0;  // interface group (ip link set group), as it was seen

    bool operator==(const NearLink&) const = default;
};

struct NearLinks {
    std::vector<NearLink> links;  // with routes to public destinations
    // An uplink is in a group of interfaces set by others, so a rule cannot distinguish it.
    bool has_grouped_uplink = false;

    bool is_counted() const { return !links.empty() && !has_grouped_uplink; }
    bool operator==(const NearLinks&) const = default;
};

// Tunnels of the host (a VPN, an overlay) and LAN sides of a gateway are no uplinks. But they are
// uplinks if they have a default route, also in parts; and tunnels if they have a route to a SNAPT,
// or one from DHCP or router advertisements. Interfaces in `own_group` are there by our doing.
NearLinks near_links(const netlink::NetSnapshot& snapshot,
                     const UplinkRules& rules,
                     const std::vector<base::IpAddress>& snapts,
                     uint32_t own_group);

}  // namespace continuo::cnapt::uplinks
