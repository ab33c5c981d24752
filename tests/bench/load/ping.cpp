#include "common.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>

#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <sys/socket.h>

namespace continuo::bench {
namespace {

constexpr size_t kPayload = 56;  // as ping's
constexpr uint64_t kLingerNs = 2 * kNanosecondsPerSecond;
// A flood: the next at once when the newest is answered, but so many a second (ping(8), -f).
constexpr double kFloodFewestPerSecond = 100;
constexpr size_t kFloodMost = 4'000'000;

struct Probe {
    uint64_t sent_ns = 0;
    uint64_t answered_ns = 0;  // 0: lost
};

// The kernel fills in identifier and checksum of an ICMP datagram socket.
void send_probe(int handle, const sockaddr_in& to, size_t number) {
    std::array<uint8_t, sizeof(icmphdr) + kPayload> packet{};
    icmphdr header{};
    header.type = ICMP_ECHO;
    header.un.echo.sequence = htons(static_cast<uint16_t>(number));
    std::memcpy(packet.data(), &header, sizeof header);
    const uint64_t whole = number;
    std::memcpy(packet.data() + sizeof header, &whole, sizeof whole);
    // No route while the node moves: a lost packet.
    (void)sendto(handle, packet.data(), packet.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                 sizeof to);
}

void take_answers(int handle, std::vector<Probe>& probes) {
    std::array<uint8_t, 2048> packet{};
    for (;;) {
        const ssize_t got = recv(handle, packet.data(), packet.size(), MSG_DONTWAIT);
        if (got <= 0) {
            return;
        }
        uint64_t number = 0;
        if (static_cast<size_t>(got) < sizeof(icmphdr) + sizeof number) {
            continue;
        }
        std::memcpy(&number, packet.data() + sizeof(icmphdr), sizeof number);
        if (number < probes.size() && probes[number].answered_ns == 0) {
            probes[number].answered_ns = realtime_ns();
        }
    }
}

}  // namespace

int run_ping(const Arguments& arguments) {
    const sockaddr_in to = to_address(arguments.at(0), 1);
    const bool is_flood = arguments.at(1) == "flood";
    const double rate = is_flood ? kFloodFewestPerSecond : to_number(arguments.at(1));
    const auto interval = static_cast<uint64_t>(double{kNanosecondsPerSecond} / rate);
    const auto duration =
        static_cast<uint64_t>(double{kNanosecondsPerSecond} * to_number(arguments.at(2)));
    const int handle = open_socket(SOCK_DGRAM, IPPROTO_ICMP);
    stop_on_signal();
    std::vector<Probe> probes;
    probes.reserve(is_flood ? kFloodMost : duration / interval);
    const uint64_t began = monotonic_ns();
    const uint64_t end = began + duration + kLingerNs;
    uint64_t due = began;
    std::fprintf(stderr, "ready\n");
    while (!is_stopped() && monotonic_ns() < end) {
        const uint64_t now = monotonic_ns();
        const bool is_over = now >= began + duration || probes.size() == probes.capacity();
        const bool is_answered = is_flood && !probes.empty() && probes.back().answered_ns != 0;
        if (!is_over && (now >= due || is_answered)) {
            probes.push_back({.sent_ns = realtime_ns(), .answered_ns = 0});
            send_probe(handle, to, probes.size() - 1);
            due = is_flood ? now + interval : began + probes.size() * interval;
            continue;
        }
        const uint64_t left = std::max(is_over ? end : due, now) - now;
        const timespec wait{.tv_sec = static_cast<time_t>(left / kNanosecondsPerSecond),
                            .tv_nsec = static_cast<long>(left % kNanosecondsPerSecond)};
        pollfd readable{.fd = handle, .events = POLLIN, .revents = 0};
        ppoll(&readable, 1, &wait, nullptr);
        take_answers(handle, probes);
    }
    FILE* log = std::fopen(std::string(arguments.at(3)).c_str(), "w");
    if (log == nullptr) {
        fail("log");
    }
    size_t lost = 0;
    for (size_t i = 0; i < probes.size(); ++i) {
        if (probes[i].answered_ns == 0) {
            ++lost;
        }
        std::fprintf(log, "%llu %zu %llu\n", static_cast<unsigned long long>(probes[i].answered_ns),
                     i, static_cast<unsigned long long>(probes[i].sent_ns));
    }
    std::fclose(log);
    std::printf("{\"sent\": %zu, \"lost\": %zu}\n", probes.size(), lost);
    return 0;
}

}  // namespace continuo::bench
