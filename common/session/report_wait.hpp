// ReportWait: how long it takes until the peer tells of what a path carries, and whether it has
// taken far longer than that. Of a path that carries little no REPORT is owed (PathReport), but the
// peer mostly tells soon, beside something else: when it stops doing so, what is as thin as the
// acknowledgements of a transfer should not go into a hole until the path is doubted. A wrong guess
// costs the longer way only. Pure; one for each path and direction.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::session {

class ReportWait {
  public:
    // A datagram with packets left. A pause of the application is no silence of the peer, which
    // need not tell of the last few at all.
    void on_sent(base::TimePoint now) {
        if (since_ == base::kNever || now - sent_last_at_ >= kLongest) {
            since_ = now;
            sent_ = 0;
        }
        sent_last_at_ = now;
        ++sent_;
    }

    // A REPORT told of something that was not told of before; `is_all`: nothing else is under way.
    void on_told(bool is_all, base::TimePoint now) {
        if (since_ != base::kNever) {
            take(std::min<base::Duration>(now - since_, kLongest));
        }
        since_ = is_all ? base::kNever : now;
        sent_ = is_all ? 0 : 1;
    }

    base::Duration silence(base::TimePoint now) const {
        return since_ == base::kNever ? base::Duration{} : now - since_;
    }

    bool is_overdue(base::TimePoint now) const {
        return samples_ >= kFewestSamples && sent_ >= kFewestSent &&
               silence(now) >= mean_ * 2 + variation_ * 4 + kMargin;
    }

  private:
    // As RFC 6298, section 2.
    void take(base::Duration sample) {
        if (samples_ == 0) {
            mean_ = sample;
            variation_ = sample / 2;
        } else {
            const base::Duration error = sample > mean_ ? sample - mean_ : mean_ - sample;
            variation_ = (variation_ * 3 + error) / 4;
            mean_ = (mean_ * 7 + sample) / 8;
        }
        samples_ = std::min(samples_ + 1, kFewestSamples);
    }

    static constexpr uint32_t kFewestSamples = 4;
    static constexpr uint32_t kFewestSent = 2;
    static constexpr base::Duration kLongest = base::seconds(2);
    static constexpr base::Duration kMargin = base::milliseconds(100);
    base::TimePoint since_ = base::kNever;  // the first that left and was not told of
    base::TimePoint sent_last_at_{};
    base::Duration mean_{};
    base::Duration variation_{};
    uint32_t sent_ = 0;
    uint32_t samples_ = 0;
};

}  // namespace continuo::session
