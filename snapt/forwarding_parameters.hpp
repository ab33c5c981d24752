// The kernel parameters without which packets of nodes are not forwarded, of the interfaces by
// which they come and go alone: an administrator may have closed others. Read from this host at
// each call.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/io/sysctl.hpp"

#include <string>
#include <vector>

namespace continuo::snapt {

inline constexpr const char* kForwardAll4 = "net/ipv4/ip_forward";
inline constexpr const char* kForwardAll6 = "net/ipv6/conf/all/forwarding";
inline constexpr const char* kAnswersMark = "net/ipv4/conf/all/src_valid_mark";

// The way of one IP version's packets.
struct ForwardingPath {
    base::IpVersion version = base::IpVersion::V4;
    std::string device;               // of the relay; "default": it is not there yet
    std::vector<std::string> egress;  // those that are there; empty: unknown
};

// The parameters that decide, those that do not exist aside. IPv4: `forwarding` of each interface.
// IPv6: the one for all; from Linux 6.17 on, while that is off, `force_forwarding` of each
// interface.
std::vector<std::string> forwarding_keys(const ForwardingPath& path);
// Those of them that are off.
std::vector<std::string> forwarding_off(const ForwardingPath& path);
// Nothing of that version is forwarded: the device's is off, or those of all of `egress`.
bool is_closed(const ForwardingPath& path);

// Where net.ipv4.ip_forward is off: whether switching it on, which does so with all interfaces,
// opens none that is closed now, those of `path` aside. While it is off the host also takes
// redirects.
bool may_switch_all_on(const ForwardingPath& path);

// An interface of `egress` (or another one, where they are unknown) whose reverse path filter drops
// answers that have a mark, because it looks without it (no src_valid_mark); empty: none.
std::string filter_of_answers(const ForwardingPath& path);

}  // namespace continuo::snapt
