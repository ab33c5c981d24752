// The helper that changes the host's name resolution: a separate process as root without root's
// capabilities, because /etc is root's and the daemon is not. It has the servers from the
// configuration; the daemon can only say "tunnel" or "plain". However the daemon ends, everything
// is restored. docs/DECISIONS.md.
//
// A change that fails, or that another program undoes, is tried again at growing intervals. A
// killed helper is restarted by its parent, a process that does nothing else, or by the daemon,
// which reconnects.
//
// Both sides send texts over a SOCK_SEQPACKET connection. From the helper come
//     original ADDRESS...      name servers that the host would use; again when they change
//     ready                    what an earlier one left is cleared away; knows nothing yet
//     state tunnel | state plain
//     resolved tunnel | resolved plain    what systemd-resolved has been told, where it is there
//     resolved silent          it does not say what it was told
//     resolved again           it had lost that, and was told once more
//     note TEXT, error TEXT    for people
#pragma once

#include "cnapt/names/resolv_conf.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::names {

inline constexpr size_t kMaxDnsMessageBytes = 512;

struct DnsHelperOptions {
    std::string device;
    std::vector<base::IpAddress> servers;
    std::string kept;  // directory for the original
    std::string resolv_conf = std::string(kResolvConf);
};

// Starts a child process and returns the connection to it. Nobody waits for it: it ends after the
// daemon. Call before the first thread starts and before root is given up. Errors: System.
base::Result<io::UniqueFd> fork_dns_helper(const DnsHelperOptions& options);

// Runs the helper until the other end of `fd` closes or SIGTERM comes. Returns the exit code.
int run_dns_helper(int fd, const DnsHelperOptions& options);

}  // namespace continuo::cnapt::names
