// Announcer: when the announcements of one path are due (docs/PROTOCOL.md section 5.3): some at
// once, then ever less until the path answers. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/path/open_challenge.hpp"

#include <algorithm>

namespace continuo::path {

class Announcer {
  public:
    // `count` of them are due at `at`, the next ones `interval` later.
    void start(uint8_t count, base::Duration interval, base::TimePoint at) {
        due_ = count;
        interval_ = interval;
        again_at_ = at;
    }
    void stop() {
        due_ = 0;
        again_at_ = base::kNever;
    }
    void hasten(base::TimePoint now) { again_at_ = std::min(again_at_, now); }
    // One leaves. `heard_at`: when the path was heard last.
    void on_sent(bool is_active, base::TimePoint heard_at, base::TimePoint now) {
        due_ = static_cast<uint8_t>(std::max<uint8_t>(due_, 1) - 1);
        if (due_ == 0) {
            again_at_ = now + interval_;
            interval_ = next_interval(is_active, now - heard_at);
        }
    }

    bool is_running() const { return again_at_ != base::kNever; }
    base::TimePoint due_at() const { return again_at_; }
    uint8_t due() const { return due_; }
    base::Duration interval() const { return interval_; }

  private:
    // Intervals when nobody has answered for long, which keeps an idle node cheap. The active path
    // is asked as often as a mapping needs it, others ever less.
    static constexpr base::Duration kPatientInterval = base::seconds(25);
    static constexpr base::Duration kLongestPatience = base::seconds(300);

    base::Duration next_interval(bool is_active, base::Duration silence) const {
        if (interval_ < kLongestProbeInterval || silence <= kChallengeLifetime) {
            return longer_interval(interval_);
        }
        return is_active
                   ? kPatientInterval
                   : std::clamp<base::Duration>(interval_ * 2, kPatientInterval, kLongestPatience);
    }

    uint8_t due_ = 0;
    base::Duration interval_{};
    base::TimePoint again_at_ = base::kNever;
};

}  // namespace continuo::path
