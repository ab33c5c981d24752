#include "common/recovery/rtt_estimator.hpp"

#include <algorithm>

namespace continuo::recovery {

using base::Duration;

void RttEstimator::on_sample(Duration since_sent, Duration ack_delay, base::TimePoint now) {
    // A round trip is never zero, whatever delay the peer reports.
    latest_ =
        std::max<Duration>(since_sent - std::max(ack_delay, Duration{}), base::microseconds(1));
    const Duration at = now.time_since_epoch();
    minimum_.add(latest_, at, kMinimumWindow);
    if (samples_++ == 0) {
        smoothed_ = latest_;
        variation_ = latest_ / 2;
    } else {
        const Duration error = std::max(smoothed_ - latest_, latest_ - smoothed_);
        variation_ = (3 * variation_ + error) / 4;
        smoothed_ = (7 * smoothed_ + latest_) / 8;
    }
}

void RttEstimator::on_exchange(Duration round_trip, base::TimePoint now) {
    if (samples_ == 1 && round_trip < smoothed_) {
        samples_ = 0;
    }
    on_sample(round_trip, Duration{}, now);
}

}  // namespace continuo::recovery
