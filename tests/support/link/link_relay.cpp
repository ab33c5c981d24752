// link_relay: an emulated link between two devices of a network namespace: frames of each come out
// of the other as the LinkModel of that direction says. Commands change it while it runs.
//
//   link_relay DEVICE_A DEVICE_B [--control PATH] [--seed N] [--spin US] [SETTING...]
//   link_relay --tell PATH COMMAND...
//
// Says "ready" on standard error; on SIGTERM prints its statistics (JSON) and ends. Exit codes: 1
// error, 64 usage.
#include "common/io/unique_fd.hpp"
#include "tests/support/link/frame.hpp"
#include "tests/support/link/packet_port.hpp"
#include "tests/support/link/relay_control.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::TimePoint;

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 64;
constexpr size_t kMaxBatchesInARow = 8;  // of one port, before the other has its turn
constexpr size_t kMaxCommandBytes = 4096;
constexpr time_t kAnswerWithinSeconds = 10;

volatile std::sig_atomic_t is_stopped = 0;

struct Options {
    std::string device_a;
    std::string device_b;
    std::string control;
    uint64_t seed = 1;
    Duration spin{};  // so long before the next packet is due it is waited for awake
    std::string command;
};

TimePoint read_clock() {
    return std::chrono::steady_clock::now();
}

io::UniqueFd open_control(const std::string& path) {
    io::UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.size() >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return {};
    }
    std::memcpy(address.sun_path, path.c_str(), path.size());
    ::unlink(path.c_str());
    if (::bind(socket.value(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        return {};
    }
    return socket;
}

class Relay {
  public:
    explicit Relay(const Options& options)
        : random_(options.seed)
        , models_{LinkModel({}, random_), LinkModel({}, random_)}
        , control_({&models_[0], &models_[1]}, [this](size_t i) { return carrier(i); })
        , spin_(options.spin) {}

    // Empty, or what went wrong.
    std::string open(const Options& options) {
        std::string fault;
        ports_[0] = PacketPort::open(options.device_a, buffers_, fault);
        ports_[1] = fault.empty() ? PacketPort::open(options.device_b, buffers_, fault) : nullptr;
        if (fault.empty() && !options.control.empty()) {
            socket_ = open_control(options.control);
            if (!socket_.is_open()) {
                fault = options.control + ": " + std::strerror(errno);
            }
        }
        if (fault.empty()) {
            const std::string answer = control_.answer(options.command, read_clock());
            fault = answer == "ok" ? "" : answer;
        }
        return fault;
    }

    // Until a signal, which must be blocked but while `waiting` is the mask.
    void run(const sigset_t& waiting) {
        while (is_stopped == 0) {
            bool is_busy = false;
            for (size_t i = 0; i < ports_.size(); ++i) {
                is_busy = take(i) || is_busy;
            }
            give(0);
            give(1);
            if (!is_busy) {
                wait(waiting);
            }
        }
    }
    std::string stats() { return control_.stats(); }

  private:
    // True when there may be more.
    bool take(size_t from) {
        LinkModel& model = models_[from];
        const bool corrupts = model.settings().corrupt_ppm != 0;
        size_t batches = 0;
        while (batches < kMaxBatchesInARow && ports_[from]->receive([&](LinkPacket packet) {
            if (corrupts) {
                complete_checksum(packet.bytes);
            }
            model.send(std::move(packet), read_clock());
        })) {
            ++batches;
            give(from);
        }
        return batches == kMaxBatchesInARow;
    }

    void give(size_t from) {
        PacketPort& port = *ports_[1 - from];
        while (auto packet = models_[from].receive(read_clock())) {
            port.send(std::move(*packet));
        }
        port.flush();
    }

    void wait(const sigset_t& waiting) {
        const TimePoint due = std::min(models_[0].next_due(), models_[1].next_due());
        timespec left{.tv_sec = 1, .tv_nsec = 0};
        if (due != base::kNever) {
            const Duration span =
                std::clamp(due - read_clock() - spin_, Duration{}, Duration(base::seconds(1)));
            left.tv_sec = span / base::seconds(1);
            left.tv_nsec = (span % base::seconds(1)).count();
        }
        std::array<pollfd, 3> readable{
            pollfd{.fd = ports_[0]->descriptor(), .events = POLLIN, .revents = 0},
            pollfd{.fd = ports_[1]->descriptor(), .events = POLLIN, .revents = 0},
            pollfd{.fd = socket_.value(), .events = POLLIN, .revents = 0}};
        if (::ppoll(readable.data(), readable.size(), &left, &waiting) > 0 &&
            readable[2].revents != 0) {
            answer();
        }
    }

    void answer() {
        std::array<char, kMaxCommandBytes> command{};
        sockaddr_un from{};
        socklen_t from_bytes = sizeof from;
        const ssize_t got =
            ::recvfrom(socket_.value(), command.data(), command.size(), MSG_DONTWAIT,
                       reinterpret_cast<sockaddr*>(&from), &from_bytes);
        if (got < 0) {
            return;
        }
        const std::string text =
            control_.answer({command.data(), static_cast<size_t>(got)}, read_clock());
        ::sendto(socket_.value(), text.data(), text.size(), MSG_DONTWAIT,
                 reinterpret_cast<const sockaddr*>(&from), from_bytes);
    }

    CarrierCounters carrier(size_t direction) {
        return {ports_[direction]->kernel_drops(), ports_[1 - direction]->send_failures()};
    }

    base::SeededRandom random_;
    FrameBuffers buffers_;
    std::array<LinkModel, 2> models_;
    std::array<std::unique_ptr<PacketPort>, 2> ports_;
    io::UniqueFd socket_;
    RelayControl control_;
    Duration spin_;
};

int usage() {
    std::fprintf(stderr,
                 "usage: link_relay DEVICE_A DEVICE_B [--control PATH] [--seed N] [--spin US] "
                 "[a-to-b|b-to-a|both] [SETTING...]...\n"
                 "       link_relay --tell PATH stats | [a-to-b|b-to-a|both] SETTING...\n"
                 "settings:\n%.*s",
                 static_cast<int>(setting_words().size()), setting_words().data());
    return kExitUsage;
}

std::string join(std::span<char*> words) {
    std::string text;
    for (const char* word : words) {
        text += (text.empty() ? "" : " ") + std::string(word);
    }
    return text;
}

// Sends a command to a running relay and prints its answer, unless that is just "ok".
int tell(const std::string& path, const std::string& command) {
    const std::string own = path + "." + std::to_string(::getpid());
    const io::UniqueFd socket = open_control(own);
    sockaddr_un to{};
    to.sun_family = AF_UNIX;
    const timeval within{.tv_sec = kAnswerWithinSeconds, .tv_usec = 0};
    std::vector<char> answer(kMaxCommandBytes);
    ssize_t got = -1;
    if (socket.is_open() && path.size() < sizeof to.sun_path &&
        ::setsockopt(socket.value(), SOL_SOCKET, SO_RCVTIMEO, &within, sizeof within) == 0) {
        std::memcpy(to.sun_path, path.c_str(), path.size());
        if (::sendto(socket.value(), command.data(), command.size(), 0,
                     reinterpret_cast<const sockaddr*>(&to), sizeof to) >= 0) {
            got = ::recv(socket.value(), answer.data(), answer.size(), 0);
        }
    }
    const int why = errno;
    ::unlink(own.c_str());
    if (got < 0) {
        std::fprintf(stderr, "link_relay: %s: %s\n", path.c_str(), std::strerror(why));
        return kExitFailure;
    }
    const std::string_view text(answer.data(), static_cast<size_t>(got));
    const bool is_error = text.substr(0, 5) == "error";
    if (text != "ok") {
        std::fprintf(is_error ? stderr : stdout, "%.*s\n", static_cast<int>(text.size()),
                     text.data());
    }
    return is_error ? kExitFailure : 0;
}

bool read_whole(const char* text, uint64_t& value) {
    const char* const end = text + std::strlen(text);
    const auto [at, error] = std::from_chars(text, end, value);
    return error == std::errc{} && at == end;
}

// False: wrong usage.
bool read_options(std::span<char*> words, Options& options) {
    if (words.size() < 2) {
        return false;
    }
    options.device_a = words[0];
    options.device_b = words[1];
    words = words.subspan(2);
    while (words.size() >= 2 && std::string_view(words[0]).substr(0, 2) == "--") {
        const std::string_view name = words[0];
        uint64_t number = 0;
        if (name == "--control") {
            options.control = words[1];
        } else if (!read_whole(words[1], number)) {
            return false;
        } else if (name == "--seed") {
            options.seed = number;
        } else if (name == "--spin" && number <= 1'000'000) {
            options.spin = base::microseconds(number);
        } else {
            return false;
        }
        words = words.subspan(2);
    }
    options.command = join(words);
    return true;
}

int run_relay(const Options& options) {
    sigset_t ends;
    sigset_t before;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigprocmask(SIG_BLOCK, &ends, &before);
    struct sigaction action {};
    action.sa_handler = [](int) { is_stopped = 1; };
    sigaction(SIGTERM, &action, nullptr);
    sigaction(SIGINT, &action, nullptr);
    prctl(PR_SET_TIMERSLACK, 1UL);
    Relay relay(options);
    if (const std::string fault = relay.open(options); !fault.empty()) {
        std::fprintf(stderr, "link_relay: %s\n", fault.c_str());
        return kExitFailure;
    }
    std::fprintf(stderr, "ready\n");
    relay.run(before);
    std::printf("%s\n", relay.stats().c_str());
    if (!options.control.empty()) {
        ::unlink(options.control.c_str());
    }
    return 0;
}

}  // namespace
}  // namespace continuo::tests

int main(int count, char** words) {
    using namespace continuo::tests;  // NOLINT(google-build-using-namespace): the only user
    const std::span<char*> all(words, static_cast<size_t>(count));
    if (all.size() >= 4 && std::string_view(all[1]) == "--tell") {
        return tell(all[2], join(all.subspan(3)));
    }
    Options options;
    if (!read_options(all.subspan(1), options)) {
        return usage();
    }
    return run_relay(options);
}
