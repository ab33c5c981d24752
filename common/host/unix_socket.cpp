#include "common/host/unix_socket.hpp"

#include "common/host/unix_server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

namespace continuo::host {

namespace {

using base::Duration;
using base::Errc;
using base::Error;
using base::kNever;
using base::Result;
using base::TimePoint;

constexpr size_t kMaxAnswerBytes = size_t{256} << 20;
constexpr size_t kBlockBytes = 65536;

TimePoint read_clock() {
    return std::chrono::steady_clock::now();
}

// Errors: WouldBlock when the deadline has passed.
Result<void> wait_for(int fd, short events, TimePoint deadline) {
    for (;;) {
        int timeout_ms = -1;
        if (deadline != kNever) {
            const Duration left = deadline - read_clock();
            if (left <= Duration::zero()) {
                return Error{Errc::WouldBlock, "command socket timeout"};
            }
            timeout_ms = static_cast<int>(base::to_ms(left)) + 1;
        }
        pollfd wanted{fd, events, 0};
        const int ready = ::poll(&wanted, 1, timeout_ms);
        if (ready > 0) {
            return {};
        }
        if (ready < 0 && errno != EINTR) {
            return Error{Errc::System, "poll command socket", errno};
        }
    }
}

Result<void> send_line(int fd, std::string_view line, TimePoint deadline) {
    std::string text(line);
    text.push_back('\n');
    std::string_view rest = text;
    while (!rest.empty()) {
        CTN_TRY(wait_for(fd, POLLOUT, deadline));
        const ssize_t sent = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EINTR && errno != EAGAIN) {
            return Error{Errc::System, "send command", errno};
        }
        rest.remove_prefix(sent > 0 ? static_cast<size_t>(sent) : 0);
    }
    return {};
}

Result<void>
receive_all(int fd, TimePoint deadline, const std::function<bool(std::string_view)>& each) {
    std::array<char, kBlockBytes> block{};
    for (;;) {
        CTN_TRY(wait_for(fd, POLLIN, deadline));
        const ssize_t got = ::recv(fd, block.data(), block.size(), MSG_DONTWAIT);
        if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
            continue;
        }
        if (got < 0) {
            return Error{Errc::System, "receive answer", errno};
        }
        if (got == 0 || !each(std::string_view(block.data(), static_cast<size_t>(got)))) {
            return {};
        }
    }
}

}  // namespace

Result<sockaddr_un> unix_address(const std::string& path) {
    sockaddr_un address{};
    if (path.empty() || path.size() >= sizeof address.sun_path) {
        return Error{Errc::InvalidConfig, "length of socket path"};
    }
    address.sun_family = AF_UNIX;
    std::memcpy(static_cast<char*>(address.sun_path), path.data(), path.size());
    return address;
}

// The kernel waits for room in the listener's queue as long as for room to send.
Result<io::UniqueFd> unix_connect(const std::string& path, Duration timeout) {
    const sockaddr_un address = CTN_TRY(unix_address(path));
    io::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto us = std::max<int64_t>(base::to_us(timeout), 1);  // 0 would be for ever
    constexpr int64_t kUsPerS = 1'000'000;
    const timeval most{us / kUsPerS, us % kUsPerS};
    if (!fd.is_open() ||
        ::setsockopt(fd.value(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most) != 0) {
        return Error{Errc::System, "open command socket", errno};
    }
    if (::connect(fd.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return errno == EAGAIN ? Error{Errc::WouldBlock, "command socket timeout"}
                               : Error{Errc::System, "connect to command socket", errno};
    }
    return fd;
}

Result<std::string> unix_request(const std::string& path, std::string_view line, Duration timeout) {
    const TimePoint deadline = read_clock() + timeout;
    const io::UniqueFd fd = CTN_TRY(unix_connect(path, timeout));
    CTN_TRY(send_line(fd.value(), line, deadline));
    std::string answer;
    bool is_too_long = false;
    CTN_TRY(receive_all(fd.value(), deadline, [&](std::string_view piece) {
        is_too_long = answer.size() + piece.size() > kMaxAnswerBytes;
        answer.append(piece);
        return !is_too_long;
    }));
    if (is_too_long) {
        return Error{Errc::LimitReached, "length of answer"};
    }
    return answer;
}

Result<void> unix_stream(const std::string& path,
                         std::string_view line,
                         const std::function<bool(std::string_view)>& each) {
    const io::UniqueFd fd = CTN_TRY(unix_connect(path));
    CTN_TRY(send_line(fd.value(), line, kNever));
    return receive_all(fd.value(), kNever, each);
}

bool notify_service_manager(std::string_view state) {
    const char* path = std::getenv("NOTIFY_SOCKET");
    if (path == nullptr) {
        return false;
    }
    auto address = unix_address(path);
    const io::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (!address || !fd.is_open()) {
        return false;
    }
    // "@name" is an abstract address: it begins with a zero and its length counts.
    if (address->sun_path[0] == '@') {
        address->sun_path[0] = '\0';
    }
    const size_t length = offsetof(sockaddr_un, sun_path) + std::strlen(path);
    return ::sendto(fd.value(), state.data(), state.size(), MSG_NOSIGNAL,
                    reinterpret_cast<const sockaddr*>(&*address),
                    static_cast<socklen_t>(length)) == static_cast<ssize_t>(state.size());
}

}  // namespace continuo::host
