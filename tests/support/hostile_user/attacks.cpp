#include "tests/support/hostile_user/attacks.hpp"

#include "common/wire/tunnel_header.hpp"
#include "tests/support/hostile_user/bodies.hpp"

#include <algorithm>
#include <cstdio>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace continuo::tests {

namespace {

using base::TrafficClass;

constexpr base::Duration kLoginPatience = base::seconds(10);
constexpr size_t kBulkPayload = 1150;
constexpr uint16_t kPort = 9;
constexpr uint16_t kFirstSourcePort = 20000;

std::unique_ptr<HostileLink> log_in(const Account& account, const std::string& node) {
    auto link = HostileLink::open(account, node, kLoginPatience);
    if (!link || link->state() != HostileLink::State::Open) {
        std::fprintf(stderr, "%s: not let in\n", node.c_str());
        return nullptr;
    }
    return link;
}

// Datagrams over UDP: `fill` makes one a round.
template <typename Fill>
Offered send_datagrams(const Account& account, HostileLink& link, Pace pace, Fill fill) {
    Forge forge(account, link);
    for (uint64_t round = 0; pace.next(); ++round) {
        fill(forge, round);
        if (round % 1024 == 0) {
            link.step();
        }
    }
    forge.flush();
    return forge.offered();
}

void add_entries(Forge& forge, uint64_t /*round*/) {
    Body body;
    body.open(0, kFirstSourcePort, kPort, 0);
    while (body.packets() < Body::kMaxEntries) {
        body.repeat(0, 0);
    }
    forge.add(TrafficClass::LtLd, body);
}

void add_small_packet(Forge& forge, uint64_t /*round*/) {
    Body body;
    body.open(0, kFirstSourcePort, kPort, 1);
    forge.add(TrafficClass::LtLd, body);
}

void add_bulk(Forge& forge, uint64_t /*round*/) {
    Body body;
    body.open(0, kFirstSourcePort, kPort, kBulkPayload);
    forge.add(TrafficClass::HtHd, body);
}

// Each flow has one packet and is followed by another one with its index.
void add_short_flows(Forge& forge, uint64_t round) {
    constexpr uint32_t kIndexes = 1024;
    constexpr uint64_t kFlows = 32;
    Body body;
    for (uint64_t i = 0; i < kFlows; ++i) {
        const uint64_t flow = round * kFlows + i;
        body.open(static_cast<uint32_t>(flow % kIndexes),
                  static_cast<uint16_t>(1024 + flow % 60000),
                  static_cast<uint16_t>(kPort + flow / 60000 % 50), 1);
    }
    forge.add(TrafficClass::LtHd, body);
}

// The same flows, in another class each time.
void add_class_flips(Forge& forge, uint64_t round) {
    constexpr uint32_t kFlows = 32;
    Body body;
    for (uint32_t i = 0; i < kFlows; ++i) {
        body.open(i, static_cast<uint16_t>(kFirstSourcePort + i), kPort, 1, true);
    }
    forge.add(base::kAllTrafficClasses[round % base::kTrafficClasses], body);
}

void add_any(Forge& forge, uint64_t round) {
    constexpr std::array kAll = {add_entries, add_small_packet, add_short_flows, add_class_flips,
                                 add_bulk};
    kAll[round % kAll.size()](forge, round / kAll.size());
}

// Messages over the control link: `send` makes one a round, false while there is no room.
template <typename Send>
Offered send_messages(const Account& account, const std::string& node, Pace pace, Send send) {
    Offered offered;
    std::unique_ptr<HostileLink> link;
    while (pace.next()) {
        if (!link || !link->step()) {
            ++offered.logins;
            link = HostileLink::open(account, node, kLoginPatience);
            if (!link || link->state() != HostileLink::State::Open) {
                ++offered.refused;
                link.reset();
                continue;
            }
        }
        if (link->has_unsent() || !send(*link, offered)) {
            link->wait_and_step(base::milliseconds(1));
        } else {
            ++offered.messages;
        }
    }
    return offered;
}

control::Apps many_apps(uint64_t round) {
    control::Apps apps;
    for (uint32_t tag = 0; tag < control::kMaxApps; ++tag) {
        apps.apps.push_back({tag + 1, "application-" + std::to_string(round + tag)});
        apps.modes.push_back(
            {tag + 1, round % 2 == 0 ? base::PathMode::Redundant : base::PathMode::Handover});
    }
    return apps;
}

Offered send_apps(const Account& account, const std::string& node, Pace pace) {
    return send_messages(account, node, pace, [](HostileLink& link, Offered& offered) {
        constexpr size_t kAbout = 40000;
        const bool is_sent = link.control().send_apps(many_apps(offered.messages)).has_value();
        offered.bytes += is_sent ? kAbout : 0U;
        return is_sent;
    });
}

Offered send_questions(const Account& account, const std::string& node, Pace pace) {
    return send_messages(account, node, pace, [](HostileLink& link, Offered& offered) {
        const auto number = static_cast<uint32_t>(offered.messages);
        if (offered.messages % 2 == 0) {
            return link.control()
                .query_usage(number, R"({"command":"usage","by":["day","app","class"]})")
                .has_value();
        }
        return link.control().query_session(clock_now() + base::seconds(60)).has_value();
    });
}

Offered send_tcp_data(const Account& account, HostileLink& link, Pace pace) {
    Offered offered;
    Forge forge(account, link);
    Body body;
    body.open(0, kFirstSourcePort, kPort, kBulkPayload);
    while (pace.next() && link.step()) {
        while (!link.has_unsent() &&
               link.control().pending_bytes() < control::kMaxPendingOutputBytes / 2) {
            const base::ByteView datagram = forge.seal_for_tcp(TrafficClass::HtHd, body);
            if (!link.control().send_datagram(datagram)) {
                break;
            }
            ++offered.datagrams;
            offered.packets += body.packets();
            offered.bytes += datagram.size();
        }
        link.wait_and_step(base::milliseconds(1));
    }
    return offered;
}

// This many logins at once, each restarted when it has ended. Those that succeed stay for `keeps`.
Offered log_in_again_and_again(
    const Account& account, const std::string& node, Pace pace, size_t nodes, bool keeps) {
    constexpr size_t kAtOnce = 8;
    constexpr size_t kMost = 900;  // descriptors
    Offered offered;
    std::vector<std::unique_ptr<HostileLink>> opening;
    std::vector<std::unique_ptr<HostileLink>> open;
    while (pace.next()) {
        while (opening.size() < kAtOnce && open.size() < kMost) {
            auto link =
                HostileLink::connect(account, node + std::to_string(offered.logins % nodes));
            ++offered.logins;
            if (!link) {
                ++offered.refused;
                break;
            }
            opening.push_back(std::move(link));
        }
        std::vector<pollfd> entries;
        for (const auto& link : opening) {
            entries.push_back({link->fd(), POLLIN | POLLOUT, 0});
        }
        static_cast<void>(::poll(entries.data(), entries.size(), 1));
        for (auto& link : opening) {
            link->step();
            if (link->state() == HostileLink::State::Open) {
                if (keeps) {
                    open.push_back(std::move(link));
                } else {
                    link->control().close(control::CloseReason::Disconnected, {});
                    link->step();
                    link.reset();
                }
            } else if (link->state() != HostileLink::State::Opening) {
                ++offered.refused;
                link.reset();
            } else if (clock_now() - link->began() > kLoginPatience) {
                ++offered.refused;
                link.reset();
            }
        }
        std::erase(opening, nullptr);
        std::erase_if(open, [](const auto& link) { return !link->step(); });
        offered.links = std::max<uint64_t>(offered.links, open.size());
    }
    return offered;
}

Offered send_hellos(const Account& account, const std::string& node, Pace pace) {
    return log_in_again_and_again(account, node, pace, 1000, false);
}

Offered open_links(const Account& account, const std::string& node, Pace pace) {
    return log_in_again_and_again(account, node, pace, 4, true);
}

// No node may have such a name: each is refused, with a line of the log that is as long as it can
// be.
Offered send_refused_names(const Account& account, const std::string& node, Pace pace) {
    constexpr size_t kMostDigits = 4;
    const size_t most = control::kMaxNameBytes - kMostDigits;
    return log_in_again_and_again(account, (node + std::string(most, '"')).substr(0, most), pace,
                                  1000, false);
}

Offered send_expansions(const Account& account, const std::string& node, Pace pace) {
    const auto link = log_in(account, node);
    if (!link) {
        return {};
    }
    const Body body = expanding_body();
    return send_datagrams(account, *link, pace, [&](Forge& forge, uint64_t /*round*/) {
        forge.add(TrafficClass::HtHd, body);
    });
}

void add_frames(Forge& forge, uint64_t round) {
    forge.add(TrafficClass::LtLd, frames_body(static_cast<uint32_t>(round)));
}

// A download that is never acknowledged, and then the bodies from `fill` in each round.
template <typename Fill>
Offered after_a_download(const Account& account, const std::string& node, Pace pace, Fill fill) {
    constexpr uint32_t kDatagrams = 3500;
    const auto link = log_in(account, node);
    if (!link) {
        return {};
    }
    Forge forge(account, *link);
    const auto come = [&forge] { return forge.highest(TrafficClass::HtHd).value_or(0); };
    const base::TimePoint until = clock_now() + kLoginPatience;
    for (size_t i = 0; come() < kDatagrams && clock_now() < until; ++i) {
        forge.send_on(0, TrafficClass::HtHd, echo_request(i));
        if (i % 16 == 0) {
            std::this_thread::sleep_for(base::milliseconds(1));
            forge.answer();
        }
    }
    pace.begin_now();
    for (uint64_t round = 0; pace.next(); ++round) {
        fill(forge, *link, round);
        if (round % 64 == 0) {
            forge.answer();
        }
        if (round % 1024 == 0) {
            link->step();
        }
    }
    forge.flush();
    Offered offered = forge.offered();
    offered.numbers = come();
    return offered;
}

// Sealed, by the control link; waits for room there.
void send_by_tcp(Forge& forge, HostileLink& link, const Body& body) {
    while (link.step() && (link.has_unsent() ||
                           link.control().pending_bytes() >= control::kMaxPendingOutputBytes / 2)) {
        link.wait_and_step(base::milliseconds(1));
    }
    const base::ByteView datagram = forge.seal_for_tcp(TrafficClass::LtLd, body);
    forge.count_tcp(link.control().send_datagram(datagram).has_value());
}

template <bool kByTcp>
Offered send_acks(const Account& account, const std::string& node, Pace pace) {
    return after_a_download(account, node, pace, [](Forge& forge, HostileLink& link, uint64_t) {
        const Body body = ack_body(forge.highest(TrafficClass::HtHd).value_or(0));
        if constexpr (kByTcp) {
            send_by_tcp(forge, link, body);
        } else {
            forge.add(TrafficClass::LtLd, body);
        }
    });
}

// `kByTcp`: each second one goes to the path over TCP.
template <bool kByTcp>
Offered send_moves(const Account& account, const std::string& node, Pace pace) {
    return after_a_download(
        account, node, pace, [](Forge& forge, HostileLink& link, uint64_t round) {
            const bool is_second = round % 2 == 1;
            const auto number = static_cast<uint16_t>(round);
            if (kByTcp && is_second) {
                send_by_tcp(forge, link, {announcement(wire::kTcpPath, number), 0});
            } else {
                const uint8_t path = kByTcp || is_second ? 0 : 1;
                forge.send_on(path, TrafficClass::LtLd, announcement(path, number));
            }
            forge.answer();
        });
}

// One session after the other, each with flows of its own, and closed.
Offered begin_sessions(const Account& account, const std::string& node, Pace pace) {
    constexpr uint64_t kNodes = 8;
    constexpr uint64_t kDatagrams = 64;
    Offered offered;
    for (uint64_t round = 0; pace.next(); ++round) {
        ++offered.logins;
        const auto link = log_in(account, node + std::to_string(round % kNodes));
        if (!link) {
            ++offered.refused;
            continue;
        }
        Forge forge(account, *link);
        for (uint64_t i = 0; i < kDatagrams; ++i) {
            add_short_flows(forge, round * kDatagrams + i);
        }
        forge.flush();
        std::this_thread::sleep_for(base::milliseconds(100));  // until they are read
        link->control().close(control::CloseReason::Disconnected, {});
        link->step();
        offered += forge.offered();
    }
    return offered;
}

template <void (*kAdd)(Forge&, uint64_t)>
Offered datagrams_of(const Account& account, const std::string& node, Pace pace) {
    const auto link = log_in(account, node);
    return link ? send_datagrams(account, *link, pace, kAdd) : Offered{};
}

Offered tcp_data(const Account& account, const std::string& node, Pace pace) {
    const auto link = log_in(account, node);
    return link ? send_tcp_data(account, *link, pace) : Offered{};
}

// Attacks that need a session get it before the others use up the rest.
Offered do_all(const Account& account, const std::string& node, Pace pace) {
    const auto udp = log_in(account, node + "-udp");
    const auto tcp = log_in(account, node + "-tcp");
    if (!udp || !tcp) {
        return {};
    }
    const std::vector<std::function<Offered()>> at_once = {
        [&] { return send_datagrams(account, *udp, pace, add_any); },
        [&] { return send_tcp_data(account, *tcp, pace); },
        [&] { return send_apps(account, node + "-apps", pace); },
        [&] { return send_questions(account, node + "-questions", pace); },
        [&] { return send_hellos(account, node + "-hello", pace); },
        [&] { return open_links(account, node + "-link", pace); },
    };
    std::vector<Offered> offered(at_once.size());
    std::vector<std::thread> threads;
    threads.reserve(at_once.size());
    for (size_t i = 0; i < at_once.size(); ++i) {
        threads.emplace_back([&, i] { offered[i] = at_once[i](); });
    }
    Offered sum;
    for (size_t i = 0; i < threads.size(); ++i) {
        threads[i].join();
        sum += offered[i];
    }
    return sum;
}

}  // namespace

void Pace::begin_now() {
    if (std::FILE* file = ready_.empty() ? nullptr : std::fopen(ready_.c_str(), "w")) {
        static_cast<void>(std::fclose(file));
        std::this_thread::sleep_for(base::milliseconds(300));
    }
    const base::TimePoint now = clock_now();
    until_ += now - began_;
    began_ = now;
}

bool Pace::next() {
    const base::TimePoint now = clock_now();
    if (now >= until_) {
        return false;
    }
    if (rate_ > 0) {
        const auto due =
            began_ + std::chrono::duration_cast<base::Duration>(
                         std::chrono::duration<double>(static_cast<double>(rounds_) / rate_));
        if (due > now) {
            std::this_thread::sleep_until(std::min(due, until_));
        }
    }
    ++rounds_;
    return true;
}

const std::vector<Attack>& attacks() {
    static const std::vector<Attack> list = {
        {"entries", "datagrams of 1024 entries of one byte", datagrams_of<add_entries>},
        {"packets", "datagrams of one packet of one byte", datagrams_of<add_small_packet>},
        {"flows", "32 new flows a datagram", datagrams_of<add_short_flows>},
        {"flips", "32 flows, in another class each time", datagrams_of<add_class_flips>},
        {"bulk", "UDP data in bulk", datagrams_of<add_bulk>},
        {"datagrams", "these five in turn", datagrams_of<add_any>},
        {"expansions", "datagrams of three sections that become 135 packets", send_expansions},
        {"acks", "ACKs of 500 ranges, of what is not acknowledged", send_acks<false>},
        {"moves", "announcements, of two paths in turn", send_moves<false>},
        {"tcp-acks", "such ACKs by the control link", send_acks<true>},
        {"tcp-moves", "announcements, of UDP and TCP in turn", send_moves<true>},
        {"frames", "as many frames as a body may have, of each type in turn",
         datagrams_of<add_frames>},
        {"tcp", "TCP data in bulk", tcp_data},
        {"apps", "APPS with 1024 names and modes", send_apps},
        {"questions", "questions about usage and session", send_questions},
        {"hellos", "logins, each as another node, and out again", send_hellos},
        {"links", "logins, and none is closed", open_links},
        {"sessions", "sessions of 2048 flows each, one after the other", begin_sessions},
        {"refusals", "logins that are refused and fill the log", send_refused_names},
        {"all", "all at once", do_all},
    };
    return list;
}

Offered forge_sessions(const base::Endpoint& to, uint16_t session, Pace pace) {
    constexpr size_t kBatch = 32;
    constexpr size_t kBytes = 90;
    const io::UniqueFd fd = udp_socket(to);
    host::SystemRandom random;
    std::array<std::array<uint8_t, kBytes>, kBatch> datagrams{};
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    for (size_t i = 0; i < kBatch; ++i) {
        random.fill(datagrams[i]);
        wire::TunnelHeader header;
        header.epoch = 1;  // of a session that is younger than an hour
        header.traffic_class = base::kAllTrafficClasses[i % base::kTrafficClasses];
        header.long_sequence = true;
        base::ByteWriter writer(datagrams[i]);
        header.serialize(writer);
        parts[i] = {datagrams[i].data(), kBytes};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    Offered offered;
    uint32_t number = 0;
    while (pace.next()) {
        for (auto& datagram : datagrams) {
            const auto id = session != 0 ? session : static_cast<uint16_t>(number);
            base::store_big_endian(&datagram[2], id);
            base::store_big_endian(&datagram[4], ++number);
        }
        const int sent = ::sendmmsg(fd.value(), messages.data(), kBatch, 0);
        offered.datagrams += static_cast<uint64_t>(std::max(sent, 0));
        offered.bytes += static_cast<uint64_t>(std::max(sent, 0)) * kBytes;
    }
    return offered;
}

}  // namespace continuo::tests
