// ConnectionMonitor: which connections connection tracking begins and ends, as the kernel tells it
// (ctnetlink). It tells the end of those only that began while somebody listened. Blocking; belongs
// to one thread.
#pragma once

#include "common/base/time.hpp"
#include "common/io/netfilter.hpp"
#include "common/io/unique_fd.hpp"

#include <functional>
#include <vector>

namespace continuo::io {

struct ConnectionEvent {
    bool is_end = false;
    TrackedConnection connection;
};

class ConnectionMonitor {
  public:
    // Needs CAP_NET_ADMIN. Errors: System.
    static base::Result<ConnectionMonitor> open();

    // Waits for so long at most, and hands over what has come. False: some were lost since the last
    // call, because they came faster than they were read. Errors: System.
    base::Result<bool> read(base::Duration timeout,
                            const std::function<void(const ConnectionEvent&)>& each);

  private:
    explicit ConnectionMonitor(UniqueFd fd) : fd_(std::move(fd)) {}

    UniqueFd fd_;
    std::vector<uint8_t> buffer_;
};

}  // namespace continuo::io
