#include "common.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <random>
#include <utility>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/time.h>

namespace continuo::bench {
namespace {

constexpr int kExitUsage = 64;
volatile std::sig_atomic_t g_stopped = 0;

uint64_t read_clock(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return static_cast<uint64_t>(now.tv_sec) * kNanosecondsPerSecond +
           static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace

void fail(std::string_view what) {
    std::fprintf(stderr, "bench_load: %s: %s\n", std::string(what).c_str(), std::strerror(errno));
    std::exit(1);
}

void fail_usage(std::string_view what) {
    std::fprintf(stderr, "bench_load: %s\n", std::string(what).c_str());
    std::exit(kExitUsage);
}

uint64_t monotonic_ns() {
    return read_clock(CLOCK_MONOTONIC);
}

uint64_t realtime_ns() {
    return read_clock(CLOCK_REALTIME);
}

void sleep_until(uint64_t monotonic) {
    const timespec until{.tv_sec = static_cast<time_t>(monotonic / kNanosecondsPerSecond),
                         .tv_nsec = static_cast<long>(monotonic % kNanosecondsPerSecond)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
}

double to_number(std::string_view text) {
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (copy.empty() || *end != '\0' || !(value >= 0)) {
        fail_usage("not a number: " + copy);
    }
    return value;
}

uint16_t to_port(std::string_view text) {
    const double value = to_number(text);
    if (value < 1 || value > UINT16_MAX) {
        fail_usage("not a port: " + std::string(text));
    }
    return static_cast<uint16_t>(value);
}

sockaddr_in to_address(std::string_view host, uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    if (inet_pton(AF_INET, std::string(host).c_str(), &address.sin_addr) != 1) {
        fail_usage("not an IPv4 address: " + std::string(host));
    }
    return address;
}

int open_socket(int type, int protocol) {
    const int handle = socket(AF_INET, type | SOCK_CLOEXEC, protocol);
    if (handle < 0) {
        fail("socket");
    }
    return handle;
}

void set_option(int handle, int level, int name, int value) {
    if (setsockopt(handle, level, name, &value, sizeof value) != 0) {
        fail("setsockopt");
    }
}

void set_timeout(int handle, uint64_t seconds) {
    const timeval wait{.tv_sec = static_cast<time_t>(seconds), .tv_usec = 0};
    for (const int name : {SO_RCVTIMEO, SO_SNDTIMEO}) {
        if (setsockopt(handle, SOL_SOCKET, name, &wait, sizeof wait) != 0) {
            fail("setsockopt");
        }
    }
}

void bind_any(int handle, uint16_t port) {
    set_option(handle, SOL_SOCKET, SO_REUSEADDR, 1);
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(port);
    if (bind(handle, reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
        fail("bind");
    }
}

std::vector<uint8_t> read_file(const std::string& path) {
    FILE* file = std::fopen(path.c_str(), "rb");
    if (file == nullptr) {
        fail(path);
    }
    std::vector<uint8_t> bytes;
    std::vector<uint8_t> room(size_t{64} << 10);
    for (size_t got = 0; (got = std::fread(room.data(), 1, room.size(), file)) > 0;) {
        bytes.insert(bytes.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(got));
    }
    std::fclose(file);
    if (bytes.empty()) {
        fail_usage("the file is empty");
    }
    return bytes;
}

const std::vector<uint8_t>& random_bytes() {
    static const std::vector<uint8_t> bytes = [] {
        std::vector<uint8_t> made(kRandomBytes);
        std::mt19937_64 generator(std::random_device{}());
        for (size_t i = 0; i + sizeof(uint64_t) <= made.size(); i += sizeof(uint64_t)) {
            const uint64_t word = generator();
            std::memcpy(made.data() + i, &word, sizeof word);
        }
        return made;
    }();
    return bytes;
}

void stop_on_signal() {
    struct sigaction action {};
    action.sa_handler = [](int) { g_stopped = 1; };  // no SA_RESTART: waits end
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
}

bool is_stopped() {
    return g_stopped != 0;
}

Arguments::Arguments(int count, char** words, size_t positional) {
    for (int i = 0; i < count; ++i) {
        const std::string_view word = words[i];
        if (!word.starts_with("--")) {
            positional_.push_back(word);
        } else if (i + 1 < count) {
            options_.emplace_back(word.substr(2), words[++i]);
        } else {
            fail_usage("no value for " + std::string(word));
        }
    }
    if (positional_.size() != positional) {
        fail_usage("wrong number of arguments");
    }
}

std::vector<std::string> Arguments::all(std::string_view name) const {
    std::vector<std::string> values;
    for (const auto& [key, value] : options_) {
        if (key == name) {
            values.emplace_back(value);
        }
    }
    return values;
}

std::string_view Arguments::get(std::string_view name, std::string_view otherwise) const {
    for (const auto& [key, value] : options_) {
        if (key == name) {
            return value;
        }
    }
    return otherwise;
}

}  // namespace continuo::bench
