// hostile_user: a node's user who harms the SNAPT's other users as far as the SNAPT allows, and
// reports the load it offered. Also the programs that measure the harm: logins, and a fleet.
#include "tests/support/hostile_user/attacks.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <thread>

#include <poll.h>

namespace continuo::tests {
namespace {

constexpr int kUsage = 64;

int usage() {
    std::fputs(
        "usage: hostile_user ATTACK CNAPT_TOML SECONDS [--rate N] [--node NAME] [--ready FILE]\n"
        "       hostile_user forged ADDRESS:PORT SECONDS [--rate N] [--session ID]\n"
        "       hostile_user login CNAPT_TOML COUNT [--node NAME]\n"
        "       hostile_user fleet CNAPT_TOML SECONDS --nodes N\n"
        "--rate: rounds a second, 0 (default): as fast as it goes. --ready: made when "
        "what is needed first is there (acks, moves). ATTACK:\n",
        stderr);
    for (const Attack& attack : attacks()) {
        std::fprintf(stderr, "  %-10s %s\n", std::string(attack.name).c_str(),
                     std::string(attack.what).c_str());
    }
    return kUsage;
}

struct Options {
    double rate = 0;
    std::string node = "hostile";
    size_t nodes = 8;
    uint16_t session = 0;
    std::string ready;
};

double seconds_since(base::TimePoint at) {
    return std::chrono::duration<double>(clock_now() - at).count();
}

double wall_clock() {
    timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

void print(std::string_view name, const Offered& offered, double seconds) {
    const auto print_one = [&](const char* what, uint64_t count, const char* end) {
        std::printf("\"%s\": %llu, \"%s_per_s\": %.1f%s", what,
                    static_cast<unsigned long long>(count), what,
                    static_cast<double>(count) / seconds, end);
    };
    std::printf("{\"attack\": \"%s\", \"seconds\": %.3f, ", std::string(name).c_str(), seconds);
    print_one("messages", offered.messages, ", ");
    print_one("datagrams", offered.datagrams, ", ");
    print_one("packets", offered.packets, ", ");
    print_one("bytes", offered.bytes, ", ");
    print_one("logins", offered.logins, ", ");
    std::printf("\"refused\": %llu, \"links\": %llu, \"numbers\": %llu}\n",
                static_cast<unsigned long long>(offered.refused),
                static_cast<unsigned long long>(offered.links),
                static_cast<unsigned long long>(offered.numbers));
}

base::TimePoint after(double seconds) {
    return clock_now() +
           std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(seconds));
}

// A good node: how long each login took, half a second apart; -1 where it was not let in.
int log_in(const Account& account, int count, const Options& options) {
    std::printf("{\"login_ms\": [");
    for (int i = 0; i < count; ++i) {
        const base::TimePoint began = clock_now();
        const auto link = HostileLink::open(account, options.node, base::seconds(10));
        const bool is_in = link && link->state() == HostileLink::State::Open;
        std::printf("%s%.3f", i == 0 ? "" : ", ", is_in ? seconds_since(began) * 1e3 : -1.0);
        if (is_in) {
            link->control().close(control::CloseReason::Disconnected, {});
            link->step();
        }
        std::this_thread::sleep_until(began + base::milliseconds(500));
    }
    std::puts("]}");
    return 0;
}

// A node of a fleet: as cnapt, but for delays that do not grow, so that what is seen is the
// SNAPT's.
class Member {
  public:
    Member(const Account& account, std::string name) : account_(account), name_(std::move(name)) {}

    bool is_in() const { return link_ && link_->state() == HostileLink::State::Open; }
    void step() {
        if (link_ && link_->step()) {
            return;
        }
        const base::TimePoint now = clock_now();
        if (link_) {
            constexpr base::Duration kDelay = base::milliseconds(200);
            constexpr base::Duration kDelayWhenRefused = base::seconds(10);
            const bool is_refused = link_->state() == HostileLink::State::Refused;
            link_.reset();
            again_at_ = now + (is_refused ? kDelayWhenRefused : kDelay);
        }
        if (now >= again_at_) {
            link_ = HostileLink::connect(account_, name_);
        }
    }

  private:
    const Account& account_;
    std::string name_;
    std::unique_ptr<HostileLink> link_;
    base::TimePoint again_at_{};
};

// Says when all are in, each time anew.
int run_fleet(const Account& account, double seconds, const Options& options) {
    std::vector<std::unique_ptr<Member>> fleet;
    for (size_t i = 0; i < options.nodes; ++i) {
        fleet.push_back(std::make_unique<Member>(account, options.node + std::to_string(i)));
    }
    bool were_all_in = false;
    for (const base::TimePoint until = after(seconds); clock_now() < until;) {
        for (const auto& member : fleet) {
            member->step();
        }
        const bool are_all_in = std::all_of(fleet.begin(), fleet.end(),
                                            [](const auto& member) { return member->is_in(); });
        if (are_all_in != were_all_in) {
            std::printf("%s %.3f\n", are_all_in ? "in" : "out", wall_clock());
            std::fflush(stdout);
            were_all_in = are_all_in;
        }
        std::this_thread::sleep_for(base::milliseconds(2));
    }
    return 0;
}

bool read_options(int argc, char** argv, Options& options) {
    for (int i = 4; i + 1 < argc; i += 2) {
        const std::string_view name = argv[i];
        const char* value = argv[i + 1];
        if (name == "--rate") {
            options.rate = std::atof(value);
        } else if (name == "--node") {
            options.node = value;
        } else if (name == "--nodes") {
            options.nodes = static_cast<size_t>(std::atoi(value));
        } else if (name == "--ready") {
            options.ready = value;
        } else if (name == "--session") {
            options.session = static_cast<uint16_t>(std::atoi(value));
        } else {
            return false;
        }
    }
    return argc % 2 == 0;
}

int run(int argc, char** argv) {
    Options options;
    if (argc < 4 || !read_options(argc, argv, options)) {
        return usage();
    }
    const std::string_view what = argv[1];
    const double number = std::atof(argv[3]);
    const base::TimePoint began = clock_now();
    if (what == "forged") {
        const auto to = base::Endpoint::parse(argv[2]);
        if (!to) {
            return usage();
        }
        const Offered offered = forge_sessions(*to, options.session, {after(number), options.rate});
        print(what, offered, seconds_since(began));
        return 0;
    }
    const auto account = read_account(argv[2]);
    if (!account) {
        return 1;
    }
    if (what == "login") {
        return log_in(*account, static_cast<int>(number), options);
    }
    if (what == "fleet") {
        return run_fleet(*account, number, options);
    }
    const auto attack = std::find_if(attacks().begin(), attacks().end(),
                                     [what](const Attack& one) { return one.name == what; });
    if (attack == attacks().end()) {
        return usage();
    }
    const Offered offered =
        attack->run(*account, options.node, {after(number), options.rate, options.ready});
    print(what, offered, seconds_since(began));
    return 0;
}

}  // namespace
}  // namespace continuo::tests

int main(int argc, char** argv) {
    static_cast<void>(std::signal(SIGPIPE, SIG_IGN));
    return continuo::tests::run(argc, argv);
}
