#include "common.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::bench {
namespace {

constexpr uint64_t kTimeoutS = 20;
constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kMaxExchange = size_t{16} << 20;

// Both ends run on one machine: host byte order.
struct Request {
    enum class Mode : uint64_t { Up, Down, Echo };
    Mode mode = Mode::Up;
    uint64_t bytes = 0;  // of an exchange
};

struct Transfer {
    uint64_t bytes = 0;
    uint64_t first_ns = 0;
    uint64_t last_ns = 0;
};

bool send_all(int handle, const uint8_t* data, size_t size) {
    while (size > 0) {
        const ssize_t sent = send(handle, data, size, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        data += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

bool receive_all(int handle, uint8_t* data, size_t size) {
    while (size > 0) {
        const ssize_t got = recv(handle, data, size, 0);
        if (got <= 0) {
            return false;
        }
        data += got;
        size -= static_cast<size_t>(got);
    }
    return true;
}

template <typename Plain>
bool send_value(int handle, const Plain& value) {
    return send_all(handle, reinterpret_cast<const uint8_t*>(&value), sizeof value);
}

template <typename Plain>
bool receive_value(int handle, Plain& value) {
    return receive_all(handle, reinterpret_cast<uint8_t*>(&value), sizeof value);
}

// Payload to send: the file of --file, over and over, or random bytes.
std::vector<uint8_t> source_of(const Arguments& arguments) {
    const std::string name(arguments.get("file", ""));
    return name.empty() ? random_bytes() : read_file(name);
}

// Bytes of `source` until `deadline` (monotonic) or until the peer has gone.
void give(int handle, const std::vector<uint8_t>& source, uint64_t deadline) {
    size_t at = 0;
    while (monotonic_ns() < deadline) {
        const size_t bytes = std::min(kChunk, source.size() - at);
        if (!send_all(handle, source.data() + at, bytes)) {
            return;
        }
        at = (at + bytes) % source.size();
    }
}

// Reads until the peer ends, `deadline` or a signal. The first read, or the one that completes the
// first `skipped` bytes, is not counted; the deadline is extended accordingly. `log`, unless null,
// gets a line "UNIX_NS BYTES 0" for each read.
Transfer take(int handle, uint64_t deadline, uint64_t skipped, FILE* log) {
    const uint64_t began = monotonic_ns();
    std::vector<uint8_t> buffer(kChunk);
    Transfer result;
    while ((result.first_ns == 0 || result.last_ns < deadline) && !is_stopped()) {
        const ssize_t got = recv(handle, buffer.data(), buffer.size(), 0);
        if (got <= 0) {
            break;
        }
        result.last_ns = monotonic_ns();
        if (log != nullptr) {
            std::fprintf(log, "%llu %zd 0\n", static_cast<unsigned long long>(realtime_ns()), got);
        }
        if (result.first_ns == 0 && static_cast<uint64_t>(got) < skipped) {
            skipped -= static_cast<uint64_t>(got);
        } else if (result.first_ns == 0) {
            result.first_ns = result.last_ns;
            deadline += deadline == UINT64_MAX ? 0 : result.first_ns - began;
        } else {
            result.bytes += static_cast<uint64_t>(got);
        }
    }
    return result;
}

void echo(int handle, size_t bytes) {
    std::vector<uint8_t> buffer(bytes);
    while (receive_all(handle, buffer.data(), bytes) && send_all(handle, buffer.data(), bytes)) {
    }
}

// "--congestion NAME" (tcp(7)); without it the namespace's.
void use_congestion_control(int handle, const Arguments& arguments) {
    const std::string name(arguments.get("congestion", ""));
    if (!name.empty() && setsockopt(handle, IPPROTO_TCP, TCP_CONGESTION, name.c_str(),
                                    static_cast<socklen_t>(name.size())) != 0) {
        fail("congestion control " + name);
    }
}

// "--protocol mptcp" (RFC 8684); without it TCP.
int protocol_of(const Arguments& arguments) {
    const std::string name(arguments.get("protocol", "tcp"));
    if (name != "tcp" && name != "mptcp") {
        fail_usage("the protocol is tcp or mptcp");
    }
    return name == "tcp" ? IPPROTO_TCP : IPPROTO_MPTCP;
}

void serve_connection(int handle, const std::vector<uint8_t>& source) {
    set_timeout(handle, kTimeoutS);
    set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
    Request request;
    if (receive_value(handle, request) && request.bytes <= kMaxExchange) {
        switch (request.mode) {
        case Request::Mode::Up:
            send_value(handle, take(handle, UINT64_MAX, 0, nullptr));
            break;
        case Request::Mode::Down:
            give(handle, source, UINT64_MAX);
            break;
        case Request::Mode::Echo:
            echo(handle, request.bytes);
            break;
        }
    }
    close(handle);
}

int connect_to(const Arguments& arguments, const Request& request) {
    const int handle = open_socket(SOCK_STREAM, protocol_of(arguments));
    const sockaddr_in to = to_address(arguments.at(0), to_port(arguments.at(1)));
    set_timeout(handle, kTimeoutS);
    set_option(handle, IPPROTO_TCP, TCP_NODELAY, 1);
    use_congestion_control(handle, arguments);
    if (connect(handle, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
        fail("connect");
    }
    if (!send_value(handle, request)) {
        fail("send");
    }
    return handle;
}

Transfer transfer(const Arguments& arguments, bool up, uint64_t duration_ns, FILE* log) {
    const int handle =
        connect_to(arguments, {.mode = up ? Request::Mode::Up : Request::Mode::Down, .bytes = 0});
    const uint64_t deadline = monotonic_ns() + duration_ns;
    Transfer result;
    if (up) {
        give(handle, source_of(arguments), deadline);
        shutdown(handle, SHUT_WR);
        if (!receive_value(handle, result)) {
            fail("the receiver did not answer");
        }
    } else {
        const auto skipped = static_cast<uint64_t>(to_number(arguments.get("skip", "0")));
        result = take(handle, deadline, skipped, log);
    }
    close(handle);
    return result;
}

}  // namespace

int serve_tcp(const Arguments& arguments) {
    const int listener = open_socket(SOCK_STREAM, protocol_of(arguments));
    bind_any(listener, to_port(arguments.at(0)));
    use_congestion_control(listener, arguments);  // connections inherit it
    if (listen(listener, SOMAXCONN) != 0) {
        fail("listen");
    }
    const std::vector<uint8_t> source = source_of(arguments);
    std::fprintf(stderr, "ready\n");
    for (;;) {
        const int handle = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (handle >= 0) {
            std::thread(serve_connection, handle, std::cref(source)).detach();
        }
    }
}

int run_tcp(const Arguments& arguments) {
    const bool up = arguments.at(2) == "up";
    const auto streams = static_cast<size_t>(to_number(arguments.at(3)));
    const auto duration =
        static_cast<uint64_t>(to_number(arguments.at(4)) * double{kNanosecondsPerSecond});
    FILE* log = nullptr;
    if (const auto path = arguments.get("log", ""); !path.empty()) {
        log = std::fopen(std::string(path).c_str(), "w");
        if (log == nullptr) {
            fail(path);
        }
        setvbuf(log, nullptr, _IOLBF, 0);  // it is read while it grows
    }
    random_bytes();
    stop_on_signal();
    std::vector<Transfer> results(streams);
    std::vector<std::thread> threads;
    threads.reserve(streams);
    for (Transfer& result : results) {
        threads.emplace_back([&] { result = transfer(arguments, up, duration, log); });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    Transfer all{.bytes = 0, .first_ns = UINT64_MAX, .last_ns = 0};
    for (const Transfer& result : results) {
        all.bytes += result.bytes;
        all.first_ns = std::min(all.first_ns, result.first_ns);
        all.last_ns = std::max(all.last_ns, result.last_ns);
    }
    const double seconds =
        static_cast<double>(all.last_ns - all.first_ns) / double{kNanosecondsPerSecond};
    std::printf("{\"bytes\": %llu, \"seconds\": %.6f, \"bits_per_s\": %.0f}\n",
                static_cast<unsigned long long>(all.bytes), seconds,
                seconds > 0 ? static_cast<double>(all.bytes) * 8 / seconds : 0.0);
    return 0;
}

int run_ask(const Arguments& arguments) {
    const auto bytes = static_cast<size_t>(to_number(arguments.at(2)));
    const auto duration =
        static_cast<uint64_t>(to_number(arguments.at(3)) * double{kNanosecondsPerSecond});
    if (bytes == 0 || bytes > kMaxExchange || bytes > kRandomBytes) {
        fail_usage("an exchange has between 1 byte and 4 MiB");
    }
    const int handle = connect_to(arguments, {.mode = Request::Mode::Echo, .bytes = bytes});
    std::vector<uint8_t> answer(bytes);
    std::vector<uint64_t> times;
    const uint64_t began = monotonic_ns();
    size_t offset = 0;  // always other bytes: a repetition would compress
    for (uint64_t at = began; at - began < duration;) {
        offset = offset + bytes <= kRandomBytes - bytes ? offset + bytes : 0;
        if (!send_all(handle, random_bytes().data() + offset, bytes) ||
            !receive_all(handle, answer.data(), bytes)) {
            fail("the exchange broke");
        }
        const uint64_t now = monotonic_ns();
        times.push_back(now - at);
        at = now;
    }
    // The first exchanges open the window and the tunnel's flow.
    times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 10));
    std::sort(times.begin(), times.end());
    const auto quantile = [&](double share) {
        const auto index = static_cast<size_t>(share * static_cast<double>(times.size() - 1));
        return static_cast<double>(times[index]) / 1000.0;
    };
    std::printf("{\"count\": %zu, \"p50_us\": %.2f, \"p99_us\": %.2f}\n", times.size(),
                quantile(0.5), quantile(0.99));
    return 0;
}

}  // namespace continuo::bench
