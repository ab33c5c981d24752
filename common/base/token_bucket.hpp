// TokenBucket: a rate with a burst. Taking more than is available causes a debt, and the bucket
// waits until it is paid off, so that amounts above the burst pass, too. Pure.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::base {

class TokenBucket {
  public:
    // Time for which an unused rate is saved up.
    explicit TokenBucket(Duration burst) : burst_(burst) {}

    // 0: no limit. A debt stays.
    void set_rate(uint64_t bits_per_s) { bits_per_s_ = bits_per_s; }
    uint64_t bits_per_s() const { return bits_per_s_; }
    bool is_limited() const { return bits_per_s_ != 0; }
    // The time from which something may pass.
    TimePoint free_at() const { return is_limited() ? free_at_ : TimePoint{}; }
    bool may_pass(TimePoint now) const { return free_at() <= now; }
    void take(uint64_t bytes, TimePoint now) {
        if (is_limited()) {
            free_at_ = std::max(free_at_, now - burst_) + span_of(bytes);
        }
    }

  private:
    Duration span_of(uint64_t bytes) const {
        constexpr uint64_t kBitNs = uint64_t{8} * 1'000'000'000;
        return std::chrono::nanoseconds(
            static_cast<int64_t>(std::min(bytes, kMostAtOnce) * kBitNs / bits_per_s_));
    }
    static constexpr uint64_t kMostAtOnce = uint64_t{1} << 30;  // its bits in ns fit 64 bits

    Duration burst_;
    uint64_t bits_per_s_ = 0;
    TimePoint free_at_{};
};

}  // namespace continuo::base
