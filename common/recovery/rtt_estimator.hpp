// RttEstimator: the round trip of one path: smoothed, its variation (RFC 9002 section 5.3), and the
// minimum over ten seconds (as in BBR). Pure.
#pragma once

#include "common/base/time.hpp"
#include "common/recovery/windowed_extreme.hpp"

#include <functional>

namespace continuo::recovery {

class RttEstimator {
  public:
    static constexpr base::Duration kInitialRtt = base::milliseconds(333);  // RFC 9002, 6.2.2
    static constexpr base::Duration kGranularity = base::milliseconds(1);   // RFC 9002, 6.1.2
    // draft-ietf-ccwg-bbr, MinRTTFilterLen.
    static constexpr base::Duration kMinimumWindow = base::seconds(10);

    // `since_sent`: from sending a datagram to its acknowledgement; `ack_delay`: how long the peer
    // held that back. Unlike RFC 9002 section 5.2, the minimum is also taken without the delay: it
    // is exact here, and thin traffic is usually acknowledged late.
    void on_sample(base::Duration since_sent, base::Duration ack_delay, base::TimePoint now);
    // The same for an answer that is sent at once. The first exchange may include link-layer
    // address resolution, so a shorter second one replaces it.
    void on_exchange(base::Duration round_trip, base::TimePoint now);
    // The route has changed: forgets everything.
    void reset() { *this = RttEstimator(); }

    bool has_sample() const { return samples_ > 0; }
    uint64_t samples() const { return samples_; }
    // kInitialRtt and half of it, respectively, before the first sample.
    base::Duration smoothed() const { return smoothed_; }
    base::Duration variation() const { return variation_; }
    base::Duration latest() const { return latest_; }
    // Zero before the first sample.
    base::Duration minimum() const { return minimum_.best(); }
    // Probe time-out without the peer's delay (RFC 9002 section 6.2.1).
    base::Duration probe_timeout() const {
        return smoothed_ + std::max<base::Duration>(4 * variation_, kGranularity);
    }

  private:
    using Minimum = WindowedExtreme<base::Duration, base::Duration, std::less<>>;

    uint64_t samples_ = 0;
    base::Duration smoothed_ = kInitialRtt;
    base::Duration variation_ = kInitialRtt / 2;
    base::Duration latest_{};
    Minimum minimum_;
};

}  // namespace continuo::recovery
