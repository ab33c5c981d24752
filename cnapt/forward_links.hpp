// ForwardLinks: the interfaces that decide which forwarded packets pass the kill switch. Pure.
#pragma once

#include "common/io/net_monitor.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// Interfaces of each kind that are told to the kernel; what comes in by others stays closed. A
// choice, not measured.
inline constexpr size_t kMaxForwardLinks = 256;

struct ForwardLinks {
    // Packets that come in by an uplink are not this host's: they pass to where no uplink is.
    std::vector<std::string> uplinks;
    // Frames from one port of a bridge to another, which br_netfilter shows as forwarded packets.
    std::vector<std::string> bridges;
    size_t left_out = 0;  // beyond kMaxForwardLinks, or with a name unfit for nftables

    bool operator==(const ForwardLinks&) const = default;
};

// An uplink has a default route, also in parts, or is one of `in_use`. Others of the kind "bridge"
// are bridges. Neither are loopback and `own_device`.
ForwardLinks forward_links(const io::NetSnapshot& snapshot,
                           const std::vector<std::string>& in_use,
                           const std::string& own_device);

}  // namespace continuo::cnapt
