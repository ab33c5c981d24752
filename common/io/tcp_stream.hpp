// TcpStream: a non-blocking TCP socket between a byte source and a byte sink, with at most one
// buffer of bytes waiting. One owner, one thread.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/base/time.hpp"
#include "common/io/unique_fd.hpp"

#include <array>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace continuo::io {

class TcpStream {
  public:
    static constexpr size_t kBufferBytes = size_t{16} * 1024;
    // One wake-up reads no more than this many buffers.
    static constexpr int kReadsPerWake = 8;

    explicit TcpStream(UniqueFd fd) : fd_(std::move(fd)) {}

    int fd() const { return fd_.value(); }

    // Sends the bytes from `poll(MutableByteView) -> size_t` until there are no more (true) or the
    // socket is full (false: call again when writable). Errors: System.
    template <typename Poll>
    base::Result<bool> flush(const Poll& poll) {
        while (true) {
            if (sent_ == waiting_) {
                sent_ = 0;
                waiting_ = poll(base::MutableByteView(buffer_));
                if (waiting_ == 0) {
                    return true;
                }
            }
            const ssize_t count =
                ::send(fd(), buffer_.data() + sent_, waiting_ - sent_, MSG_NOSIGNAL);
            if (count < 0) {
                if (errno == EINTR) {
                    continue;
                }
                if (errno == EAGAIN || errno == EWOULDBLOCK) {
                    return false;
                }
                return base::Error{base::Errc::System, "send", errno};
            }
            sent_ += static_cast<size_t>(count);
        }
    }

    // Passes received bytes to `take(ByteView) -> bool` while it returns true. False: end of the
    // stream. Errors: System.
    template <typename Take>
    base::Result<bool> drain(const Take& take) {
        std::array<uint8_t, kBufferBytes> bytes;  // NOLINT: filled by recv
        for (int i = 0; i < kReadsPerWake; ++i) {
            const ssize_t count = ::recv(fd(), bytes.data(), bytes.size(), 0);
            if (count == 0) {
                return false;
            }
            if (count < 0) {
                if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
                    return true;
                }
                return base::Error{base::Errc::System, "recv", errno};
            }
            if (!take(base::ByteView(bytes).first(static_cast<size_t>(count)))) {
                return true;
            }
        }
        return true;
    }

    void shutdown_write() { ::shutdown(fd(), SHUT_WR); }

  private:
    UniqueFd fd_;
    std::array<uint8_t, kBufferBytes> buffer_{};
    size_t waiting_ = 0;
    size_t sent_ = 0;
};

struct TcpProgress {
    bool is_owed = false;   // something is not acknowledged
    uint32_t timeouts = 0;  // of its retransmission timer since the last new acknowledgement
};

// Zero where the socket cannot say.
inline TcpProgress progress_of(int fd) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) {
        return {};
    }
    return {info.tcpi_unacked > 0, info.tcpi_retransmits};
}

// Sets no delay, a short send queue and detection of dead peers: unacknowledged bytes are given up
// after `unacknowledged`.
inline void tune_tcp(int fd, base::Duration unacknowledged, base::Duration keepalive_idle) {
    const auto set = [fd](int level, int option, int value) {
        static_cast<void>(::setsockopt(fd, level, option, &value, sizeof value));
    };
    constexpr int kUnsentBytes = 16 * 1024;
    constexpr int kProbeIntervalSeconds = 10;
    constexpr int kProbes = 3;
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(IPPROTO_TCP, TCP_NOTSENT_LOWAT, kUnsentBytes);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(base::to_ms(unacknowledged)));
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, static_cast<int>(base::to_ms(keepalive_idle) / 1000));
    set(IPPROTO_TCP, TCP_KEEPINTVL, kProbeIntervalSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, kProbes);
}

}  // namespace continuo::io
