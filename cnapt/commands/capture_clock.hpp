// CaptureClock: the time of a capture, whose packets may have any times: clocks are set back, files
// are put together. It never goes back, and one absurd time costs a gap and does not stop it. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace continuo::cnapt::commands {

// Longest time between two packets of a capture; a longer one counts as this.
inline constexpr base::Duration kLongestGap = base::seconds(3600);
// Sum of all gaps, far from the end of base::Duration (292 years); time stands still afterwards.
inline constexpr base::Duration kLongestSpan = 24 * 365 * 100 * kLongestGap;

class CaptureClock {
  public:
    // Time since the first packet, at this one, which was captured at `at_ns`.
    base::Duration at(uint64_t at_ns) {
        const uint64_t before = previous_ns_.value_or(at_ns);
        previous_ns_ = at_ns;
        if (at_ns > before) {
            const auto most =
                static_cast<uint64_t>(std::min(kLongestGap, kLongestSpan - span_).count());
            span_ += base::Duration(static_cast<int64_t>(std::min(at_ns - before, most)));
        }
        return span_;
    }
    base::Duration span() const { return span_; }

  private:
    std::optional<uint64_t> previous_ns_;
    base::Duration span_{};
};

}  // namespace continuo::cnapt::commands
