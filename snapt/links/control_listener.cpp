#include "snapt/links/control_listener.hpp"

#include "common/io/socket_address.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <netinet/in.h>
#include <sys/socket.h>

namespace continuo::snapt::links {

namespace {

constexpr int kListenBacklog = 256;
constexpr int kAcceptsPerWake = 64;
// After accept() found no descriptor free.
constexpr base::Duration kAcceptPause = base::milliseconds(100);

base::Endpoint without_mapping(const base::Endpoint& endpoint) {
    constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0,    0,
                                                 0, 0, 0, 0, 0xFF, 0xFF};  // RFC 4291 2.5.5.2
    const base::ByteView octets(endpoint.address.octets);
    if (endpoint.address.is_v4() || !std::equal(kMapped.begin(), kMapped.end(), octets.begin())) {
        return endpoint;
    }
    return {base::IpAddress::v4(octets.last(4)), endpoint.port};
}

base::Result<io::UniqueFd> open_listener(const base::Endpoint& endpoint, base::Endpoint& bound) {
    const int family = endpoint.address.is_v4() ? AF_INET : AF_INET6;
    io::UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP));
    if (!fd.is_open()) {
        return base::Error{base::Errc::System, "TCP socket", errno};
    }
    const int on = 1;
    ::setsockopt(fd.value(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) {
        ::setsockopt(fd.value(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    }
    const io::SocketAddress address(endpoint);
    if (::bind(fd.value(), address.data(), address.size()) != 0) {
        return base::Error{base::Errc::System, "TCP bind", errno};
    }
    if (::listen(fd.value(), kListenBacklog) != 0) {
        return base::Error{base::Errc::System, "TCP listen", errno};
    }
    io::SocketAddress name;
    socklen_t length = io::SocketAddress::capacity();
    if (::getsockname(fd.value(), name.data(), &length) != 0) {
        return base::Error{base::Errc::System, "getsockname", errno};
    }
    bound = name.endpoint().value_or(endpoint);
    return fd;
}

}  // namespace

ControlListener::ControlListener(io::EventLoop& loop, OnAccepted on_accepted)
    : loop_(loop)
    , on_accepted_(std::move(on_accepted))
    , accept_again_(loop, [this] { watch(true); }) {}

ControlListener::~ControlListener() = default;

base::Result<std::vector<base::Endpoint>>
ControlListener::open(std::span<const base::Endpoint> endpoints) {
    std::vector<base::Endpoint> all_bound;
    for (const base::Endpoint& endpoint : endpoints) {
        auto socket = std::make_unique<Socket>();
        base::Endpoint bound;
        socket->fd = CTN_TRY(open_listener(endpoint, bound));
        all_bound.push_back(bound);
        const Socket& ref = *socket;
        socket->poller = std::make_unique<io::Poller>(loop_, socket->fd.value(),
                                                      [this, &ref] { on_acceptable(ref); });
        sockets_.push_back(std::move(socket));
    }
    watch(true);
    return all_bound;
}

void ControlListener::close() {
    accept_again_.set(base::kNever);
    sockets_.clear();
}

void ControlListener::watch(bool accepting) {
    for (const auto& socket : sockets_) {
        socket->poller->watch(accepting);
    }
}

void ControlListener::on_acceptable(const Socket& socket) {
    for (int i = 0; i < kAcceptsPerWake; ++i) {
        io::SocketAddress peer;
        socklen_t length = io::SocketAddress::capacity();
        io::UniqueFd fd(
            ::accept4(socket.fd.value(), peer.data(), &length, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (!fd.is_open()) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
                watch(false);
                accept_again_.set(loop_.now() + kAcceptPause);
            }
            return;
        }
        if (const auto from = peer.endpoint()) {
            on_accepted_(std::move(fd), without_mapping(*from));
        }
    }
}

}  // namespace continuo::snapt::links
