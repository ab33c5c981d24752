// Ends connections of any process in this network namespace, as `ss --kill` does: sock_diag(7).
// Needs CAP_NET_ADMIN and a kernel with CONFIG_INET_DIAG_DESTROY.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"

namespace continuo::process {

// Ends every TCP connection and connected UDP socket with that local address; returns their number.
// Their owners get ECONNABORTED. TCP sends a reset, wherever the address is routed then. Excluded:
// listeners, UDP sockets that are only bound, and IPv4 in an IPv6 socket (a mapped address).
// Errors: Unsupported (the kernel cannot), System.
base::Result<size_t> destroy_sockets(const base::IpAddress& local);

}  // namespace continuo::process
