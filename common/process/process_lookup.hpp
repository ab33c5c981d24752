// ProcessLookup: which process owns a local socket. sock_diag (for pings a list in /proc) gives
// user, inode and cookie. A SocketRecorder knows who made the socket. Otherwise /proc is searched,
// which takes up to milliseconds, and CAP_SYS_PTRACE for other users' processes. Runs on a helper
// thread, one object per thread.
#pragma once

#include "common/base/result.hpp"
#include "common/netlink/netlink.hpp"
#include "common/packet/five_tuple.hpp"
#include "common/process/socket_recorder.hpp"

#include <array>
#include <string>

namespace continuo::process {

inline constexpr size_t kRecentProcesses = 16;

struct SocketOwner {
    uint64_t inode = 0;
    uint32_t user_id = 0;
    int32_t process_id = 0;  // 0: not found in /proc (other name space, gone, no permission)
    std::string process;     // /proc/PID/comm
    std::string parent;      // comm of its parent: scp runs ssh
    std::string executable;  // last part of /proc/PID/exe; empty: not readable
};

// From the user database; empty when it is not there. Thread-safe, may block.
std::string user_name(uint32_t user_id);
std::optional<uint32_t> user_id(const std::string& name);

class ProcessLookup {
  public:
    // Without a recorder, as when it cannot be attached, all owners come from /proc.
    static base::Result<ProcessLookup> open();

    // TCP: the connection. UDP: the best matching socket, connected or not. Includes IPv6 sockets
    // that use IPv4. ICMP: the socket with that echo identifier, unless it is a raw one; its
    // process comes from /proc. Errors: NotFound (no such socket), System.
    base::Result<SocketOwner> find(const packet::FiveTuple& tuple);

  private:
    struct Socket;
    explicit ProcessLookup(netlink::NetlinkSocket socket) : netlink_(std::move(socket)) {}
    base::Result<Socket> find_socket(const packet::FiveTuple& tuple);
    base::Result<void>
    query(const packet::FiveTuple& tuple, base::IpVersion socket_version, Socket& best);
    int32_t find_process(const Socket& socket);
    int32_t search_processes(const Socket& socket);
    void remember(int32_t process_id);

    netlink::NetlinkSocket netlink_;
    std::optional<SocketRecorder> recorder_;
    std::array<int32_t, kRecentProcesses> recent_{};  // last used first; 0: none
};

}  // namespace continuo::process
