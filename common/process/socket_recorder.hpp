// SocketRecorder: an eBPF program at the root of the cgroup tree that records which process creates
// each socket, so that its owner is known without reading other users' /proc/PID/fd (which needs
// CAP_SYS_PTRACE and milliseconds). Needs CAP_BPF and CAP_NET_ADMIN to attach (and CAP_SYS_ADMIN
// where no cgroup v2 tree is visible), nothing to look up. The program ends with this object or its
// process. Thread-safe after attach().
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <optional>

namespace continuo::process {

// Most sockets remembered; beyond that the kernel forgets the least recently used.
inline constexpr uint32_t kMaxRecordedSockets = 65536;

struct SocketMaker {
    int32_t process_id = 0;  // thread group
    uint64_t at_ns = 0;      // when the socket was made, since boot
};

class SocketRecorder {
  public:
    // Errors: Unsupported (no cgroup v2 tree, or this process sees other process numbers than the
    // kernel, as in a container), System (not allowed; kernel before 6.0).
    static base::Result<SocketRecorder> attach();

    // The process that created the socket with this cookie (SO_COOKIE, INET_DIAG). Its number may
    // have been reused.
    std::optional<SocketMaker> maker_of(uint64_t cookie) const;

  private:
    SocketRecorder(io::UniqueFd map, io::UniqueFd link)
        : map_(std::move(map)), link_(std::move(link)) {}

    io::UniqueFd map_;
    io::UniqueFd link_;
};

}  // namespace continuo::process
