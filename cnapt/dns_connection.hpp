// DnsConnection: the daemon's end of the connection with the helper that changes how the host looks
// names up (dns_helper.hpp).
#pragma once

#include "cnapt/dns_helper.hpp"
#include "cnapt/node_config.hpp"

#include <string>

namespace continuo::cnapt {

// Beside the command socket: of a helper that a service manager starts for whoever connects.
inline constexpr const char* kDnsSocketName = "cnapt-dns.sock";

struct DnsConnection {
    io::UniqueFd fd;
    std::string socket;  // where it was made, and can be made again; empty: a child's
};

// Connected to a helper that is ready. Where this is not root and somebody listens beside
// `command_socket`, that one; else a child process. Before the first thread and before root is
// given up, since /etc is root's. Empty without servers, and, with a warning, without a helper:
// names are looked up as before.
DnsConnection start_dns_helper(const NodeConfig& config,
                               const std::string& state,
                               const std::string& command_socket);
// Does not wait. Errors: LimitReached (a long path), System.
base::Result<io::UniqueFd> connect_dns_helper(const std::string& socket);

}  // namespace continuo::cnapt
