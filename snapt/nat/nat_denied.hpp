// Rules for destinations that nodes may not reach (built_in_deny_list, effective_deny_list).
#pragma once

#include "common/base/ip_address.hpp"

#include <span>
#include <string>

namespace continuo::snapt::nat {

// nftables text: the set "denied4" or "denied6" of the prefixes of that version.
std::string deny_set(base::IpVersion version, std::span<const base::IpPrefix> denied);

// A rule that counts packets to them as "denied", followed by `verdict`. A look-up among prefixes
// costs several times as much as one among octets, and few destinations share their first octet
// with a denied one.
std::string denied_rule(base::IpVersion version,
                        std::span<const base::IpPrefix> denied,
                        const std::string& verdict);

}  // namespace continuo::snapt::nat
