// Tunnels of the host as uplinks: another VPN has taken the default route. It sends its packets on
// by another uplink, or through cnapt0. So it is not used while another uplink may carry, and its
// carrier goes outside cnapt0 while it is used: otherwise each would feed the other. Data loop
// only, except vpns_with_default_route().
#pragma once

#include "cnapt/node/node.hpp"
#include "common/report/json.hpp"

#include <span>
#include <string>
#include <vector>

namespace continuo::cnapt::node {

// Most destinations of carriers that the kernel is told; others are captured like any. A choice,
// not measured: a VPN has one for each of its servers.
inline constexpr size_t kMaxCarriers = 64;

// A tunnel of last resort that is no path of the link, one of `links`: it does not carry, and
// another uplink may, or it carries the session of another SNAPT. Without a path it is never
// chosen, kept alive or copied to.
bool is_resting(const SnaptLink& link,
                const uplinks::Uplink& uplink,
                std::span<const std::unique_ptr<SnaptLink>> links,
                const uplinks::Uplinks& uplinks,
                const netlink::NetSnapshot& network);
// A tunnel that is no path to any SNAPT.
bool is_resting(const uplinks::Uplink& uplink, const Node& node);

// Hosts that may carry tunnels: routes to single hosts by gateways of non-tunnel interfaces, except
// routes set by the network; public ones first, at most kMaxCarriers. A VPN with the default route
// needs such a route, or a mark, to get out.
std::vector<base::IpPrefix> carriers(const netlink::NetSnapshot& network);
// The same, while a tunnel is a path to some SNAPT.
std::vector<base::IpPrefix> carriers_in_use(const Node& node);

struct OtherVpn {
    std::string interface;
    bool is_in_main = false;      // by a default route of the table main, also in parts
    bool is_used = false;         // carries data for a SNAPT
    bool takes_programs = false;  // its rules precede those of cnapt

    bool operator==(const OtherVpn&) const = default;
};

// Tunnels by which this host would send to the Internet: by a default route of the table main, also
// in parts, or by policy rules for one of `snapts`, for a packet with the mark `fwmark`, which is
// not captured. Asks the kernel; does not know which are used.
std::vector<OtherVpn> vpns_with_default_route(const netlink::NetSnapshot& network,
                                              std::span<const base::IpAddress> snapts,
                                              uint32_t fwmark);

std::vector<OtherVpn> other_vpns(const Node& node);
// The list, as it stands in the answer to `status`.
void write_other_vpns(report::JsonWriter& json, const std::vector<OtherVpn>& vpns);

}  // namespace continuo::cnapt::node
