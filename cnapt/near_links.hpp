// NearLinks: which interfaces are no uplinks, so that all their routes stay beside the tunnel. By
// an uplink the network may have set routes (DHCP option 121, router advertisements): there only
// private destinations and those of `near` in the configuration stay beside it. Pure.
#pragma once

#include "cnapt/uplinks.hpp"

#include <span>

namespace continuo::cnapt {

// RFC 1918, RFC 6598, ULA, link-local: nothing that an attacker's route leads there had a way by
// the tunnel.
std::span<const base::IpPrefix> private_prefixes();
bool is_private(const base::IpAddress& address);

// Point-to-point and overlay networks that the host's owner has set up, by their kind.
bool is_tunnel(const io::LinkEntry& link);

using io::kLongestPartOfDefault;

// Routes of a kind are alike to all who read io::NetSnapshot, but for what decides anyway: they
// judge an interface by whether there is one, or take some of them, at most io::kFewestOfKind.
uint8_t kind_of_route(const io::RouteEntry& route);
// A single host.
bool is_host(const base::IpPrefix& prefix);
// With a gateway of the other IP version (RFC 8950), which a copy would lose.
bool has_foreign_gateway(const io::RouteEntry& route);

// A tunnel, by its kind, whose packets this host sends on by another interface: a VPN, an overlay.
bool is_carried_over_ip(const io::LinkEntry& link);

// By DHCP, a router advertisement or a redirect.
bool is_set_by_network(const io::RouteEntry& route);

// `address` is in the network of `own`, by its prefix.
bool is_in_network(const base::IpAddress& address, const io::UsableAddress& own);

struct NearLink {
    uint32_t index = 0;
    uint32_t group = 0;  // of interfaces (ip link set group), as it was seen

    bool operator==(const NearLink&) const = default;
};

struct NearLinks {
    std::vector<NearLink> links;  // with routes to public destinations
    // An uplink is in somebody else's group of interfaces, so a rule cannot distinguish it.
    bool has_grouped_uplink = false;

    bool is_counted() const { return !links.empty() && !has_grouped_uplink; }
    bool operator==(const NearLinks&) const = default;
};

// No uplinks are tunnels of the host's own (a VPN, an overlay) and LAN sides of a gateway. Also
// they are uplinks with a default route, also in parts; tunnels also with a route to a SNAPT, or of
// DHCP or router advertisements. Interfaces in `own_group` are in it by our doing.
NearLinks near_links(const io::NetSnapshot& snapshot,
                     const UplinkRules& rules,
                     const std::vector<base::IpAddress>& snapts,
                     uint32_t own_group);

}  // namespace continuo::cnapt
