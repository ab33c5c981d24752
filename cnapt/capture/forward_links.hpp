// ForwardLinks: the interfaces that decide which forwarded packets pass the kill switch. Pure.
#pragma once

#include "common/netlink/net_monitor.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::capture {

// Most interfaces of each kind that the kernel is told; packets from others are dropped. A choice,
// not measured.
inline constexpr size_t kMaxForwardLinks = 256;

struct ForwardLinks {
    // Packets that come in by an uplink are for other hosts: they pass, unless towards an uplink.
    std::vector<std::string> uplinks;
    // Frames between ports of a bridge, which br_netfilter shows as forwarded packets.
    std::vector<std::string> bridges;
    size_t left_out = 0;  // beyond kMaxForwardLinks, or with a name unfit for nftables

    bool operator==(const ForwardLinks&) const = default;
};

// An uplink has a default route, also in parts, or is one of `in_use`. Other interfaces of the kind
// "bridge" are bridges. Loopback and `own_device` are neither.
ForwardLinks forward_links(const netlink::NetSnapshot& snapshot,
                           const std::vector<std::string>& in_use,
                           const std::string& own_device);

}  // namespace continuo::cnapt::capture
