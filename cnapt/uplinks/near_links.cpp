#include "cnapt/uplinks/near_links.hpp"

#include "cnapt/uplinks/on_link.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace continuo::cnapt::uplinks {

namespace {

using base::IpAddress;
using base::IpPrefix;

// Protocols of routes set by the network (linux/rtnetlink.h).
constexpr std::array<uint8_t, 3> kNetworkProtocols = {1, 9, 16};  // redirect, ra, dhcp
constexpr uint8_t kKernelProtocol = 2;

// Kinds of point-to-point and overlay networks that the host's owner has set up. On other kinds
// (hardware, veth, vlan, bridge, bond) the network may have chosen the host's addresses and
// prefixes. The kernel has no flag for this: a lease without end looks like an address set by hand.
constexpr auto kKindsOverIp = std::to_array<std::string_view>(
    {"tun",    "wireguard", "ovpn",      "ipip",    "ip6tnl",    "sit", "gre",
     "gretap", "ip6gre",    "ip6gretap", "erspan",  "ip6erspan", "vti", "vti6",
     "xfrm",   "vxlan",     "geneve",    "bareudp", "gtp",       "amt"});
// Kinds that providers' and modems' lines use, and that wireless meshes use.
constexpr auto kKindsOverLinks = std::to_array<std::string_view>({"ppp", "batadv"});

bool is_private_prefix(const IpPrefix& prefix) {
    return std::any_of(private_prefixes().begin(), private_prefixes().end(),
                       [&](const IpPrefix& outer) {
                           return prefix.length >= outer.length && outer.contains(prefix.address);
                       });
}

// The kernel derives it from an address or from a router advertisement.
bool is_advertised(const netlink::RouteEntry& route, const netlink::NetSnapshot& snapshot) {
    return route.protocol == kKernelProtocol && !route.destination.address.is_v4() &&
           std::none_of(snapshot.addresses.begin(), snapshot.addresses.end(),
                        [&](const netlink::UsableAddress& own) {
                            return own.interface_index == route.interface_index &&
                                   route.destination.contains(own.address);
                        });
}

struct LinkRoutes {
    bool has_default = false;  // also in parts
    bool has_public = false;   // other ones
    bool is_of_network = false;
    bool leads_to_snapt = false;
};

LinkRoutes routes_of(const netlink::LinkEntry& link,
                     const netlink::NetSnapshot& snapshot,
                     const std::vector<IpAddress>& snapts) {
    LinkRoutes found;
    for (const netlink::RouteEntry& route : snapshot.routes) {
        if (route.interface_index != link.index || is_private_prefix(route.destination)) {
            continue;
        }
        const bool is_default = route.destination.length <= kLongestPartOfDefault;
        found.has_default = found.has_default || is_default;
        found.has_public = found.has_public || !is_default;
        found.is_of_network =
            found.is_of_network || is_advertised(route, snapshot) || is_set_by_network(route);
        found.leads_to_snapt =
            found.leads_to_snapt ||
            std::any_of(snapts.begin(), snapts.end(), [&](const IpAddress& address) {
                return route.destination.contains(address);
            });
    }
    return found;
}

}  // namespace

bool is_carried_over_ip(const netlink::LinkEntry& link) {
    return std::find(kKindsOverIp.begin(), kKindsOverIp.end(), link.kind) != kKindsOverIp.end();
}

bool is_set_by_network(const netlink::RouteEntry& route) {
    return std::find(kNetworkProtocols.begin(), kNetworkProtocols.end(), route.protocol) !=
           kNetworkProtocols.end();
}

std::span<const IpPrefix> private_prefixes() {
    static const std::array prefixes = {
        IpPrefix::parse("10.0.0.0/8").value(),     IpPrefix::parse("172.16.0.0/12").value(),
        IpPrefix::parse("192.168.0.0/16").value(), IpPrefix::parse("100.64.0.0/10").value(),
        IpPrefix::parse("169.254.0.0/16").value(), IpPrefix::parse("fc00::/7").value(),
        IpPrefix::parse("fe80::/10").value()};
    return prefixes;
}

bool is_private(const IpAddress& address) {
    return std::any_of(private_prefixes().begin(), private_prefixes().end(),
                       [&](const IpPrefix& prefix) { return prefix.contains(address); });
}

bool is_tunnel(const netlink::LinkEntry& link) {
    return is_carried_over_ip(link) || std::find(kKindsOverLinks.begin(), kKindsOverLinks.end(),
                                                 link.kind) != kKindsOverLinks.end();
}

bool is_in_network(const IpAddress& address, const netlink::UsableAddress& own) {
    constexpr size_t kOctetBits = 8;
    if (address.version != own.address.version) {
        return false;
    }
    for (size_t bit = 0; bit < own.prefix_length; ++bit) {
        const auto differ = static_cast<unsigned>(address.octets[bit / kOctetBits] ^
                                                  own.address.octets[bit / kOctetBits]);
        if ((differ >> (kOctetBits - 1 - bit % kOctetBits) & 1U) != 0) {
            return false;
        }
    }
    return true;
}

bool is_host(const IpPrefix& prefix) {
    constexpr size_t kOctetBits = 8;
    return prefix.length == prefix.address.bytes().size() * kOctetBits;
}

bool has_foreign_gateway(const netlink::RouteEntry& route) {
    return route.gateway && route.gateway->version != route.destination.address.version;
}

uint8_t kind_of_route(const netlink::RouteEntry& route) {
    uint8_t kind = 0;
    for (const bool property :
         {is_private_prefix(route.destination), is_host(route.destination),
          is_lan_sized(route.destination), route.gateway.has_value(), has_foreign_gateway(route)}) {
        kind = static_cast<uint8_t>(2 * kind + (property ? 1 : 0));
    }
    return kind;
}

NearLinks near_links(const netlink::NetSnapshot& snapshot,
                     const UplinkRules& rules,
                     const std::vector<IpAddress>& snapts,
                     uint32_t own_group) {
    NearLinks near;
    for (const netlink::LinkEntry& link : snapshot.links) {
        if (link.is_loopback || link.name == rules.own_device) {
            continue;
        }
        const LinkRoutes routes = routes_of(link, snapshot, snapts);
        const bool is_own_network =
            is_lan_side(link.name, rules) ||
            (is_tunnel(link) && !routes.is_of_network && !routes.leads_to_snapt);
        if (routes.has_default || !is_own_network) {
            near.has_grouped_uplink =
                near.has_grouped_uplink || (link.group != 0 && link.group != own_group);
        } else if (routes.has_public) {
            near.links.push_back({link.index, link.group});
        }
    }
    return near;
}

}  // namespace continuo::cnapt::uplinks
