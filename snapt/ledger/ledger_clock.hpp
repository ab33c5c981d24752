// LedgerClock: intervals of records, and a wall clock that is set while flows count. All that was
// counted before is to be sealed at the time that the clock would have shown; of a clock that is
// set again and again, only at the first steps of an interval. Pure, but for the clocks it asks.
#pragma once

#include "snapt/ledger/ledger_options.hpp"
#include "snapt/store/account.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace continuo::snapt::ledger {

// Steps of the wall clock in an interval at each of which all is sealed. A choice: about one in
// four seconds of a minute, more than anybody sets by hand, fewer than of a clock that jumps each
// second.
inline constexpr int64_t kMostSealedSteps = 16;

inline constexpr int64_t kQuarterHourUs = 900 * store::kUsPerSecond;
// The start of a record, so that the day of any zone is a sum of whole records. It is before
// `end_us`.
inline int64_t within_quarter(int64_t start_us, int64_t end_us) {
    const int64_t last_us = end_us - 1;
    return std::max(start_us, last_us - last_us % kQuarterHourUs);
}

class LedgerClock {
  public:
    struct Step {
        int64_t old_us = 0;  // what the wall clock would show
        int64_t new_us = 0;
        std::optional<host::Clocks> clocks{};

        int64_t by_us() const { return new_us - old_us; }
    };

    // `options` must outlive it.
    explicit LedgerClock(const LedgerOptions& options) : options_(options) {}
    void start(int64_t now_us);

    // Whether the wall clock was set since the last look; `now_us` becomes what it shows. Until
    // follow() each look finds the step.
    std::optional<Step> look(int64_t& now_us);
    // False where there were too many: usage before it is not to be sealed.
    bool may_seal(const Step& step);
    // True for the first step of all, and for each that comes an interval or more after the last one
    // that this was true for.
    bool note_sealed(const Step& step);
    void follow(const Step& step);

    void tick(int64_t now_us) { ticked_at_us_ = now_us; }
    int64_t ticked_at_us() const { return ticked_at_us_; }
    int64_t boundary_before(int64_t now_us) const { return now_us - now_us % interval_us(); }
    int64_t boundary_us() const { return boundary_us_; }  // where this interval began
    int64_t interval_us() const { return int64_t{options_.interval_s} * store::kUsPerSecond; }
    void begin_interval(int64_t boundary_us) {
        boundary_us_ = boundary_us;
        has_unsealed_step_ = false;
    }
    // When all that was counted while it was not synchronised is sealed.
    void look_at_synchronisation() {
        is_unsynchronised_ = is_unsynchronised_ && options_.is_clock_synchronised &&
                             !options_.is_clock_synchronised();
    }

    // After a step that sealed nothing the wall clock does not tell how long the interval was.
    bool has_unsealed_step() const { return has_unsealed_step_; }
    uint32_t record_flags() const;
    uint64_t steps() const { return steps_; }

  private:
    bool is_first(const Step& step) const;
    static std::optional<int64_t> offset_of(const Step& step);

    const LedgerOptions& options_;
    int64_t ticked_at_us_ = 0;
    int64_t boundary_us_ = 0;
    std::optional<int64_t> offset_us_;  // wall clock less clock since boot
    uint64_t steps_ = 0;
    std::optional<int64_t> first_step_boot_us_;  // since when steps are counted
    int64_t sealed_steps_ = 0;
    bool has_unsealed_step_ = false;  // in this interval
    bool is_unsynchronised_ = true;   // the wall clock, since the start
};

}  // namespace continuo::snapt::ledger
