// OnLink: hosts with a public address in the network of an uplink, such as a printer or a NAS with
// an IPv6 address. Private addresses are near. Through the tunnel, packets to these hosts arrive
// from the Internet, where their network's firewall usually blocks them. Pure.
#pragma once

#include "common/base/ip_address.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace continuo::netlink {
struct NetSnapshot;
}

namespace continuo::cnapt::uplinks {

struct UplinkRules;

// Tunnel: new flows to them go through the tunnel. Refuse: they are refused at once, so that a
// program takes the host's private address. Near: they go outside the tunnel.
enum class OnLink : uint8_t { Tunnel, Refuse, Near };

struct OnLinkRule {
    std::string interfaces;  // a glob
    OnLink fate = OnLink::Tunnel;

    bool operator==(const OnLinkRule&) const = default;
};

// An exact name wins over globs, and of several matching globs the longest. Without a match IPv6 is
// refused, and IPv4 goes through the tunnel.
OnLink on_link_fate(const std::vector<OnLinkRule>& rules,
                    const std::string& interface_name,
                    base::IpVersion version);

// Shorter prefixes are no LAN: whoever assigns addresses in a network could claim the whole
// Internet. A LAN has 64 bits (RFC 4291, section 2.5.1), a large campus 16.
inline constexpr uint8_t kShortestOnLinkV6 = 64;
inline constexpr uint8_t kShortestOnLinkV4 = 16;
bool is_lan_sized(const base::IpPrefix& prefix);
// Further networks are left out and counted: their hosts are reached through the tunnel.
inline constexpr size_t kMaxOnLinkNetworks = 64;

struct OnLinkNetwork {
    base::IpPrefix prefix;
    std::string interface;
    OnLink fate = OnLink::Tunnel;

    bool operator==(const OnLinkNetwork&) const = default;
};

struct OnLinkNetworks {
    std::vector<OnLinkNetwork> list;
    size_t left_out = 0;

    // The network whose rule refuses new flows to that address; null: none does.
    const OnLinkNetwork* refusing(const base::IpAddress& address) const;
    // Prefixes that stay beside the tunnel.
    std::vector<base::IpPrefix> near() const;
};

struct OnLinkPolicy {
    std::vector<OnLinkRule> rules;
    bool is_kill_switch = false;  // Near is Refuse: it would be dropped
};

// Networks with a public prefix and a route without a gateway, on interfaces with carrier and a
// default route of that version. Tunnels and LAN sides are left out: their routes stay outside the
// tunnel anyway (near_links.hpp).
OnLinkNetworks on_link_networks(const netlink::NetSnapshot& snapshot,
                                const UplinkRules& uplinks,
                                const OnLinkPolicy& policy);

}  // namespace continuo::cnapt::uplinks
