// The capabilities of threads, capabilities(7).
#pragma once

#include "common/base/result.hpp"

#include <cstdint>
#include <span>

namespace continuo::io {

// With the kernel's numbers.
enum class Capability : uint8_t {
    NetBindService = 10,  // ports below 1024, at start
    NetAdmin = 12,        // TUN, routes, rules, nftables, net.* sysctls, SO_MARK: for life
    SysAdmin = 21,        // SocketRecorder, at start, where no cgroup tree is in sight
    Bpf = 39,             // SocketRecorder, at start
};
inline constexpr Capability kNetworkRights[] = {Capability::NetAdmin};

// For this thread only; capabilities it does not have are not added. Threads made later inherit.
base::Result<void> keep_capabilities(std::span<const Capability> kept);

}  // namespace continuo::io
