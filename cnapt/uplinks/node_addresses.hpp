// The addresses of cnapt0, the device of the tunnel.
#pragma once

#include "common/base/ip_address.hpp"

namespace continuo::cnapt::uplinks {

// cnapt0's usual addresses (RFC 7335, and the same in the local translation prefix of RFC 8215). By
// the table of RFC 6724, section 2.1, a ULA would make programs prefer IPv4 to any IPv6
// destination.
base::IpAddress default_node_ipv4();  // 192.0.0.5
base::IpAddress default_node_ipv6();  // 64:ff9b:1::c000:5

}  // namespace continuo::cnapt::uplinks
