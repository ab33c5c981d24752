#include "cnapt/control_link/reach_probe.hpp"

#include "cnapt/control_link/tcp_connect.hpp"
#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "common/host/system_random.hpp"
#include "common/io/socket_address.hpp"
#include "common/wire/tunnel_header.hpp"
#include "common/wire/unsealed.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

namespace continuo::cnapt::control_link {

namespace {

using Clock = std::chrono::steady_clock;

// Datagrams can be lost, and a random session number may exist. Number and interval of the rounds
// are choices, not measured.
constexpr int kRounds = 4;
constexpr base::Duration kRoundTime = base::milliseconds(400);
constexpr uint16_t kSmallProbe = 100;  // outer bytes
constexpr uint16_t kIpv4UdpBytes = 28;
constexpr uint16_t kIpv6UdpBytes = 48;
constexpr size_t kLargestAnswer = 256;

int milliseconds_until(Clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    return static_cast<int>(std::max<int64_t>(left, 0));
}

int pending_error(int fd) {
    int error = 0;
    socklen_t length = sizeof error;
    return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

// One address and what was sent to it.
struct UdpAsked {
    io::UniqueFd fd;
    uint16_t header_bytes = 0;
    struct Sent {
        wire::Quote quote;
        uint16_t outer_bytes = 0;
        Clock::time_point at;
    };
    std::vector<Sent> sent;
    std::vector<uint16_t> refused;  // sizes that the own host does not send
    UdpReach reach;

    bool is_refused(uint16_t size) const {
        return std::find(refused.begin(), refused.end(), size) != refused.end();
    }
    // The largest size that the own host sends has come through.
    bool is_complete() const {
        const auto* const most =
            std::find_if_not(std::begin(kProbedSizes), std::end(kProbedSizes),
                             [this](uint16_t size) { return is_refused(size); });
        return reach.answered_in && (most == std::end(kProbedSizes) || reach.largest == *most);
    }
};

base::Result<io::UniqueFd> udp_socket(const base::Endpoint& to, uint32_t fwmark) {
    const bool is_v4 = to.address.is_v4();
    io::UniqueFd fd(
        ::socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const io::SocketAddress address(to);
    // Sets DF, whatever path MTU the kernel remembers. The option's value is equal for both
    // versions.
    static_assert(IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);
    const int probe = IP_PMTUDISC_PROBE;
    const int level = is_v4 ? IPPROTO_IP : IPPROTO_IPV6;
    const int option = is_v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER;
    if (fwmark != 0) {
        uplinks::bind_beside(fd.value(), to.address, fwmark);
    }
    if (!fd.is_open() ||
        (fwmark != 0 &&
         ::setsockopt(fd.value(), SOL_SOCKET, SO_MARK, &fwmark, sizeof fwmark) != 0) ||
        ::setsockopt(fd.value(), level, option, &probe, sizeof probe) != 0 ||
        ::connect(fd.value(), address.data(), address.size()) != 0) {
        return base::Error{base::Errc::System, "UDP socket", errno};
    }
    return fd;
}

std::string interface_of(const base::IpAddress& address) {
    ifaddrs* list = nullptr;
    if (::getifaddrs(&list) != 0) {
        return {};
    }
    std::string name;
    for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
        const int family = at->ifa_addr == nullptr ? AF_UNSPEC : at->ifa_addr->sa_family;
        if (family == AF_INET || family == AF_INET6) {
            io::SocketAddress own;
            std::memcpy(own.data(), at->ifa_addr,
                        family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
            if (own.endpoint() && own.endpoint()->address == address) {
                name = at->ifa_name;
                break;
            }
        }
    }
    ::freeifaddrs(list);
    return name;
}

// The interface that has the local address of the socket.
void note_interface(UdpAsked& asked) {
    io::SocketAddress local;
    socklen_t length = io::SocketAddress::capacity();
    if (::getsockname(asked.fd.value(), local.data(), &length) != 0 || !local.endpoint()) {
        return;
    }
    const std::string found = interface_of(local.endpoint()->address);
    asked.reach.interface = found;
    ifreq request{};
    found.copy(static_cast<char*>(request.ifr_name), sizeof request.ifr_name - 1);
    if (!found.empty() && ::ioctl(asked.fd.value(), SIOCGIFMTU, &request) == 0) {
        asked.reach.interface_mtu = static_cast<uint16_t>(std::min(request.ifr_mtu, 65535));
    }
}

// Sends a datagram with a random session id, which is unlikely to exist, so that the SNAPT answers
// that it is unknown.
void send_probe(UdpAsked& asked, uint16_t outer_bytes, base::Random& random) {
    std::vector<uint8_t> datagram(static_cast<size_t>(outer_bytes - asked.header_bytes));
    random.fill(datagram);
    wire::TunnelHeader header;
    header.session_id = static_cast<uint16_t>(random.u64());
    header.long_sequence = true;
    header.sequence = static_cast<uint32_t>(random.u64());
    base::ByteWriter writer(datagram);
    header.serialize(writer);
    const auto quote = wire::Quote::of(datagram);
    if (::send(asked.fd.value(), datagram.data(), datagram.size(), MSG_NOSIGNAL) < 0) {
        if (errno == EMSGSIZE) {
            asked.refused.push_back(outer_bytes);
        } else {
            asked.reach.sys_errno = errno;
        }
    } else if (quote) {
        asked.sent.push_back({*quote, outer_bytes, Clock::now()});
    }
}

void send_round(UdpAsked& asked, base::Random& random) {
    if (!asked.reach.answered_in) {
        send_probe(asked, kSmallProbe, random);
    }
    for (const uint16_t size : kProbedSizes) {
        if (size > asked.reach.largest && !asked.is_refused(size)) {
            send_probe(asked, size, random);
        }
    }
}

void take_answer(UdpAsked& asked, base::ByteView datagram) {
    const auto message = wire::parse_unsealed(datagram);
    const auto* unknown = message ? std::get_if<wire::Unknown>(&*message) : nullptr;
    if (unknown == nullptr) {
        return;
    }
    for (const UdpAsked::Sent& sent : asked.sent) {
        if (sent.quote != unknown->quote) {
            continue;
        }
        if (!asked.reach.answered_in) {
            asked.reach.answered_in = Clock::now() - sent.at;
        }
        if (sent.outer_bytes != kSmallProbe) {
            asked.reach.largest = std::max(asked.reach.largest, sent.outer_bytes);
        }
    }
}

void receive(UdpAsked& asked) {
    std::array<uint8_t, kLargestAnswer> buffer{};
    for (;;) {
        const ssize_t count = ::recv(asked.fd.value(), buffer.data(), buffer.size(), 0);
        if (count >= 0) {
            take_answer(asked, base::ByteView(buffer).first(static_cast<size_t>(count)));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) {
            return;
        } else if (errno != EMSGSIZE) {
            asked.reach.sys_errno = errno;  // ICMP
        }
    }
}

void receive_until(std::vector<UdpAsked>& all, Clock::time_point until) {
    std::vector<pollfd> ready;
    for (const UdpAsked& asked : all) {
        ready.push_back({asked.fd.value(), POLLIN, 0});
    }
    const auto is_complete = [](const UdpAsked& asked) {
        return !asked.fd.is_open() || asked.is_complete();
    };
    while (!std::all_of(all.begin(), all.end(), is_complete) &&
           ::poll(ready.data(), ready.size(), milliseconds_until(until)) > 0) {
        for (size_t i = 0; i < all.size(); ++i) {
            if (ready[i].revents != 0) {
                receive(all[i]);
            }
        }
    }
}

}  // namespace

std::vector<TcpReach> probe_tcp(const ReachQuestion& question) {
    const auto began = Clock::now();
    const auto until = began + question.time;
    std::vector<TcpReach> reach(question.to.size(), TcpReach{std::nullopt, ETIMEDOUT});
    std::vector<io::UniqueFd> sockets;
    std::vector<pollfd> waiting;  // a closed one has -1, which poll passes over
    for (size_t i = 0; i < question.to.size(); ++i) {
        auto fd = begin_connect(question.to[i], {}, question.fwmark);
        reach[i].sys_errno = fd ? ETIMEDOUT : fd.error().sys_errno;
        sockets.push_back(fd ? std::move(*fd) : io::UniqueFd());
        waiting.push_back({sockets.back().value(), POLLOUT, 0});
    }
    const auto is_open = [](const pollfd& one) { return one.fd >= 0; };
    while (std::any_of(waiting.begin(), waiting.end(), is_open) &&
           ::poll(waiting.data(), waiting.size(), milliseconds_until(until)) > 0) {
        for (size_t i = 0; i < waiting.size(); ++i) {
            if (waiting[i].fd < 0 || waiting[i].revents == 0) {
                continue;
            }
            reach[i].sys_errno = pending_error(waiting[i].fd);
            if (reach[i].sys_errno == 0) {
                reach[i].connected_in = Clock::now() - began;
            }
            waiting[i].fd = -1;
        }
    }
    return reach;
}

std::vector<UdpReach> probe_udp(const ReachQuestion& question) {
    const auto until = Clock::now() + question.time;
    host::SystemRandom random;
    std::vector<UdpAsked> all(question.to.size());
    for (size_t i = 0; i < all.size(); ++i) {
        auto fd = udp_socket(question.to[i], question.fwmark);
        all[i].header_bytes = question.to[i].address.is_v4() ? kIpv4UdpBytes : kIpv6UdpBytes;
        all[i].reach.sys_errno = fd ? 0 : fd.error().sys_errno;
        if (fd) {
            all[i].fd = std::move(*fd);
            note_interface(all[i]);
        }
    }
    for (int round = 0; round < kRounds && Clock::now() < until; ++round) {
        for (UdpAsked& asked : all) {
            if (asked.fd.is_open() && !asked.is_complete()) {
                send_round(asked, random);
            }
        }
        // The last round waits only for addresses that have not answered at all: the others had
        // time.
        const bool waits =
            round + 1 == kRounds && std::any_of(all.begin(), all.end(), [](const UdpAsked& asked) {
                return asked.fd.is_open() && !asked.reach.answered_in && asked.reach.sys_errno == 0;
            });
        const Clock::time_point end_of_round = Clock::now() + kRoundTime;
        receive_until(all, waits ? until : std::min(until, end_of_round));
    }
    std::vector<UdpReach> reach;
    for (UdpAsked& asked : all) {
        if (asked.reach.sys_errno == 0 && !asked.reach.answered_in) {
            asked.reach.sys_errno = ETIMEDOUT;
        }
        reach.push_back(std::move(asked.reach));
    }
    return reach;
}

}  // namespace continuo::cnapt::control_link
