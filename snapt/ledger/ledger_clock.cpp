// Ledger: a wall clock that is set while flows count.
#include "common/base/log.hpp"
#include "snapt/ledger/ledger_statements.hpp"

#include <cstdlib>

namespace continuo::snapt::ledger {

using base::Result;
namespace record_flag = flow::record_flag;

namespace {

// A wall clock that differs by more from the time since boot was set.
constexpr int64_t kClockStepUs = 500'000;
constexpr double kUsInS = 1e6;

}  // namespace

Result<void> Ledger::write_event(int64_t at_us, std::string_view kind, const std::string& detail) {
    const auto clocks = options_.clocks ? options_.clocks() : std::nullopt;
    return statements_->insert_event.bind(1, at_us)
        .bind(2, clocks ? std::optional(clocks->boot_us) : std::nullopt)
        .bind(3, kind)
        .bind(4, std::string_view(detail))
        .run();
}

// Seals usage counted before a step; nothing where there are too many steps. After an error nothing
// has changed.
Result<size_t> Ledger::seal_step(const Pass& pass, std::optional<int64_t> boot_us) {
    const bool is_first =
        !boot_us || !first_step_boot_us_ ||
        *boot_us - *first_step_boot_us_ >= int64_t{options_.interval_s} * 1'000'000;
    if (!is_first && sealed_steps_ >= kMostSealedSteps) {
        has_unsealed_step_ = true;
        return size_t{0};
    }
    const size_t records = CTN_TRY(seal(pass));
    const int64_t step_us = pass.clock_step_us;
    base::log(base::LogLevel::Warning,
              "accounting: the wall clock was set %s by %.3f s; usage before that is recorded with "
              "the time that it would have shown",
              step_us > 0 ? "forward" : "back", static_cast<double>(std::abs(step_us)) / kUsInS);
    if (is_first) {
        first_step_boot_us_ = boot_us;
        sealed_steps_ = 0;
        records_of_.clear();
    }
    ++sealed_steps_;
    has_unsealed_step_ = false;
    return records;
}

// Seals at the old time what was counted before the wall clock was set. `now_us` is what the clock
// shows afterwards. After an error the next call does it.
Result<size_t> Ledger::follow_clock(int64_t& now_us) {
    int64_t old_us = last_tick_us_;
    std::optional<int64_t> offset_us;
    const auto clocks = options_.clocks ? options_.clocks() : std::nullopt;
    if (clocks) {
        offset_us = clocks->utc_us - clocks->boot_us;
        old_us = clocks->boot_us + clock_offset_us_.value_or(*offset_us);
        now_us = clocks->utc_us;  // the caller may have read it before the clock was set
    } else if (options_.clocks || now_us > old_us) {
        return size_t{0};
    }
    const int64_t step_us = now_us - old_us;
    if (std::abs(step_us) <= kClockStepUs) {
        clock_offset_us_ = clock_offset_us_ ? clock_offset_us_ : offset_us;
        return size_t{0};
    }
    const int64_t interval_end_us = boundary_us_ + int64_t{options_.interval_s} * 1'000'000;
    Pass pass{now_us, std::min(old_us, interval_end_us), true};
    pass.flags = record_flag::kClockStepped;
    pass.clock_step_us = step_us;
    const size_t records =
        CTN_TRY(seal_step(pass, clocks ? std::optional(clocks->boot_us) : std::nullopt));
    ++status_.clock_steps;
    clock_offset_us_ = offset_us;
    for (auto& [flow_id, sealed] : sealed_) {
        sealed.until_us = now_us;
    }
    boundary_us_ = boundary_before(now_us);
    return records;
}

}  // namespace continuo::snapt::ledger
