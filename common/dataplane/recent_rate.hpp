// RecentRate: the recent growth rate of a byte count. Sampled about once a second; the rate covers
// the last two to four seconds.
#pragma once

#include "common/base/time.hpp"
#include "common/config/units.hpp"

#include <cstdint>
#include <optional>

namespace continuo::dataplane {

class RecentRate {
  public:
    // `total_bytes`: the count so far. A smaller count than before, or a long pause, starts anew.
    void look(uint64_t total_bytes, base::TimePoint now) {
        const bool is_new = older_.at == base::TimePoint{} || total_bytes < newer_.total_bytes ||
                            now - newer_.at > kLongestPause;
        if (is_new) {
            older_ = newer_ = {total_bytes, now};
        } else if (now - newer_.at >= kSpacing) {
            older_ = newer_;
            newer_ = {total_bytes, now};
        }
    }
    // Nothing while there was not enough time since the first look.
    std::optional<uint64_t> bits_per_s(uint64_t total_bytes, base::TimePoint now) const {
        const bool is_known = older_.at != base::TimePoint{} && total_bytes >= older_.total_bytes &&
                              now - older_.at >= kShortest;
        if (!is_known) {
            return std::nullopt;
        }
        const auto bits =
            static_cast<double>((total_bytes - older_.total_bytes) * config::kBitsPerByte);
        const auto us = static_cast<double>(base::to_us(now - older_.at));
        return static_cast<uint64_t>(bits * static_cast<double>(config::kMicroseconds) / us);
    }

  private:
    // Two ticks, which come each second.
    static constexpr base::Duration kSpacing = base::milliseconds(1900);
    static constexpr base::Duration kShortest = base::milliseconds(500);
    static constexpr base::Duration kLongestPause = base::seconds(10);
    struct Look {
        uint64_t total_bytes = 0;
        base::TimePoint at{};
    };
    Look older_;
    Look newer_;
};

// The recent rates of both directions.
struct RecentRates {
    RecentRate up;
    RecentRate down;
    void look(uint64_t up_bytes, uint64_t down_bytes, base::TimePoint now) {
        up.look(up_bytes, now);
        down.look(down_bytes, now);
    }
};

}  // namespace continuo::dataplane
