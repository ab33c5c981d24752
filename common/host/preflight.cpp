#include "common/host/preflight.hpp"

#include "common/io/unique_fd.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include <fcntl.h>
#include <unistd.h>

namespace continuo::host {
namespace {

constexpr uint64_t kNetAdmin = uint64_t{1} << 12U;  // CAP_NET_ADMIN, capabilities(7)

// Effective capabilities of this process, as proc(5) shows them.
uint64_t effective_capabilities() {
    constexpr std::string_view kLabel = "CapEff:";
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with(kLabel)) {
            return std::strtoull(line.c_str() + kLabel.size(), nullptr, 16);
        }
    }
    return 0;
}

}  // namespace

std::string missing_right() {
    return (effective_capabilities() & kNetAdmin) != 0
               ? ""
               : "needs the right to configure the network (CAP_NET_ADMIN); run it as root";
}

base::Result<void> try_tun() {
    const io::UniqueFd device(::open("/dev/net/tun", O_RDWR | O_CLOEXEC));
    return device.is_open() ? base::Result<void>()
                            : base::Error{base::Errc::System, "open /dev/net/tun", errno};
}

std::string missing_for_tun() {
    if (std::string missing = missing_right(); !missing.empty()) {
        return missing;
    }
    if (access("/dev/net/tun", F_OK) != 0) {
        return "there is no /dev/net/tun; load the kernel module tun, or give the container the "
               "device";
    }
    if (access("/dev/net/tun", R_OK | W_OK) != 0) {
        return "/dev/net/tun may not be opened; run it as root";
    }
    return {};
}

}  // namespace continuo::host
