// How long a loop that counts waits for the ledger, while all of its flows, which are of many
// users, are sealed, saved, or closed at once.
#include "snapt/accounting/accountant.hpp"
#include "tests/bench/ledger/trial.hpp"
#include "tests/support/seeds.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <sys/resource.h>

namespace continuo::bench {

using snapt::accounting::Accountant;

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kFlows = tests::kHasSanitizer ? 4096 : 65'536;  // a sixteenth, as of seeds
constexpr size_t kUsers = 1000;
constexpr auto kIdleTime = std::chrono::milliseconds(300);
// A flow comes and goes so often beside those.
constexpr auto kBetweenFlows = std::chrono::microseconds(100);

enum class Phase : size_t { Idle, Seal, Checkpoint, Close };
constexpr size_t kPhases = 4;

double ms_since(Clock::time_point began) {
    return std::chrono::duration<double, std::milli>(Clock::now() - began).count();
}

// How often this thread has waited for another one, so far.
long waits() {
    rusage usage{};
    must(::getrusage(RUSAGE_THREAD, &usage) == 0, "no figures of a thread");
    return usage.ru_nvcsw;
}

// Counts packets of all flows in turn, opens and closes others, and notes the longest time between
// two packets in each phase, and the longest for which it waited: that the machine did something
// else meanwhile is no fault of the ledger.
class CountingLoop {
  public:
    CountingLoop(flow::SlotSource& source, uint32_t session, std::vector<flow::LiveSlot*> slots)
        : source_(source)
        , session_(session)
        , slots_(std::move(slots))
        , thread_([this] { run(); }) {}
    CountingLoop(const CountingLoop&) = delete;
    CountingLoop& operator=(const CountingLoop&) = delete;
    ~CountingLoop() {
        is_ending_ = true;
        thread_.join();
    }

    // The wait of the loop in the phase before is noted when this returns.
    void begin(Phase phase) {
        phase_ = phase;
        while (seen_phase_ != phase) {
            sched_yield();
        }
    }
    // Both are of the phase, since the last call.
    double take_longest_ms(Phase phase) { return take_ms(longest_ns_, phase); }
    double take_waited_ms(Phase phase) { return take_ms(waited_ns_, phase); }
    // Returns when no flow but those that come and go counts any more.
    void stop_counting() {
        counts_ = false;
        while (!has_stopped_) {
            sched_yield();
        }
    }

  private:
    using Times = std::array<std::atomic<uint64_t>, kPhases>;

    static double take_ms(Times& times, Phase phase) {
        constexpr double kNsPerMs = 1e6;
        return static_cast<double>(times[static_cast<size_t>(phase)].exchange(0)) / kNsPerMs;
    }
    static void note(Times& times, Phase phase, Clock::duration time) {
        const auto ns = static_cast<uint64_t>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(time).count());
        auto& longest = times[static_cast<size_t>(phase)];
        if (ns > longest.load(std::memory_order_relaxed)) {
            longest = ns;
        }
    }
    void open_and_close(uint64_t id, Phase phase) {
        const long waits_before = waits();
        const auto began = Clock::now();
        flow::LiveSlot* slot = source_.take(slot_request(id, session_, kNoonUs));
        must(slot != nullptr, "there is no slot");
        source_.release(slot, flow::Cause::Closed);
        const auto took = Clock::now() - began;
        if (waits() != waits_before) {
            note(waited_ns_, phase, took);
        }
    }
    void run() {
        auto before = Clock::now();
        auto next_flow_at = before;
        uint64_t next_id = kFlows + 1;
        for (size_t i = 0; !is_ending_; i = (i + 1) % slots_.size()) {
            const Phase phase = phase_;
            seen_phase_ = phase;
            if (counts_) {
                count(*slots_[i], 1000, kNoonUs);
            } else {
                has_stopped_ = true;
            }
            if (before >= next_flow_at) {
                next_flow_at = before + kBetweenFlows;
                open_and_close(next_id++, phase);
            }
            const auto now = Clock::now();
            note(longest_ns_, phase, now - before);
            before = now;
        }
    }

    flow::SlotSource& source_;
    uint32_t session_;
    std::vector<flow::LiveSlot*> slots_;
    std::atomic<Phase> phase_{Phase::Idle};
    std::atomic<Phase> seen_phase_{Phase::Idle};
    std::atomic<bool> counts_{true};
    std::atomic<bool> has_stopped_{false};
    std::atomic<bool> is_ending_{false};
    Times longest_ns_{};
    Times waited_ns_{};
    std::thread thread_;
};

// One for each user.
std::vector<uint32_t> open_sessions(Accountant& accountant) {
    std::vector<uint32_t> sessions;
    for (size_t user = 0; user < kUsers; ++user) {
        snapt::ledger::SessionIdentity who;
        who.user_id = "user-" + std::to_string(user);
        who.account_id = 1 + static_cast<int64_t>(user);
        who.cnapt_id = "laptop";
        who.opened_at_us = kNoonUs;
        const auto session = accountant.open_session(who, [](const auto& opened) {
            must(opened.has_value(), "a session cannot be opened");
        });
        sessions.push_back(session.value());
    }
    accountant.flush();
    return sessions;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

}  // namespace

void run_seal(const Settings& settings) {
    const TrialFolder folder(settings);
    const uint64_t rounds = settings.rounds != 0 ? settings.rounds : 7;
    snapt::ledger::LedgerOptions options = ledger_options(folder.path(), "boot");
    options.live_slots = 2 * kFlows;
    options.user_records = 0;
    auto accountant = must_have(Accountant::start(options, kNoonUs), "start");
    const std::vector<uint32_t> sessions = open_sessions(*accountant);
    std::vector<flow::LiveSlot*> slots;
    for (uint64_t id = 1; id <= kFlows; ++id) {
        const uint32_t session = sessions[id % sessions.size()];
        slots.push_back(accountant->slots().take(slot_request(id, session, kNoonUs)));
    }
    std::array<std::vector<double>, kPhases> gaps;
    std::array<double, kPhases> waited{};
    std::vector<double> seals;
    int64_t now_us = kNoonUs;
    {
        CountingLoop loop(accountant->slots(), sessions.front(), slots);
        const auto pass = [&](Phase phase, int64_t step_us) {
            const auto began = Clock::now();
            loop.begin(phase);
            accountant->tick(now_us += step_us);
            accountant->flush();
            loop.begin(Phase::Idle);
            const auto place = static_cast<size_t>(phase);
            gaps[place].push_back(loop.take_longest_ms(phase));
            waited[place] = std::max(waited[place], loop.take_waited_ms(phase));
            return ms_since(began);
        };
        for (uint64_t round = 0; round < rounds; ++round) {
            loop.take_longest_ms(Phase::Idle);
            std::this_thread::sleep_for(kIdleTime);
            gaps[0].push_back(loop.take_longest_ms(Phase::Idle));
            pass(Phase::Checkpoint, 10 * kSecondUs);
            std::this_thread::sleep_for(kIdleTime);
            seals.push_back(pass(Phase::Seal, 50 * kSecondUs));
        }
        must(accountant->status().records >= rounds * kFlows, "not all flows were sealed");
        loop.stop_counting();
        for (flow::LiveSlot* slot : slots) {
            accountant->slots().release(slot, flow::Cause::Closed);
        }
        pass(Phase::Close, kSecondUs);
    }
    const auto figure = [](const char* name, double value, const char* behind = ", ") {
        std::printf("\"%s\": %.3f%s", name, value, behind);
    };
    std::printf("{\"flows\": %llu, ", static_cast<unsigned long long>(kFlows));
    figure("seal_ms", median(seals));
    figure("idle_gap_ms", median(gaps[0]));
    figure("seal_gap_ms", median(gaps[1]));
    figure("checkpoint_gap_ms", median(gaps[2]));
    figure("seal_waited_ms", waited[1]);
    figure("checkpoint_waited_ms", waited[2]);
    figure("close_waited_ms", waited[3], "}\n");
}

}  // namespace continuo::bench
