// Common parts of the trials of bench_ledger: a state folder, a ledger with counting flows,
// comparison of its records with the counts.
#pragma once

#include "common/base/random.hpp"
#include "common/flow/counter_values.hpp"
#include "snapt/ledger/ledger.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace continuo::bench {

inline constexpr int64_t kSecondUs = 1'000'000;
inline constexpr int64_t kHourUs = 3600 * kSecondUs;
// 2026-11-20 12:00:00 UTC
inline constexpr int64_t kNoonUs = 1'795'176'000 * kSecondUs;

struct Settings {
    uint64_t rounds = 0;  // 0: as many as the trial has by default
    uint64_t seed = 1;
    std::string folder;  // where state folders are made
};

// A state folder that is removed in the end.
class TrialFolder {
  public:
    explicit TrialFolder(const Settings& settings);
    TrialFolder(const TrialFolder&) = delete;
    TrialFolder& operator=(const TrialFolder&) = delete;
    ~TrialFolder();
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

// Ends the process, with a message, if the condition does not hold.
[[noreturn]] void fail(const std::string& what);
void must(bool holds, const std::string& what);
template <typename T>
T must_have(base::Result<T> result, const std::string& what) {
    if (!result) {
        fail(what + ": " + std::string(result.error().where));
    }
    return std::move(result).value();
}

snapt::ledger::LedgerOptions ledger_options(const std::string& folder, const std::string& boot_id);
void open_session(snapt::ledger::Ledger& ledger,
                  uint32_t number,
                  const std::string& user,
                  int64_t at_us);
flow::SlotRequest slot_request(uint64_t flow_id, uint32_t session, int64_t at_us);
// One packet up, all bytes of it payload.
void count(flow::LiveSlot& slot, uint64_t bytes, int64_t at_us);

// Some flows of a session that come, count and go at random.
class Load {
  public:
    Load(snapt::ledger::Ledger& ledger, uint32_t session, base::Random& random)
        : ledger_(ledger), session_(session), random_(random), flows_(5, nullptr) {}
    // The bytes of the packet that a flow has counted.
    uint64_t step(int64_t now_us);

  private:
    snapt::ledger::Ledger& ledger_;
    uint32_t session_;
    base::Random& random_;
    std::vector<flow::LiveSlot*> flows_;
    uint64_t next_id_ = 1;
};

// Sum of `inner_up` over the records of all epochs, or of one user.
uint64_t recorded_bytes(const std::string& folder, const std::string& user = "");
// Runs the checks of `snapt verify`: no gap, no wrong digest.
void must_verify(const std::string& folder);

// The trials. Each prints a line of JSON with what it has measured.
void run_kill(const Settings& settings);
void run_power(const Settings& settings);
void run_full(const Settings& settings);
void run_wrap(const Settings& settings);
void run_clock(const Settings& settings);
void run_zones(const Settings& settings);
void run_seal(const Settings& settings);
// `rounds` records, ten million by default, of a month; what questions about them cost.
void run_month(const Settings& settings);

}  // namespace continuo::bench
