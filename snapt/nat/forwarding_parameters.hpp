// The kernel parameters needed to forward packets of nodes, only for the interfaces by which they
// come and go: an administrator may have disabled others. Read from this host at each call.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/host/sysctl.hpp"

#include <string>
#include <vector>

namespace continuo::snapt::nat {

inline constexpr const char* kForwardAll4 = "net/ipv4/ip_forward";
inline constexpr const char* kForwardAll6 = "net/ipv6/conf/all/forwarding";
inline constexpr const char* kAnswersMark = "net/ipv4/conf/all/src_valid_mark";

// The route of one IP version's packets.
struct ForwardingPath {
    base::IpVersion version = base::IpVersion::V4;
    std::string device;               // the relay's; "default": it is not there yet
    std::vector<std::string> egress;  // existing ones; empty: unknown
};

// The parameters that decide, without missing ones. IPv4: `forwarding` of each interface. IPv6: the
// global one; since Linux 6.17, while that is off, `force_forwarding` of each interface.
std::vector<std::string> forwarding_keys(const ForwardingPath& path);
// Those of them that are off.
std::vector<std::string> forwarding_off(const ForwardingPath& path);
// Nothing of that version is forwarded: it is off for the device, or for all of `egress`.
bool is_closed(const ForwardingPath& path);

// Where net.ipv4.ip_forward is off: whether switching it on, which does so for all interfaces,
// would enable none that is disabled now, except those of `path`. While it is off the host also
// accepts redirects.
bool may_switch_all_on(const ForwardingPath& path);

// An interface of `egress` (or another one, where they are unknown) whose reverse path filter drops
// answers with a mark, because it looks up without it (no src_valid_mark); empty: none.
std::string filter_of_answers(const ForwardingPath& path);

}  // namespace continuo::snapt::nat
