// PlainPlaces: destinations that stay outside the tunnel because nobody answers there through it.
// With the kill switch there are none. Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/netlink/net_monitor.hpp"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace continuo::cnapt::uplinks {

struct PlainPlaces {
    std::vector<base::IpPrefix> denied;      // private ones, of all SNAPTs
    std::vector<base::IpAddress> resolvers;  // port 53 only (ResolverWatch)
    // Remote ends of other VPNs that carry cnapt's datagrams (tunnel_uplinks.hpp). Packets to them
    // never enter the tunnel, even with the kill switch.
    std::vector<base::IpPrefix> carriers{};

    bool operator==(const PlainPlaces&) const = default;
};

// The private prefixes that every SNAPT denies: one list per SNAPT in `lists`. Empty without a
// list.
std::vector<base::IpPrefix>
denied_by_all(std::span<const std::vector<base::IpPrefix>* const> lists);

// `inner` is one of `outer`, or a part of one.
bool is_covered(std::span<const base::IpPrefix> outer, const base::IpPrefix& inner);

// Names of the private ranges (near_links.hpp) that `prefixes` are in: "10.0.0.0/8", or "parts of
// 100.64.0.0/10" if the range itself is not among them.
std::vector<std::string> private_ranges(std::span<const base::IpPrefix> prefixes);

// Adds the private prefixes that the host reaches by routes other than default ones.
void add_near_prefixes(const netlink::NetSnapshot& snapshot, std::vector<base::IpPrefix>& to);

// Identifies the host's network: default routes, and the addresses of their interfaces. Bridges and
// containers that come and go do not matter.
struct NetworkMarks {
    std::vector<std::pair<uint32_t, base::IpAddress>> gateways;
    std::vector<std::pair<uint32_t, base::IpAddress>> addresses;

    bool operator==(const NetworkMarks&) const = default;
};
NetworkMarks network_marks(const netlink::NetSnapshot& snapshot);

bool is_in(std::span<const base::IpPrefix> prefixes, const base::IpAddress& address);

}  // namespace continuo::cnapt::uplinks
