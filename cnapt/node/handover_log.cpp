#include "cnapt/node/handover_log.hpp"

#include "common/base/log.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::node {

namespace {

// Handovers logged at once, and the interval in the long run. Choices, not measured.
constexpr int kLoggedAtOnce = 20;
constexpr base::Duration kLogInterval = base::seconds(3);

}  // namespace

void HandoverLog::add(const std::string& snapt, Handover handover, base::TimePoint now) {
    ++count_;
    last_ = std::move(handover);
    free_at_ = std::max(free_at_, now - kLoggedAtOnce * kLogInterval);
    if (free_at_ > now) {
        ++unlogged_;
        return;
    }
    free_at_ += kLogInterval;
    std::string text = last_->from.empty() || last_->from == last_->to
                           ? last_->to + " answers again"
                           : "moved from " + last_->from + " to " + last_->to;
    if (const uint64_t left_out = std::exchange(unlogged_, 0); left_out != 0) {
        text += "; " + std::to_string(left_out) + " handovers before it are not in this log";
    }
    base::log(base::LogLevel::Info, "%s: %s, interrupted for %.0f ms", snapt.c_str(), text.c_str(),
              last_->gap_ms);
}

}  // namespace continuo::cnapt::node
