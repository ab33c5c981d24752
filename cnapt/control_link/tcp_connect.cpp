#include "cnapt/control_link/tcp_connect.hpp"

#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "common/control/control_link.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/tcp_stream.hpp"

#include <netinet/tcp.h>

namespace continuo::cnapt::control_link {

namespace {

constexpr base::Duration kUnacknowledged = base::seconds(15);
constexpr base::Duration kKeepaliveIdle = 2 * control::kPingInterval;
// MSS both ways: fits every link that IPv6 may use (1280, RFC 8200 section 5), since TCP does not
// detect a black hole for longer segments by itself.
constexpr int kSegmentBytes = 1220;

base::Error system_error(std::string_view where) {
    return {base::Errc::System, where, errno};
}

}  // namespace

base::Result<io::UniqueFd>
begin_connect(const base::Endpoint& to, const std::optional<ControlUplink>& from, uint32_t fwmark) {
    const int family = to.address.is_v4() ? AF_INET : AF_INET6;
    io::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!fd.is_open()) {
        return system_error("TCP socket");
    }
    if (fwmark != 0 && ::setsockopt(fd.value(), SOL_SOCKET, SO_MARK, &fwmark, sizeof fwmark) != 0) {
        return system_error("SO_MARK");
    }
    if (from) {
        if (from->is_bound &&
            ::setsockopt(fd.value(), SOL_SOCKET, SO_BINDTODEVICE, from->device.data(),
                         static_cast<socklen_t>(from->device.size())) != 0) {
            return system_error("SO_BINDTODEVICE");
        }
        const io::SocketAddress source(base::Endpoint{from->source, 0});
        if (::bind(fd.value(), source.data(), source.size()) != 0) {
            return system_error("TCP bind");
        }
    } else if (fwmark != 0) {
        uplinks::bind_beside(fd.value(), to.address, fwmark);
    }
    io::tune_tcp(fd.value(), kUnacknowledged, kKeepaliveIdle);
    if (::setsockopt(fd.value(), IPPROTO_TCP, TCP_MAXSEG, &kSegmentBytes, sizeof kSegmentBytes) !=
        0) {
        return system_error("TCP_MAXSEG");
    }
    const io::SocketAddress address(to);
    if (::connect(fd.value(), address.data(), address.size()) != 0 && errno != EINPROGRESS) {
        return system_error("TCP connect");
    }
    return fd;
}

}  // namespace continuo::cnapt::control_link
