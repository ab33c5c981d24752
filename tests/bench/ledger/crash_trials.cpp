// Crashes of the process under load, crashes of the machine, and a full disk.
#include "snapt/accounting/accountant.hpp"
#include "tests/bench/ledger/faulty_vfs.hpp"
#include "tests/bench/ledger/trial.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <thread>

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace continuo::bench {

using snapt::accounting::Accountant;
using snapt::ledger::Ledger;

namespace {

constexpr size_t kUsers = 2;  // each with a thread that counts, as a loop of the daemon

constexpr uint64_t kIntervalS = 5;  // of records, in ticks

// Counts of a sink behind the SNAPT, of each user before and after a packet is. And how far the
// process has come.
struct Sink {
    std::atomic<uint64_t> before[kUsers]{};
    std::atomic<uint64_t> after[kUsers]{};
    std::atomic<uint64_t> ticks{0};
    std::atomic<bool> is_recovered{false};

    uint64_t counted() const {
        uint64_t sum = 0;
        for (const auto& bytes : after) {
            sum += bytes.load();
        }
        return sum;
    }
};

std::string user_name(size_t user) {
    return "user-" + std::to_string(user);
}

// Counts until it is killed.
[[noreturn]] void carry_load(const std::string& folder, uint64_t seed, uint64_t round, Sink& sink) {
    snapt::ledger::LedgerOptions options = ledger_options(folder, "boot");
    options.user_records = round % 2 == 0 ? 3 : 0;  // with and without flows that share a record
    options.checkpoint_s = round % 3 == 0 ? 0 : 2;
    options.interval_s = kIntervalS;
    auto accountant = must_have(Accountant::start(options, kNoonUs), "start");
    std::atomic<int64_t> now_us{kNoonUs};
    std::vector<std::thread> loops;
    std::atomic<size_t> ready{0};
    for (size_t user = 0; user < kUsers; ++user) {
        snapt::ledger::SessionIdentity who;
        who.user_id = user_name(user);
        who.cnapt_id = "laptop";
        who.opened_at_us = kNoonUs;
        const auto session = accountant->open_session(who, [&](const auto& opened) {
            must(opened.has_value(), "a session cannot be opened");
            ++ready;
        });
        loops.emplace_back([&, user, session = session.value(), seed] {
            base::SeededRandom random(seed * kUsers + user);
            std::vector<flow::LiveSlot*> slots(5, nullptr);
            while (ready.load() < kUsers) {
                sched_yield();
            }
            for (uint64_t id = 1;;) {
                flow::LiveSlot*& slot = slots[random.below(slots.size())];
                if (slot == nullptr) {
                    auto wanted = slot_request(user << 32U | id++, session, now_us.load());
                    slot = accountant->slots().take(wanted);
                    must(slot != nullptr, "there is no slot");
                }
                const uint64_t bytes = 40 + random.below(1460);
                sink.before[user] += bytes;
                count(*slot, bytes, now_us.load());
                sink.after[user] += bytes;
                if (random.below(50) == 0) {
                    accountant->slots().release(slot, flow::Cause::Closed);
                    slot = nullptr;
                }
                if (random.below(64) == 0) {
                    sched_yield();
                }
            }
        });
    }
    while (true) {  // a second each tick, so that there are boundaries and checkpoints
        accountant->tick(now_us += kSecondUs);
        accountant->flush();
        ++sink.ticks;
    }
}

// False when the child ended by itself before that.
bool wait_until(pid_t child, const std::function<bool()>& is_reached) {
    while (!is_reached()) {
        if (::waitpid(child, nullptr, WNOHANG) != 0) {
            return false;
        }
        sched_yield();
    }
    return true;
}

// Half of them soon after the start, half at any moment of the next intervals, most of which are
// within a seal or a checkpoint.
bool kill_at_random(pid_t child, const Sink& sink, base::Random& random) {
    const uint64_t ticks = random.below(2) == 0 ? 0 : 1 + random.below(3 * kIntervalS);
    const uint64_t bytes = 1 + random.below(3'000'000);
    if (!wait_until(child, [&] { return sink.ticks.load() >= ticks; })) {
        return false;
    }
    const uint64_t target = sink.counted() + bytes;
    if (!wait_until(child, [&] { return sink.counted() >= target; })) {
        return false;
    }
    ::kill(child, SIGKILL);
    return ::waitpid(child, nullptr, 0) == child;
}

double now_s() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// A process that recovers what the last one left, and is killed within `longest_s`. True when it
// had not come to the end of that.
bool kill_in_recovery(const std::string& folder,
                      double longest_s,
                      Sink& sink,
                      base::Random& random) {
    sink.is_recovered = false;
    const pid_t child = ::fork();
    must(child >= 0, "no process");
    if (child == 0) {
        const auto ledger = Ledger::open(ledger_options(folder, "boot"), kNoonUs);
        must(ledger.has_value(), "recovery");
        sink.is_recovered = true;
        ::_exit(0);
    }
    constexpr uint64_t kParts = 1000;
    const double until_s =
        now_s() + longest_s * static_cast<double>(random.below(kParts)) / double{kParts};
    while (now_s() < until_s && !sink.is_recovered.load()) {
        sched_yield();
    }
    ::kill(child, SIGKILL);
    int status = 0;
    must(::waitpid(child, &status, 0) == child, "no process");
    must(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "a recovery fails");
    return !sink.is_recovered.load();
}

}  // namespace

void run_kill(const Settings& settings) {
    const TrialFolder folder(settings);
    const uint64_t rounds = settings.rounds != 0 ? settings.rounds : 1000;
    void* shared =
        ::mmap(nullptr, sizeof(Sink), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "no shared memory");
    base::SeededRandom random(settings.seed);
    uint64_t most_lost = 0;
    uint64_t counted = 0;
    uint64_t at_seals = 0;
    uint64_t in_recovery = 0;
    double recovery_s = 0.001;
    std::array<uint64_t, kUsers> recorded{};
    for (uint64_t round = 0; round < rounds; ++round) {
        auto* sink = new (shared) Sink;
        const uint64_t seed = random.u64();
        const pid_t child = ::fork();
        must(child >= 0, "no process");
        if (child == 0) {
            carry_load(folder.path(), seed, round, *sink);
        }
        must(kill_at_random(child, *sink, random), "the ledger's process has ended by itself");
        at_seals += (sink->ticks.load() + 1) % kIntervalS == 0 ? 1U : 0U;
        for (uint64_t kills = random.below(4); kills > 0; --kills) {
            const bool is_within = kill_in_recovery(folder.path(), 1.5 * recovery_s, *sink, random);
            in_recovery += is_within ? 1U : 0U;
            if (!is_within) {
                break;
            }
        }
        const double began_s = now_s();
        must_have(Ledger::open(ledger_options(folder.path(), "boot"), kNoonUs), "recovery").reset();
        recovery_s = now_s() - began_s;
        for (size_t user = 0; user < kUsers; ++user) {
            const uint64_t sum = recorded_bytes(folder.path(), user_name(user));
            const uint64_t fresh = sum - std::exchange(recorded[user], sum);
            const std::string where = "round " + std::to_string(round) + ", " + user_name(user);
            must(fresh <= sink->before[user], where + ": more is recorded than was counted");
            must(fresh >= sink->after[user], where + ": what was counted is lost");
            most_lost = std::max(most_lost, sink->before[user] - fresh);
            counted += fresh;
        }
        if (round % 100 == 99 || round + 1 == rounds) {
            must_verify(folder.path());
        }
    }
    must(at_seals > 0 && in_recovery > 0, "no seal and no recovery was met");
    std::printf("{\"kills\": %llu, \"at_seals\": %llu, \"in_recovery\": %llu, \"bytes\": %llu, "
                "\"most_lost_bytes\": %llu}\n",
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(at_seals),
                static_cast<unsigned long long>(in_recovery),
                static_cast<unsigned long long>(counted),
                static_cast<unsigned long long>(most_lost));
}

namespace {

// Least and most bytes of the run that must have been recorded.
struct Bounds {
    uint64_t least = 0;
    uint64_t most = 0;
};

// Counts until the power is off.
Bounds run_until_power_is_off(const std::string& folder, uint64_t round, base::Random& random) {
    snapt::ledger::LedgerOptions options = ledger_options(folder, "boot-" + std::to_string(round));
    options.checkpoint_s = 1;
    options.interval_s = 5;
    options.user_records = round % 2 == 0 ? 3 : 0;
    Bounds bounds;
    auto opened = Ledger::open(options, kNoonUs);
    if (!opened) {
        must(faulty_vfs::is_power_off(), "start: " + std::string(opened.error().where));
        return bounds;
    }
    const std::unique_ptr<Ledger> ledger = std::move(opened).value();
    snapt::ledger::SessionOpening opening;
    opening.number = 1;
    opening.identity.user_id = "alice";
    if (!ledger->open_sessions({&opening, 1})) {
        must(faulty_vfs::is_power_off(), "a session cannot be opened");
        return bounds;
    }
    Load load(*ledger, 1, random);
    for (int64_t now_us = kNoonUs; !faulty_vfs::is_power_off(); now_us += kSecondUs) {
        for (uint64_t packets = random.below(20); packets > 0; --packets) {
            bounds.most += load.step(now_us);
        }
        const auto sealed = ledger->tick(now_us + kSecondUs);
        must(sealed || faulty_vfs::is_power_off(), "a seal fails although there is power");
        if (sealed && !faulty_vfs::is_power_off()) {
            bounds.least = bounds.most;  // recorded, or saved by a checkpoint
        }
    }
    return bounds;
}

}  // namespace

void run_power(const Settings& settings) {
    const TrialFolder folder(settings);
    const uint64_t rounds = settings.rounds != 0 ? settings.rounds : 500;
    base::SeededRandom random(settings.seed);
    faulty_vfs::install();
    uint64_t recorded = 0;
    uint64_t most_lost = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        faulty_vfs::cut_power_after(1 + random.below(400));
        const Bounds bounds = run_until_power_is_off(folder.path(), round, random);
        faulty_vfs::restore(random);
        must_have(Ledger::open(ledger_options(folder.path(), "next-" + std::to_string(round)),
                               kNoonUs + kHourUs),
                  "recovery in round " + std::to_string(round))
            .reset();
        const uint64_t sum = recorded_bytes(folder.path());
        const uint64_t fresh = sum - std::exchange(recorded, sum);
        const std::string where = "round " + std::to_string(round);
        must(fresh <= bounds.most, where + ": more is recorded than was counted");
        must(fresh >= bounds.least, where + ": what was saved is lost");
        most_lost = std::max(most_lost, bounds.most - fresh);
        if (round % 50 == 49 || round + 1 == rounds) {
            must_verify(folder.path());
        }
    }
    std::printf("{\"power_losses\": %llu, \"bytes\": %llu, \"most_lost_bytes\": %llu}\n",
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(recorded),
                static_cast<unsigned long long>(most_lost));
}

namespace {

uint64_t folder_bytes(const std::string& folder) {
    uint64_t bytes = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        bytes += entry.is_regular_file() ? entry.file_size() : 0;
    }
    return bytes;
}

}  // namespace

// The disk fills up, the reserve is used, writing fails for a while, then there is room again; this
// kills some processes.
void run_full(const Settings& settings) {
    constexpr uint64_t kReserve = uint64_t{256} << 10U;
    const TrialFolder folder(settings);
    const uint64_t rounds = settings.rounds != 0 ? settings.rounds : 50;
    base::SeededRandom random(settings.seed);
    faulty_vfs::install();
    uint64_t disk_bytes = std::numeric_limits<uint64_t>::max();
    const auto room = [&disk_bytes, &folder] {
        return disk_bytes - std::min(disk_bytes, folder_bytes(folder.path()));
    };
    faulty_vfs::set_room(room);
    uint64_t counted = 0;
    uint64_t failed = 0;
    uint64_t reserves = 0;
    for (uint64_t round = 0; round < rounds; ++round) {
        snapt::ledger::LedgerOptions options = ledger_options(folder.path(), "boot");
        options.interval_s = 5;
        options.reserve_bytes = kReserve;
        options.free_bytes = [&room](const std::string&) { return std::optional(room()); };
        disk_bytes = std::numeric_limits<uint64_t>::max();
        auto ledger = must_have(Ledger::open(options, kNoonUs), "start");
        open_session(*ledger, 1, "alice", kNoonUs);
        Load load(*ledger, 1, random);
        int64_t now_us = kNoonUs;
        const std::string reserve = folder.path() + "/" + snapt::ledger::kReserveFileName;
        const auto run_for = [&](int seconds) {
            uint64_t failures = 0;
            for (; seconds > 0; --seconds, now_us += kSecondUs) {
                for (int i = 0; i < 30; ++i) {
                    counted += load.step(now_us);
                }
                failures += ledger->tick(now_us + kSecondUs) ? 0U : 1U;
            }
            return failures;
        };
        must(run_for(10) == 0, "a seal fails although there is room");
        must(std::filesystem::exists(reserve), "there is no reserve");
        disk_bytes = folder_bytes(folder.path()) + random.below(20'000);
        failed += run_for(100);
        reserves += std::filesystem::exists(reserve) ? 0U : 1U;
        disk_bytes = std::numeric_limits<uint64_t>::max();
        if (random.below(2) == 0) {
            must(run_for(10) == 0, "a seal fails although there is room again");
            must(std::filesystem::exists(reserve), "the reserve is not made again");
            must(ledger->stop(now_us, flow::Cause::Admin).has_value(), "the last seal fails");
        }
        ledger.reset();
        must_have(Ledger::open(ledger_options(folder.path(), "boot"), now_us), "recovery").reset();
        must(recorded_bytes(folder.path()) == counted,
             "round " + std::to_string(round) + ": records differ from what was counted");
    }
    faulty_vfs::set_room({});
    must_verify(folder.path());
    must(reserves > 0 && failed > 0, "the disk was never full");
    std::printf("{\"full_disks\": %llu, \"bytes\": %llu, \"failed_seals\": %llu, "
                "\"reserves_used\": %llu}\n",
                static_cast<unsigned long long>(rounds), static_cast<unsigned long long>(counted),
                static_cast<unsigned long long>(failed), static_cast<unsigned long long>(reserves));
}

}  // namespace continuo::bench
