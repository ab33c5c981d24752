// A cable with a delay between two devices of a namespace: frames of each come out of the other,
// later. Super-packets and unfinished checksums pass as they are (PACKET_VNET_HDR).
#include "common.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::bench {
namespace {

constexpr size_t kMaxFrame = 70'000;
constexpr size_t kMaxWaiting = 20'000;  // frames of one direction; beyond it they are dropped
constexpr size_t kBurst = 64;
constexpr int kSocketBuffer = 32 << 20;

struct Frame {
    uint64_t due_ns;
    std::vector<uint8_t> bytes;
};

struct Direction {
    int from = -1;
    int to = -1;
    std::deque<Frame> waiting;
};

int open_device(std::string_view name) {
    const int handle = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL));
    const unsigned index = if_nametoindex(std::string(name).c_str());
    if (handle < 0 || index == 0) {
        fail(name);
    }
    set_option(handle, SOL_PACKET, PACKET_VNET_HDR, 1);
    set_option(handle, SOL_PACKET, PACKET_IGNORE_OUTGOING, 1);
    set_option(handle, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer);
    set_option(handle, SOL_SOCKET, SO_SNDBUFFORCE, kSocketBuffer);
    sockaddr_ll device{};
    device.sll_family = AF_PACKET;
    device.sll_protocol = htons(ETH_P_ALL);
    device.sll_ifindex = static_cast<int>(index);
    packet_mreq promiscuous{};
    promiscuous.mr_ifindex = static_cast<int>(index);
    promiscuous.mr_type = PACKET_MR_PROMISC;
    if (bind(handle, reinterpret_cast<const sockaddr*>(&device), sizeof device) != 0 ||
        setsockopt(handle, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous) !=
            0) {
        fail(name);
    }
    return handle;
}

void take(Direction& direction, uint64_t delay_ns, std::vector<uint8_t>& room) {
    for (size_t i = 0; i < kBurst; ++i) {
        const ssize_t got = recv(direction.from, room.data(), room.size(), MSG_DONTWAIT);
        if (got <= 0) {
            return;
        }
        if (direction.waiting.size() < kMaxWaiting) {
            direction.waiting.push_back(
                {.due_ns = monotonic_ns() + delay_ns, .bytes = {room.begin(), room.begin() + got}});
        }
    }
}

void give(Direction& direction) {
    while (!direction.waiting.empty() && direction.waiting.front().due_ns <= monotonic_ns()) {
        const auto& bytes = direction.waiting.front().bytes;
        (void)send(direction.to, bytes.data(), bytes.size(), 0);  // a device that is down loses it
        direction.waiting.pop_front();
    }
}

}  // namespace

int run_delay(const Arguments& arguments) {
    const auto delay_ns = static_cast<uint64_t>(to_number(arguments.at(2)) * 1000);
    prctl(PR_SET_TIMERSLACK, 1UL);
    stop_on_signal();
    const int first = open_device(arguments.at(0));
    const int second = open_device(arguments.at(1));
    std::array<Direction, 2> directions{Direction{.from = first, .to = second, .waiting = {}},
                                        Direction{.from = second, .to = first, .waiting = {}}};
    std::vector<uint8_t> room(kMaxFrame);
    std::fprintf(stderr, "ready\n");
    while (!is_stopped()) {
        uint64_t next = monotonic_ns() + kNanosecondsPerSecond;
        for (Direction& direction : directions) {
            take(direction, delay_ns, room);
            give(direction);
            if (!direction.waiting.empty()) {
                next = std::min(next, direction.waiting.front().due_ns);
            }
        }
        const uint64_t now = monotonic_ns();
        const uint64_t left = next > now ? next - now : 0;
        const timespec wait{.tv_sec = static_cast<time_t>(left / kNanosecondsPerSecond),
                            .tv_nsec = static_cast<long>(left % kNanosecondsPerSecond)};
        std::array<pollfd, 2> readable{pollfd{.fd = first, .events = POLLIN, .revents = 0},
                                       pollfd{.fd = second, .events = POLLIN, .revents = 0}};
        ppoll(readable.data(), readable.size(), &wait, nullptr);
    }
    close(first);
    close(second);
    return 0;
}

}  // namespace continuo::bench
