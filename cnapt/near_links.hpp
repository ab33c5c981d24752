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

using io::kLongestPartOfDefault;

// Private or public: of each kind a few routes are enough to judge an interface (io::RouteSet).
uint8_t kind_of_destination(const base::IpPrefix& destination);

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
