// Backoff: how long something that failed is left alone. Rests double while failures follow soon,
// and begin small again after a quiet time. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>

namespace continuo::policy {

class Backoff {
  public:
    constexpr Backoff(base::Duration first, base::Duration longest)
        : first_(first), longest_(longest) {}

    // A failure: the first rest, or twice the last one if that ended less than `longest` ago.
    void begin(base::TimePoint now) {
        const bool is_again = span_ > base::Duration{} && now - until_ < longest_;
        span_ = is_again ? std::min(span_ * 2, longest_) : first_;
        until_ = now + span_;
    }
    // Its cause is gone: no rest, and the next one is the first again.
    void end() {
        span_ = {};
        until_ = {};
    }
    bool rests(base::TimePoint now) const { return now < until_; }
    base::TimePoint until() const { return until_; }

  private:
    base::Duration first_;
    base::Duration longest_;
    base::Duration span_{};
    base::TimePoint until_{};
};

}  // namespace continuo::policy
