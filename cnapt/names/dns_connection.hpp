// DnsConnection: the daemon's end of the connection to the helper that changes the host's name
// resolution (dns_helper.hpp).
#pragma once

#include "cnapt/names/dns_helper.hpp"
#include "cnapt/settings/node_config.hpp"

#include <string>

namespace continuo::cnapt::names {

// File name, beside the command socket, of a helper that a service manager starts on connection.
inline constexpr const char* kDnsSocketName = "cnapt-dns.sock";

struct DnsConnection {
    io::UniqueFd fd;
    std::string socket;  // where to reconnect; empty: the helper is a child process
};

// Connects to a helper and waits until it is ready. If this is not root and a helper listens beside
// `command_socket`, uses that one; otherwise starts a child process. Call before the first thread
// starts and before root is given up, since /etc is root's. Empty without servers and, with a
// warning, without a helper: names are then looked up as before.
DnsConnection start_dns_helper(const settings::NodeConfig& config,
                               const std::string& state,
                               const std::string& command_socket);
// Does not wait. Errors: LimitReached (a long path), System.
base::Result<io::UniqueFd> connect_dns_helper(const std::string& socket);

}  // namespace continuo::cnapt::names
