#include "snapt/ledger/ledger_clock.hpp"

#include "common/base/log.hpp"
#include "common/flow/accounting_record.hpp"

#include <cstdlib>

namespace continuo::snapt::ledger {

namespace record_flag = flow::record_flag;

namespace {

// A wall clock that differs by more from the time since boot was set.
constexpr int64_t kClockStepUs = 500'000;

}  // namespace

void LedgerClock::start(int64_t now_us) {
    look_at_synchronisation();
    static_cast<void>(look(now_us));
    ticked_at_us_ = now_us;
    boundary_us_ = boundary_before(now_us);
}

std::optional<int64_t> LedgerClock::offset_of(const Step& step) {
    return step.clocks ? std::optional(step.clocks->utc_us - step.clocks->boot_us) : std::nullopt;
}

std::optional<LedgerClock::Step> LedgerClock::look(int64_t& now_us) {
    Step step;
    step.old_us = ticked_at_us_;
    step.clocks = options_.clocks ? options_.clocks() : std::nullopt;
    if (step.clocks) {
        step.old_us = step.clocks->boot_us + offset_us_.value_or(*offset_of(step));
        now_us = step.clocks->utc_us;  // the caller may have read it before the clock was set
    } else if (options_.clocks || now_us > step.old_us) {
        return std::nullopt;
    }
    step.new_us = now_us;
    if (std::abs(step.by_us()) <= kClockStepUs) {
        offset_us_ = offset_us_ ? offset_us_ : offset_of(step);
        return std::nullopt;
    }
    return step;
}

bool LedgerClock::is_first(const Step& step) const {
    return !step.clocks || !first_step_boot_us_ ||
           step.clocks->boot_us - *first_step_boot_us_ >= interval_us();
}

bool LedgerClock::may_seal(const Step& step) {
    const bool may = is_first(step) || sealed_steps_ < kMostSealedSteps;
    has_unsealed_step_ = has_unsealed_step_ || !may;
    return may;
}

bool LedgerClock::note_sealed(const Step& step) {
    base::log(base::LogLevel::Warning,
              "accounting: the wall clock was set %s by %.3f s; usage before that is recorded with "
              "the time that it would have shown",
              step.by_us() > 0 ? "forward" : "back",
              static_cast<double>(std::abs(step.by_us())) /
                  static_cast<double>(store::kUsPerSecond));
    const bool begins = is_first(step);
    if (begins) {
        first_step_boot_us_ = step.clocks ? std::optional(step.clocks->boot_us) : std::nullopt;
        sealed_steps_ = 0;
    }
    ++sealed_steps_;
    has_unsealed_step_ = false;
    return begins;
}

void LedgerClock::follow(const Step& step) {
    ++steps_;
    offset_us_ = offset_of(step);
    boundary_us_ = boundary_before(step.new_us);
}

uint32_t LedgerClock::record_flags() const {
    return (is_unsynchronised_ ? record_flag::kClockUnsynced : 0U) |
           (has_unsealed_step_ ? record_flag::kClockStepped : 0U);
}

}  // namespace continuo::snapt::ledger
