// RelativeDelay: the one-way delay of a path between two clocks with unknown offsets. Only
// differences are meaningful: between paths to the same peer, and to the smallest recent delay,
// which gives the queue in this direction. The round trip would also count the queue on the way
// back. Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/recovery/windowed_extreme.hpp"
#include "common/wire/constants.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>

namespace continuo::recovery {

class RelativeDelay {
  public:
    // Clocks count in these units, modulo kModulus.
    static constexpr base::Duration kUnit = wire::kAckTimeUnit;
    static constexpr uint32_t kModulus = wire::kAckClockModulus;
    // Window of the smallest delay.
    static constexpr base::Duration kWindow = base::seconds(30);

    static uint32_t clock_at(base::TimePoint at) {
        return static_cast<uint32_t>(static_cast<uint64_t>(at.time_since_epoch() / kUnit) %
                                     kModulus);
    }
    // By how much `delay` exceeds `other`; both are differences between the two clocks.
    static int32_t above(uint32_t delay, uint32_t other) {
        const uint32_t difference = (delay - other) % kModulus;
        return difference < kModulus / 2
                   ? static_cast<int32_t>(difference)
                   : static_cast<int32_t>(difference) - static_cast<int32_t>(kModulus);
    }

    // A datagram left at `sent_at` by this clock and arrived at `arrived` by the peer's clock.
    void on_sample(base::TimePoint sent_at,
                   uint32_t arrived,
                   base::Duration round_trip,
                   base::TimePoint now) {
        const uint32_t delay = arrived - clock_at(sent_at);
        const Units faster = smallest_.is_empty() ? 0 : above(delay, low(smallest_.best()));
        // A queue longer than half the clock's range looks like a path that became faster.
        if (faster < -kMostFaster && now - sampled_at_ < kWindow) {
            return;
        }
        latest_ = smallest_.is_empty() ? Units{delay} : latest_ + above(delay, low(latest_));
        sampled_at_ = now;
        const base::Duration at = now.time_since_epoch();
        smallest_.add(latest_, at, kWindow);
        recent_.add(latest_, at, std::max<base::Duration>(round_trip, base::milliseconds(1)));
    }
    std::optional<uint32_t> smallest() const {
        return smallest_.is_empty() ? std::nullopt : std::optional(low(smallest_.best()));
    }
    // arrival() of the latest datagram is by this clock, up to a constant offset: the first one
    // after rebase() counts as having arrived `span` after it left.
    void rebase() { is_based_ = false; }
    base::TimePoint arrival(base::TimePoint sent_at, base::Duration span) {
        if (!is_based_) {
            base_ = latest_ - span / kUnit;
            is_based_ = true;
        }
        return sent_at + kUnit * (latest_ - base_);
    }
    // How much longer the latest datagram took than the fastest recent one.
    base::Duration latest_queue() const {
        return kUnit * std::max<Units>(latest_ - smallest_.best(), 0);
    }
    // Shortest wait of any datagram in about the last round trip.
    base::Duration standing_queue() const {
        return kUnit * std::max<Units>(recent_.best() - smallest_.best(), 0);
    }

  private:
    using Units = int64_t;
    using Smallest = WindowedExtreme<Units, base::Duration, std::less<>>;
    static constexpr Units kMostFaster = base::seconds(1) / kUnit;

    static uint32_t low(Units delay) {
        return static_cast<uint32_t>(static_cast<uint64_t>(delay) % kModulus);
    }

    Smallest smallest_;
    Smallest recent_;
    Units latest_ = 0;  // does not wrap
    Units base_ = 0;
    bool is_based_ = false;
    base::TimePoint sampled_at_{};
};

}  // namespace continuo::recovery
