// NAT64 (RFC 6146): a network with only IPv6 reaches IPv4 addresses by a prefix. Pure.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/netlink/pref64.hpp"

#include <optional>
#include <span>

namespace continuo::cnapt::uplinks {

// A name that has only IPv4 addresses: other answers of a name server are made from its prefix (RFC
// 7050, section 8.2).
inline constexpr const char* kIpv4OnlyName = "ipv4only.arpa";

// The prefix from which these addresses of the name are made; none: they are not. If several
// lengths fit (RFC 6052, section 2.2): the one that fits both addresses of the name, then the
// longest.
std::optional<base::IpPrefix> nat64_prefix(std::span<const base::IpAddress> addresses);

// The prefix to take. `told`: by a router. `asked`: what name servers say. `working`: the one in
// use, if data goes by it. It gives way to a router's that was not doubted, and to another that
// name servers say; an answer without a prefix displaces none that works.
std::optional<base::IpPrefix> choose_nat64(const std::optional<netlink::KnownPref64>& told,
                                           const std::optional<base::IpPrefix>& asked,
                                           const std::optional<base::IpPrefix>& working);

// The IPv6 address that stands for `v4` there.
base::IpAddress to_nat64(const base::IpPrefix& prefix, const base::IpAddress& v4);

}  // namespace continuo::cnapt::uplinks
