#include "common/path/path_feedback.hpp"

#include "common/path/open_challenge.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

namespace {

// SNAPT's patience with the return path: some round trips, within bounds. The upper bound holds
// while there is no sample.
constexpr Duration kSoonestAsk = milliseconds(500);
constexpr Duration kLatestAsk = base::seconds(1);
// TCP repeats by itself, and not sooner (RFC 6298 section 2.4).
constexpr Duration kLeastStreamTimeout = base::seconds(1);
// After this long without packets and acknowledgements a path is measured anew.
constexpr Duration kDeliveryLifetime = base::seconds(60);

}  // namespace

Duration PathFeedback::probe_timeout() const {
    return std::max(is_tcp_ ? kLeastStreamTimeout : Duration{},
                    delivery_ != nullptr ? delivery_->probe_timeout() : rtt_.probe_timeout());
}

Duration PathFeedback::patience() const {
    const Duration patience = smoothed_rtt() * 4 + rtt_variation() * 4;
    return rtt_.has_sample() ? std::clamp(patience, kSoonestAsk, kLatestAsk) : kLatestAsk;
}

// TCP loses nothing.
TimePoint PathFeedback::loss_deadline() const {
    return delivery_ != nullptr && !is_tcp_ ? delivery_->loss_detector().deadline() : base::kNever;
}

// Nothing is missed before it could have been confirmed (RFC 9002, 6.2.1), whatever T_ask is. What
// may overtake is what the loss detector allows beyond a round trip (RFC 9002, 6.1.2).
ClassWays::Times PathFeedback::class_times() const {
    const Duration round_trip = rtt_.probe_timeout();
    const Duration reordering =
        delivery_ != nullptr ? delivery_->loss_detector().time_threshold(rtt_) - rtt_.smoothed()
                             : Duration{};
    return {std::max(patience(), round_trip),
            std::max<Duration>(recovery::Liveness::kProbeInterval, round_trip),
            std::max<Duration>(reordering, {})};
}

bool PathFeedback::has_changed_socket(TrafficClass traffic_class, TimePoint now) const {
    return class_ways_ != nullptr &&
           class_ways_->has_taken_detour(traffic_class, kChallengeLifetime, now);
}

bool PathFeedback::has_unconfirmed_class(TimePoint now) const {
    const Duration round_trip = rtt_.has_sample() ? rtt_.probe_timeout() : Duration{};
    return class_ways_ != nullptr && class_ways_->has_unconfirmed(now - round_trip);
}

void PathFeedback::on_numbered(TrafficClass traffic_class,
                               const recovery::SentRun& run,
                               TimePoint now) {
    if (delivery_ == nullptr && !run.has_packets && !run.asks) {
        return;  // a path that only announces itself costs nothing
    }
    ensure_delivery().on_sent(run, now);
    note_class_sent(traffic_class, run, now);
}

// Datagrams without packets count in lt-ld alone, where the acknowledgements leave.
void PathFeedback::note_class_sent(TrafficClass traffic_class,
                                   const recovery::SentRun& run,
                                   TimePoint now) {
    const bool counts = run.has_packets || traffic_class == TrafficClass::LtLd;
    if (is_tcp_ || !counts || run.is_size_probe || run.is_other_way) {
        return;
    }
    if (class_ways_ == nullptr) {
        class_ways_ = std::make_unique<ClassWays>();
    }
    class_ways_->on_sent(traffic_class, now);
}

recovery::Delivery& PathFeedback::ensure_delivery() {
    if (delivery_ == nullptr) {
        delivery_ = std::make_unique<recovery::Delivery>(rtt_, liveness_, &search_, memory_);
    }
    return *delivery_;
}

bool PathFeedback::take_out(const recovery::SentRun& run) {
    const bool was_there =
        delivery_ != nullptr && delivery_->take_out(run.space, run.first, run.first);
    if (was_there) {
        forget_class_sendings();  // its ACK confirms no class of this path
    }
    return was_there;
}

void PathFeedback::on_acks_read(bool came_back, TimePoint now) {
    delivery_->finish_ack(came_back, now);
    note_class_arrived(came_back, now);
    measured_ = {delivery_->rate().bytes_per_s(),      delivery_->rate().has_queue(),
                 delivery_->rate().is_known(),         delivery_->loss(now),
                 delivery_->counters().lost_datagrams, delivery_->counters().late_datagrams};
}

void PathFeedback::note_class_arrived(bool came_back, TimePoint now) {
    const recovery::Delivery::Arrived arrived = delivery_->take_arrived();
    if (class_ways_ == nullptr) {
        return;
    }
    // An ACK that another path brought is no sign that this one is in use.
    if (came_back) {
        class_ways_->on_arrived(arrived.any);
    }
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        const TimePoint sent_at = arrived.by_way[base::index_of(traffic_class)];
        if (sent_at != TimePoint{}) {
            class_ways_->on_confirmed(traffic_class, sent_at, now);
        }
    }
}

void PathFeedback::on_time(TimePoint now) {
    if (delivery_ != nullptr && !is_tcp_) {
        delivery_->on_time(now);
    }
}

void PathFeedback::distrust_round_trips(TimePoint now) {
    if (delivery_ != nullptr) {
        delivery_->distrust_round_trips(now);
    }
}

void PathFeedback::forget_class_sendings() {
    if (class_ways_ != nullptr) {
        class_ways_->forget_sent();
    }
}

void PathFeedback::forget_delivery() {
    delivery_.reset();
    forget_class_sendings();
    liveness_.on_taken_out(0, false);  // nothing would acknowledge it
    measured_ = {0, false, false, std::nullopt, measured_.lost_datagrams, measured_.late_datagrams};
}

void PathFeedback::forget_network() {
    rtt_.reset();
    class_ways_.reset();
}

bool PathFeedback::tidy(TimePoint now) {
    if (delivery_ == nullptr) {
        return false;
    }
    if (delivery_->is_idle(kDeliveryLifetime, now)) {
        forget_delivery();
        return true;
    }
    measured_.loss = delivery_->loss(now);
    delivery_->release();
    return false;
}

}  // namespace continuo::path
