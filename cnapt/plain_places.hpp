// PlainPlaces: destinations that stay beside the tunnel because nobody answers there through it.
// With the kill switch nothing does. Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/io/net_monitor.hpp"

#include <span>
#include <utility>
#include <vector>

namespace continuo::cnapt {

struct PlainPlaces {
    std::vector<base::IpPrefix> denied;      // private ones, of all SNAPTs
    std::vector<base::IpAddress> resolvers;  // port 53 only (ResolverWatch)
    // Where other VPNs are carried to that carry cnapt's datagrams (tunnel_uplinks.hpp). Nothing of
    // that enters the tunnel, also with the kill switch.
    std::vector<base::IpPrefix> carriers{};

    bool operator==(const PlainPlaces&) const = default;
};

// The private prefixes that every SNAPT denies: `lists` has one list for each, as told. None
// without a list.
std::vector<base::IpPrefix>
denied_by_all(std::span<const std::vector<base::IpPrefix>* const> lists);

// Adds the private prefixes that the host reaches by other routes than default ones.
void add_near_prefixes(const io::NetSnapshot& snapshot, std::vector<base::IpPrefix>& to);

// Marks of the network that the host is in: default routes, and the addresses of the interfaces
// they lead to. Bridges and containers that come and go change nothing.
struct NetworkMarks {
    std::vector<std::pair<uint32_t, base::IpAddress>> gateways;
    std::vector<std::pair<uint32_t, base::IpAddress>> addresses;

    bool operator==(const NetworkMarks&) const = default;
};
NetworkMarks network_marks(const io::NetSnapshot& snapshot);

bool is_in(std::span<const base::IpPrefix> prefixes, const base::IpAddress& address);

}  // namespace continuo::cnapt
