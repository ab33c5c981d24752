// The helper that changes how the host looks names up: a process of its own, with root's user and
// without root's capabilities, because /etc is root's and the daemon is not. It knows the servers
// from the configuration; what the daemon may say is only "tunnel" or "plain". When the daemon
// ends, in whatever way, all is put back. docs/DECISIONS.md.
//
// A change that fails, or that somebody else undoes, is tried again, ever more seldom. So is a
// helper that was killed: by its parent, a process that does nothing else, or by the daemon, which
// connects anew.
//
// Both sides send texts over a SOCK_SEQPACKET connection. From the helper come
//     original ADDRESS...      name servers that the host would use; again when they change
//     ready                    what an earlier one left is cleared away; knows nothing yet
//     state tunnel | state plain
//     resolved tunnel | resolved plain    what systemd-resolved has been told, where it is there
//     resolved silent          it does not say what it was told
//     note TEXT, error TEXT    for people
#pragma once

#include "cnapt/resolv_conf.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

inline constexpr size_t kMaxDnsMessageBytes = 512;

struct DnsHelperOptions {
    std::string device;
    std::vector<base::IpAddress> servers;
    std::string kept;  // directory for the original
    std::string resolv_conf = std::string(kResolvConf);
};

// A child process, of which the connection to it is given: nobody waits for it, it ends when the
// daemon has gone. Before the first thread and before root is given up. Errors: System.
base::Result<io::UniqueFd> fork_dns_helper(const DnsHelperOptions& options);

// The helper itself, until the other end of `fd` closes or SIGTERM comes. Gives the exit code.
int run_dns_helper(int fd, const DnsHelperOptions& options);

}  // namespace continuo::cnapt
