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
//     note TEXT, error TEXT    for people
#pragma once

#include "cnapt/resolv_conf.hpp"
#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

inline constexpr size_t kMaxDnsMessageBytes = 512;
// Beside the command socket: of a helper that a service manager starts for whoever connects.
inline constexpr const char* kDnsSocketName = "cnapt-dns.sock";

struct DnsHelperOptions {
    std::string device;
    std::vector<base::IpAddress> servers;
    std::string kept;  // directory for the original
    std::string resolv_conf = std::string(kResolvConf);
};

struct DnsConnection {
    io::UniqueFd fd;
    std::string socket;  // where it was made, and can be made again; empty: a child's
};
// Connected to a helper that is ready. Where this is not root and somebody listens at `socket`,
// that one; else a child process. Before the first thread and before root is given up. Errors:
// System, WouldBlock (it says nothing).
base::Result<DnsConnection> start_dns_helper(const DnsHelperOptions& options,
                                             const std::string& socket);
// Does not wait. Errors: LimitReached (a long path), System.
base::Result<io::UniqueFd> connect_dns_helper(const std::string& socket);

// The helper itself, until the other end of `fd` closes or SIGTERM comes. Gives the exit code.
int run_dns_helper(int fd, const DnsHelperOptions& options);

// Puts back what a helper that was killed has left in `options.kept`. True: there was something.
// Errors: as ResolvFile::open and clean_up; WouldBlock while a helper runs.
base::Result<bool> restore_dns(const DnsHelperOptions& options);

}  // namespace continuo::cnapt
