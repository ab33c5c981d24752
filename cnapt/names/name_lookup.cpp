#include "cnapt/names/name_lookup.hpp"

#include "cnapt/names/dns_message.hpp"
#include "cnapt/names/resolv_conf.hpp"
#include "cnapt/settings/node_config.hpp"
#include "cnapt/uplinks/borrowed_addresses.hpp"
#include "cnapt/uplinks/nat64.hpp"
#include "common/host/library_lookup.hpp"
#include "common/host/system_random.hpp"
#include "common/io/file.hpp"
#include "common/io/socket_address.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>

#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::cnapt::names {

namespace {

constexpr int kRounds = 2;
constexpr size_t kMaxServers = 2 * settings::kMaxNameServers;
constexpr size_t kMaxHostsBytes = size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r";

using Clock = std::chrono::steady_clock;

std::string text_of(const std::string& path, size_t limit) {
    auto text = io::read_file(path, limit);
    return text ? std::move(*text) : std::string();
}

void add_new(const std::vector<base::IpAddress>& from, std::vector<base::IpAddress>& to) {
    for (const base::IpAddress& address : from) {
        if (std::find(to.begin(), to.end(), address) == to.end() && to.size() < kMaxServers) {
            to.push_back(address);
        }
    }
}

std::optional<std::vector<base::IpAddress>> receive_answer(int fd,
                                                           const std::vector<uint8_t>& query) {
    std::array<uint8_t, kMaxDnsAnswerBytes> buffer{};
    pollfd ready{fd, POLLIN, 0};
    const auto until = Clock::now() + kNameAnswerTime;  // a fixed limit, whatever else arrives
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
        if (left.count() <= 0 || ::poll(&ready, 1, static_cast<int>(left.count())) != 1) {
            return std::nullopt;
        }
        const ssize_t count = ::recv(fd, buffer.data(), buffer.size(), 0);
        if (count < 0) {
            return std::nullopt;  // ICMP reports that nobody is there
        }
        const auto answer =
            parse_dns_answer(base::ByteView(buffer).first(static_cast<size_t>(count)), query);
        if (answer) {
            return *answer;
        }
        if (answer.error().code != base::Errc::Malformed) {
            return std::nullopt;
        }
    }
}

// Nothing without an answer; an empty list if the name does not exist.
std::optional<std::vector<base::IpAddress>>
ask(const base::Endpoint& server, const std::vector<uint8_t>& query, uint32_t fwmark) {
    const int family = server.address.is_v4() ? AF_INET : AF_INET6;
    const io::UniqueFd fd(::socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const io::SocketAddress to(server);
    if (fwmark != 0) {
        uplinks::bind_beside(fd.value(), server.address, fwmark);
    }
    const bool is_sent = fd.is_open() &&
                         (fwmark == 0 || ::setsockopt(fd.value(), SOL_SOCKET, SO_MARK, &fwmark,
                                                      sizeof fwmark) == 0) &&
                         ::connect(fd.value(), to.data(), to.size()) == 0 &&
                         ::send(fd.value(), query.data(), query.size(), MSG_NOSIGNAL) > 0;
    return is_sent ? receive_answer(fd.value(), query) : std::nullopt;
}

// The first server that answers decides, as for the C library.
bool ask_servers(const std::string& name,
                 const LookupPlaces& places,
                 std::vector<base::IpAddress>& found) {
    host::SystemRandom random;
    const auto servers = servers_beside_tunnel(places);
    for (int round = 0; round < kRounds; ++round) {
        for (const base::IpAddress& server : servers) {
            bool has_answered = false;
            for (const base::IpVersion version : {base::IpVersion::V4, base::IpVersion::V6}) {
                const auto query =
                    make_dns_query(name, version, static_cast<uint16_t>(random.u64()));
                const auto answer =
                    query.empty() ? std::nullopt : ask({server, places.port}, query, places.fwmark);
                if (!answer && version == base::IpVersion::V4) {
                    break;
                }
                if (answer) {
                    has_answered = true;
                    found.insert(found.end(), answer->begin(), answer->end());
                }
            }
            if (has_answered) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace

std::vector<base::IpAddress> find_in_hosts(std::string_view text, std::string_view name) {
    std::vector<base::IpAddress> found;
    while (!text.empty()) {
        const size_t end = text.find('\n');
        std::string_view line = text.substr(0, end);
        text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
        line = line.substr(0, line.find('#'));
        std::optional<base::IpAddress> address;
        bool is_first = true;
        while (!line.empty()) {
            const size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
            line.remove_prefix(begin);
            const std::string_view word = line.substr(0, line.find_first_of(kBlanks));
            line.remove_prefix(word.size());
            if (is_first) {
                address = base::IpAddress::parse(word);
                is_first = false;
            } else if (address && word.size() == name.size() &&
                       ::strncasecmp(word.data(), name.data(), word.size()) == 0) {
                found.push_back(*address);
                break;
            }
        }
    }
    return found;
}

std::vector<base::IpAddress> servers_beside_tunnel(const LookupPlaces& places) {
    std::vector<base::IpAddress> servers;
    std::string text = text_of(places.resolv_conf, kMaxResolvConfBytes);
    if (is_resolv_conf_of_tunnel(text)) {
        add_new(places.original, servers);
    } else if (!is_stub_of_resolved(text)) {
        add_new(name_servers(text), servers);
    }
    const auto is_stub = [](const base::IpAddress& server) { return server.is_loopback(); };
    if (servers.empty() || std::all_of(servers.begin(), servers.end(), is_stub)) {
        // resolved's own servers; ours are among them while names go through the tunnel
        std::vector<base::IpAddress> links;
        for (const base::IpAddress& server :
             name_servers(text_of(places.resolved_conf, kMaxResolvConfBytes))) {
            const bool is_ours = std::find(places.servers.begin(), places.servers.end(), server) !=
                                 places.servers.end();
            if (!is_ours) {
                links.push_back(server);
            }
        }
        add_new(links, servers);
    }
    add_new(places.servers, servers);
    return servers;
}

// The usual name is reserved for such questions (RFC 2606).
bool answers_names(const base::Endpoint& server, uint32_t fwmark, const std::string& name) {
    const auto query = make_dns_query(name, base::IpVersion::V4,
                                      static_cast<uint16_t>(host::SystemRandom().u64()));
    return ask(server, query, fwmark).has_value();
}

std::optional<base::IpPrefix> find_nat64_prefix(const LookupPlaces& places) {
    std::vector<base::IpAddress> found;
    static_cast<void>(ask_servers(uplinks::kIpv4OnlyName, places, found));
    return uplinks::nat64_prefix(found);
}

std::vector<base::IpAddress> look_up(const std::string& name, const LookupPlaces& places) {
    std::vector<base::IpAddress> found = find_in_hosts(text_of(places.hosts, kMaxHostsBytes), name);
    if (found.empty() && (!ask_servers(name, places, found) || found.empty())) {
        return host::look_up_by_library(name);
    }
    return found;
}

}  // namespace continuo::cnapt::names
