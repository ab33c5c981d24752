#include "common.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>

namespace continuo::bench {
namespace {

constexpr size_t kBatch = 64;
constexpr size_t kMaxFlows = 64;
constexpr size_t kMaxPacket = 65507;
constexpr int kSocketBuffer = 8 << 20;
constexpr uint64_t kHelloWaitMs = 10'000;

// The fields of a packet that `count --log` reads; text payloads have no room for them.
struct Stamp {
    uint64_t sequence;
    uint64_t sent_ns;
};

// Hands out the payload of each packet: a text in order, or random bytes behind a Stamp.
class Payload {
  public:
    Payload(size_t bytes, const std::string& path) : bytes_(bytes), is_text_(!path.empty()) {
        if (is_text_) {
            text_ = read_file(path);
        }
    }

    // False when the text has ended.
    bool fill(uint64_t sequence, std::vector<uint8_t>& packet) {
        const auto& source = is_text_ ? text_ : random_bytes();
        if (at_ + bytes_ > source.size()) {
            if (is_text_) {
                return false;
            }
            at_ = 0;
        }
        packet.assign(source.begin() + static_cast<std::ptrdiff_t>(at_),
                      source.begin() + static_cast<std::ptrdiff_t>(at_ + bytes_));
        at_ += bytes_;
        if (!is_text_ && bytes_ >= sizeof(Stamp)) {
            const Stamp stamp{.sequence = sequence, .sent_ns = realtime_ns()};
            std::memcpy(packet.data(), &stamp, sizeof stamp);
        }
        return true;
    }

  private:
    size_t bytes_;
    bool is_text_;
    std::vector<uint8_t> text_;
    size_t at_ = 0;
};

struct Flow {
    int handle = -1;
    Payload payload;
};

void send_batch(int handle, std::vector<std::vector<uint8_t>>& packets, size_t count) {
    std::array<mmsghdr, kBatch> messages{};
    std::array<iovec, kBatch> parts{};
    for (size_t i = 0; i < count; ++i) {
        parts[i] = {.iov_base = packets[i].data(), .iov_len = packets[i].size()};
        messages[i].msg_hdr.msg_iov = &parts[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    for (size_t done = 0; done < count;) {
        const int sent =
            sendmmsg(handle, messages.data() + done, static_cast<unsigned>(count - done), 0);
        // An error costs one packet, as a drop on the way would (no route while the node moves, a
        // full queue).
        done += sent > 0 ? static_cast<size_t>(sent) : 1;
    }
}

// Waits for a datagram from the receiver, which opens the way through NAT, and sends to its source.
int wait_for_hello(uint16_t port) {
    const int handle = open_socket(SOCK_DGRAM, 0);
    bind_any(handle, port);
    set_timeout(handle, kHelloWaitMs / 1000);
    std::fprintf(stderr, "ready\n");
    sockaddr_in from{};
    socklen_t length = sizeof from;
    uint8_t byte = 0;
    if (recvfrom(handle, &byte, 1, 0, reinterpret_cast<sockaddr*>(&from), &length) < 0) {
        fail("no hello came");
    }
    if (connect(handle, reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
        fail("connect");
    }
    return handle;
}

std::vector<Flow> open_flows(const Arguments& arguments, size_t bytes) {
    auto files = arguments.all("file");
    const auto count = static_cast<size_t>(to_number(arguments.get("flows", "1")));
    if (count == 0 || count > kMaxFlows || (!files.empty() && files.size() != count)) {
        fail_usage("between 1 and 64 flows, with no file or one each");
    }
    files.resize(count);
    const auto hello = arguments.get("hello", "");
    const sockaddr_in to = to_address(arguments.at(0), to_port(arguments.at(1)));
    std::vector<Flow> flows;
    for (const std::string& file : files) {
        int handle = -1;
        if (hello.empty()) {
            handle = open_socket(SOCK_DGRAM, 0);
            if (connect(handle, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
                fail("connect");
            }
        } else {
            handle = wait_for_hello(to_port(hello));
        }
        flows.push_back({.handle = handle, .payload = Payload(bytes, file)});
    }
    return flows;
}

struct Counted {
    uint64_t packets = 0;
    uint64_t bytes = 0;
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
};

class Receiver {
  public:
    explicit Receiver(const std::string& log)
        : log_(log.empty() ? nullptr : fopen(log.c_str(), "w")) {
        if (log_ != nullptr) {
            setvbuf(log_, nullptr, _IOLBF, 0);  // it is read while it grows
        }
        for (size_t i = 0; i < kBatch; ++i) {
            parts_[i] = {.iov_base = buffers_[i].data(), .iov_len = buffers_[i].size()};
            messages_[i].msg_hdr.msg_iov = &parts_[i];
            messages_[i].msg_hdr.msg_iovlen = 1;
        }
    }
    Receiver(const Receiver&) = delete;
    Receiver& operator=(const Receiver&) = delete;
    ~Receiver() {
        if (log_ != nullptr) {
            fclose(log_);
        }
    }

    void drain(int handle) {
        for (;;) {
            const int got = recvmmsg(handle, messages_.data(), kBatch, MSG_DONTWAIT, nullptr);
            if (got <= 0) {
                return;
            }
            const uint64_t now = realtime_ns();
            counted_.first_ns = counted_.packets == 0 ? now : counted_.first_ns;
            counted_.last_ns = now;
            counted_.packets += static_cast<uint64_t>(got);
            for (size_t i = 0; i < static_cast<size_t>(got); ++i) {
                note(messages_[i].msg_len, buffers_[i], now);
            }
        }
    }
    [[nodiscard]] const Counted& counted() const { return counted_; }

  private:
    static constexpr size_t kPacketRoom = 2048;

    void note(size_t bytes, const std::array<uint8_t, kPacketRoom>& data, uint64_t now) {
        counted_.bytes += bytes;
        if (log_ != nullptr && bytes >= sizeof(Stamp)) {
            Stamp stamp{};
            std::memcpy(&stamp, data.data(), sizeof stamp);
            std::fprintf(log_, "%llu %llu %llu\n", static_cast<unsigned long long>(now),
                         static_cast<unsigned long long>(stamp.sequence),
                         static_cast<unsigned long long>(stamp.sent_ns));
        }
    }

    FILE* log_;
    Counted counted_;
    std::array<mmsghdr, kBatch> messages_{};
    std::array<iovec, kBatch> parts_{};
    std::array<std::array<uint8_t, kPacketRoom>, kBatch> buffers_{};
};

void say_hello(int handle, std::string_view target) {
    const size_t colon = target.find(':');
    if (colon == std::string_view::npos) {
        fail_usage("--hello wants ADDRESS:PORT");
    }
    const sockaddr_in to = to_address(target.substr(0, colon), to_port(target.substr(colon + 1)));
    if (sendto(handle, "h", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 1) {
        fail("hello");
    }
}

}  // namespace

int run_blast(const Arguments& arguments) {
    const auto bytes = static_cast<size_t>(to_number(arguments.at(2)));
    const double rate = to_number(arguments.at(3));
    const double seconds = to_number(arguments.at(4));
    if (bytes == 0 || bytes > kMaxPacket || rate <= 0) {
        fail_usage("a packet has between 1 and 65507 bytes, and a rate");
    }
    prctl(PR_SET_TIMERSLACK, 1UL);
    stop_on_signal();
    auto flows = open_flows(arguments, bytes);
    random_bytes();
    const auto total = static_cast<uint64_t>(rate * seconds);
    std::vector<std::vector<uint8_t>> packets(kBatch);
    uint64_t sent = 0;
    const uint64_t began = monotonic_ns();
    // The rate is that of each flow; flows take turns within each step.
    for (bool more = true; more && sent < total && !is_stopped();) {
        const auto elapsed = static_cast<double>(monotonic_ns() - began);
        if (elapsed > seconds * double{kNanosecondsPerSecond}) {
            break;
        }
        const auto due = static_cast<uint64_t>(elapsed * rate / double{kNanosecondsPerSecond}) + 1;
        const uint64_t step =
            std::min({due > sent ? due - sent : 0, total - sent, uint64_t{kBatch}});
        if (step == 0) {
            sleep_until(began + static_cast<uint64_t>(static_cast<double>(sent) *
                                                      double{kNanosecondsPerSecond} / rate));
            continue;
        }
        uint64_t longest = 0;
        for (Flow& flow : flows) {
            uint64_t filled = 0;
            while (filled < step && flow.payload.fill(sent + filled, packets[filled])) {
                ++filled;
            }
            send_batch(flow.handle, packets, filled);
            longest = std::max(longest, filled);
            more = more && filled == step;
        }
        sent += longest;
    }
    const double took = static_cast<double>(monotonic_ns() - began) / double{kNanosecondsPerSecond};
    std::printf("{\"sent\": %llu, \"flows\": %zu, \"seconds\": %.6f}\n",
                static_cast<unsigned long long>(sent), flows.size(), took);
    return 0;
}

int run_count(const Arguments& arguments) {
    const int handle = open_socket(SOCK_DGRAM, 0);
    bind_any(handle, to_port(arguments.at(0)));
    set_option(handle, SOL_SOCKET, SO_RCVBUFFORCE, kSocketBuffer);
    const auto idle_ms = static_cast<int>(to_number(arguments.get("idle-ms", "400")));
    const auto wait_ms = static_cast<int>(to_number(arguments.get("wait-ms", "5000")));
    stop_on_signal();
    Receiver receiver{std::string(arguments.get("log", ""))};
    if (const auto target = arguments.get("hello", ""); !target.empty()) {
        say_hello(handle, target);
    }
    std::fprintf(stderr, "ready\n");
    pollfd readable{.fd = handle, .events = POLLIN, .revents = 0};
    while (!is_stopped()) {
        const int ready = poll(&readable, 1, receiver.counted().packets == 0 ? wait_ms : idle_ms);
        if (ready == 0) {
            break;
        }
        receiver.drain(handle);
    }
    const Counted& counted = receiver.counted();
    std::printf("{\"received\": %llu, \"bytes\": %llu, \"seconds\": %.6f}\n",
                static_cast<unsigned long long>(counted.packets),
                static_cast<unsigned long long>(counted.bytes),
                static_cast<double>(counted.last_ns - counted.first_ns) /
                    double{kNanosecondsPerSecond});
    return 0;
}

}  // namespace continuo::bench
