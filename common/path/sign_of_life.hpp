// SignOfLife: when a SNAPT asks a silent node, over control, to send something. Requests are twice
// as far apart each time, until the node speaks by itself. Pure.
#pragma once

#include "common/base/backoff.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

class SignOfLife {
  public:
    static constexpr base::Duration kLongestInterval = base::seconds(25);

    // The node was heard. `patience`: what comes so much later than the answer to a request comes
    // by itself, and the next silence is news again.
    void on_heard(base::Duration patience, base::TimePoint now) {
        if (std::exchange(is_requested_, false)) {
            answered_at_ = now;
        } else if (now - answered_at_ > patience) {
            interval_.reset();
        }
    }
    void on_requested(base::Duration patience, base::TimePoint now) {
        requested_at_ = now;
        is_requested_ = true;
        interval_.next(2 * patience, kLongestInterval);
    }
    // For a silence since `since`.
    base::TimePoint deadline(base::TimePoint since, base::Duration patience) const {
        return std::max(since, requested_at_) + std::max(patience, interval_.pause());
    }
    bool is_requested() const { return is_requested_; }

    bool operator==(const SignOfLife&) const = default;

  private:
    base::Backoff interval_;
    base::TimePoint requested_at_{};
    base::TimePoint answered_at_{};
    bool is_requested_ = false;
};

}  // namespace continuo::path
