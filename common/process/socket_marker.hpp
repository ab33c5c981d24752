// SocketMarker: gives sockets that members of a cgroup create a mark (SO_MARK) before they have a
// destination, so that routing rules can match them. A socket keeps its mark; older ones have none;
// those from accept() have their listener's.
#pragma once

#include "common/base/result.hpp"
#include "common/io/unique_fd.hpp"

#include <string>

namespace continuo::process {

class SocketMarker {
  public:
    // `cgroup` as in /proc/PID/cgroup; its descendants count too. One that is removed and created
    // again under the same name is another one, which is not marked. Needs CAP_BPF and
    // CAP_NET_ADMIN (and CAP_SYS_ADMIN where no cgroup v2 tree is visible) now, nothing later.
    // Errors: Unsupported (no cgroup v2 tree), System (no such cgroup; not allowed).
    static base::Result<SocketMarker> attach(const std::string& cgroup, uint32_t mark);

  private:
    explicit SocketMarker(io::UniqueFd link) : link_(std::move(link)) {}

    io::UniqueFd link_;
};

}  // namespace continuo::process
