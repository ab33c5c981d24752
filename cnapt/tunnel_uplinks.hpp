// Tunnels of the host's own as uplinks: another VPN has taken the default route. What it is given
// to carry it sends on by another uplink, or through cnapt0. So it rests while another uplink may
// carry, and what carries it goes beside cnapt0 while it is used: else each would feed the other.
// Data loop only, but for vpns_with_default_route().
#pragma once

#include "cnapt/node.hpp"
#include "common/report/json.hpp"

#include <span>
#include <string>
#include <vector>

namespace continuo::cnapt {

// Destinations of carriers that are told to the kernel; others are captured, as any. A choice, not
// measured: a VPN has one for each of its servers.
inline constexpr size_t kMaxCarriers = 64;

// A tunnel of last resort that is no path of the link, one of `links`: it does not carry, and
// another uplink may, or carries the session of another SNAPT. Without a path it is never chosen,
// kept alive or copied to.
bool is_resting(const SnaptLink& link,
                const Uplink& uplink,
                std::span<const std::unique_ptr<SnaptLink>> links,
                const Uplinks& uplinks,
                const io::NetSnapshot& network);
// A tunnel that is no path to any SNAPT.
bool is_resting(const Uplink& uplink, const Node& node);

// Hosts that tunnels may be carried to: routes to single hosts by gateways of interfaces that are
// no tunnels, but for those that the network has set; public ones first, at most kMaxCarriers. A
// VPN with the default route needs one, or a mark, to get out.
std::vector<base::IpPrefix> carriers(const io::NetSnapshot& network);
// The same, while a tunnel is a path to some SNAPT.
std::vector<base::IpPrefix> carriers_in_use(const Node& node);

struct OtherVpn {
    std::string interface;
    bool is_in_main = false;      // by a default route of the table main, also in parts
    bool is_used = false;         // data of some SNAPT goes by it
    bool takes_programs = false;  // its rules stand before those of cnapt

    bool operator==(const OtherVpn&) const = default;
};

// Tunnels by which this host would send to the Internet: by a default route of the table main, also
// in parts, or by its policy rules to one of `snapts`, as a packet with the mark `fwmark`, which is
// not captured. Asks the kernel; does not know which are used.
std::vector<OtherVpn> vpns_with_default_route(const io::NetSnapshot& network,
                                              std::span<const base::IpAddress> snapts,
                                              uint32_t fwmark);

std::vector<OtherVpn> other_vpns(const Node& node);
// The list, as it stands in the answer to `status`.
void write_other_vpns(report::JsonWriter& json, const std::vector<OtherVpn>& vpns);

}  // namespace continuo::cnapt
