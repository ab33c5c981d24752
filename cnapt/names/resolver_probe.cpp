#include "cnapt/names/resolver_probe.hpp"

#include "cnapt/names/dns_message.hpp"
#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "common/host/system_random.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>

#include <poll.h>
#include <sys/socket.h>

namespace continuo::cnapt::names {

namespace {

using Clock = std::chrono::steady_clock;

// Interval between questions to a server.
constexpr base::Duration kRepeat = base::milliseconds(400);
constexpr int kQuestions = 3;

// One server by one way.
struct Asked {
    io::UniqueFd fd;
    std::vector<uint8_t> query;
    bool is_fit = false;    // the host allowed sending that way
    bool was_sent = false;  // at least once
    bool answers = false;
    bool refuses = false;  // by a DNS message
    bool is_told = false;  // ICMP said that nobody is there

    bool is_open() const { return is_fit && !answers && !refuses; }

    void send() {
        if (is_open() && ::send(fd.value(), query.data(), query.size(), MSG_NOSIGNAL) > 0) {
            was_sent = true;
        }
    }
    void receive() {
        std::array<uint8_t, kMaxDnsAnswerBytes> buffer{};
        const ssize_t count = ::recv(fd.value(), buffer.data(), buffer.size(), MSG_DONTWAIT);
        if (count < 0) {
            is_told = is_told || (errno != EAGAIN && errno != EINTR);
            return;
        }
        const auto answer =
            parse_dns_answer(base::ByteView(buffer).first(static_cast<size_t>(count)), query);
        answers = answer.has_value();
        refuses = !answers && answer.error().code != base::Errc::Malformed;
    }
};

Asked open_socket(const base::Endpoint& server) {
    Asked asked;
    // A name that is reserved for such questions (RFC 2606).
    asked.query = make_dns_query("example.org", base::IpVersion::V4,
                                 static_cast<uint16_t>(host::SystemRandom().u64()));
    asked.fd = io::UniqueFd(::socket(server.address.is_v4() ? AF_INET : AF_INET6,
                                     SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    return asked;
}

bool connects(const Asked& asked, const base::Endpoint& server) {
    const io::SocketAddress to(server);
    return ::connect(asked.fd.value(), to.data(), to.size()) == 0;
}

// Uses the tunnel's own address: capture rules may be missing, or be for others. Where IPv6 finds
// no route, that proves nothing.
Asked ask_through(const ResolverProbe& probe, const base::Endpoint& server) {
    Asked asked = open_socket(server);
    const base::IpAddress& own = server.address.is_v4() ? probe.ipv4 : probe.ipv6;
    const io::SocketAddress source(base::Endpoint{own, 0});
    asked.is_fit = asked.fd.is_open() &&
                   ::setsockopt(asked.fd.value(), SOL_SOCKET, SO_BINDTODEVICE, probe.device.data(),
                                static_cast<socklen_t>(probe.device.size())) == 0 &&
                   ::bind(asked.fd.value(), source.data(), source.size()) == 0 &&
                   connects(asked, server);
    return asked;
}

Asked ask_beside(const ResolverProbe& probe, const base::Endpoint& server) {
    Asked asked;
    if (probe.asks_beside) {
        asked = open_socket(server);
        uplinks::bind_beside(asked.fd.value(), server.address, probe.fwmark);
        asked.is_fit = asked.fd.is_open() &&
                       ::setsockopt(asked.fd.value(), SOL_SOCKET, SO_MARK, &probe.fwmark,
                                    sizeof probe.fwmark) == 0 &&
                       connects(asked, server);
    }
    return asked;
}

struct BothWays {
    Asked tunnel;
    Asked beside;

    bool is_decided(const ResolverProbe& probe, base::Duration elapsed) const {
        if (tunnel.answers || !tunnel.is_fit || elapsed >= kProbeTime) {
            return true;
        }
        if (!probe.asks_beside) {
            return tunnel.refuses;
        }
        if (beside.answers) {
            return tunnel.refuses;
        }
        return !beside.is_open() || beside.is_told || elapsed >= probe.beside_time;
    }
    // Silence proves something only if the question went out.
    ResolverWay way(const ResolverProbe& probe) const {
        if (tunnel.answers) {
            return ResolverWay::Tunnel;
        }
        const bool is_silent = tunnel.refuses || tunnel.was_sent;
        return is_silent && (beside.answers || !probe.asks_beside) ? ResolverWay::Beside
                                                                   : ResolverWay::Unknown;
    }
};

void wait_for_answers(std::vector<BothWays>& all, base::Duration time) {
    std::vector<pollfd> ready;
    std::vector<Asked*> waiting;
    for (BothWays& one : all) {
        for (Asked* asked : {&one.tunnel, &one.beside}) {
            if (asked->is_open()) {
                ready.push_back({asked->fd.value(), POLLIN, 0});
                waiting.push_back(asked);
            }
        }
    }
    const auto wait = std::chrono::ceil<std::chrono::milliseconds>(time).count();
    if (::poll(ready.data(), ready.size(), static_cast<int>(wait)) <= 0) {
        return;
    }
    for (size_t i = 0; i < ready.size(); ++i) {
        if (ready[i].revents != 0) {
            waiting[i]->receive();
        }
    }
}

}  // namespace

std::vector<ResolverWay> probe_resolvers(const ResolverProbe& probe) {
    std::vector<BothWays> all;
    for (const base::IpAddress& address : probe.servers) {
        const base::Endpoint server{address, probe.port};
        all.push_back({ask_through(probe, server), ask_beside(probe, server)});
    }
    const auto began = Clock::now();
    int sent = 0;
    for (;;) {
        const base::Duration elapsed = Clock::now() - began;
        if (sent < kQuestions && elapsed >= sent * kRepeat) {
            ++sent;
            for (BothWays& one : all) {
                one.tunnel.send();
                one.beside.send();
            }
        }
        if (std::all_of(all.begin(), all.end(),
                        [&](const BothWays& one) { return one.is_decided(probe, elapsed); })) {
            break;
        }
        const base::Duration next = sent < kQuestions ? sent * kRepeat : kProbeTime;
        const base::Duration until =
            elapsed < probe.beside_time ? std::min(next, probe.beside_time) : next;
        wait_for_answers(all, std::max(until - elapsed, base::Duration(base::milliseconds(1))));
    }
    std::vector<ResolverWay> ways;
    for (const BothWays& one : all) {
        ways.push_back(one.way(probe));
    }
    return ways;
}

}  // namespace continuo::cnapt::names
