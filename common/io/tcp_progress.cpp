#include "common/io/tcp_progress.hpp"

#include <algorithm>
#include <array>

#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace continuo::io {

namespace {

constexpr uint32_t kMostDoublings = 31;  // that a shift can undo

}  // namespace

TcpProgress progress_of(int fd) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
        return {};
    }
    TcpProgress progress;
    progress.is_owed = info.tcpi_unacked > 0;
    // Probes of a closed window are counted likewise, and double nothing.
    const uint32_t doublings = progress.is_owed ? info.tcpi_backoff : 0U;
    progress.timeout =
        std::chrono::microseconds(info.tcpi_rto >> std::min(doublings, kMostDoublings));
    progress.acknowledged_bytes = info.tcpi_bytes_acked;
    progress.received_bytes = info.tcpi_bytes_received;
    // Bytes that are held and cannot be read are out of order.
    std::array<uint32_t, SK_MEMINFO_VARS> memory{};
    socklen_t memory_length = sizeof memory;
    int unread = 0;
    progress.has_gap =
        ::getsockopt(fd, SOL_SOCKET, SO_MEMINFO, memory.data(), &memory_length) == 0 &&
        ::ioctl(fd, FIONREAD, &unread) == 0 && unread == 0 && memory[SK_MEMINFO_RMEM_ALLOC] > 0;
    return progress;
}

}  // namespace continuo::io
