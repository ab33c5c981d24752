// LifeRequests: when a SNAPT asks over control for a sign of life on the return path
// (docs/PROTOCOL.md section 5.5). Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

class LifeRequests {
  public:
    // Something came on the path. A sign of life that comes unasked ends the growth of the
    // interval.
    void on_heard(base::Duration patience, base::TimePoint now) {
        if (std::exchange(is_open_, false)) {
            answered_at_ = now;
        } else if (now - answered_at_ > patience) {
            interval_ = {};
        }
    }
    void on_sent(base::Duration patience, base::TimePoint now) {
        sent_at_ = now;
        is_open_ = true;
        interval_ = std::min<base::Duration>(std::max(interval_, patience) * 2, kLongestInterval);
    }
    // The path has been silent since `since`.
    base::TimePoint due_at(base::TimePoint since, base::Duration patience) const {
        return std::max(since, sent_at_) + std::max(patience, interval_);
    }
    // One is not answered yet.
    bool is_open() const { return is_open_; }
    base::Duration interval() const { return interval_; }
    base::TimePoint answered_at() const { return answered_at_; }

  private:
    static constexpr base::Duration kLongestInterval = base::seconds(25);

    base::Duration interval_{};
    base::TimePoint sent_at_{};
    base::TimePoint answered_at_{};
    bool is_open_ = false;
};

}  // namespace continuo::path
