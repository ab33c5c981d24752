// Path: whether it answers (docs/PROTOCOL.md section 5.1). The node judges its paths by Liveness.
// SNAPT leaves out paths that it spreads over in the same way, and asks for a sign of life over
// control when the return path is silent.
#include "common/path/path.hpp"

#include <algorithm>
#include <utility>

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

Duration Path::patience() const {
    const Duration patience = smoothed_rtt() * 4 + rtt_variation() * 4;
    return rtt_.has_sample() ? std::clamp(patience, kSoonestAsk, kLatestAsk) : kLatestAsk;
}

// SNAPT's challenges ask for an address.
void Path::expect_answer(TimePoint now) {
    if (is_node()) {
        note_asked(now);
    } else {
        liveness_.note_sent(now);
    }
}

void Path::note_asked(TimePoint now) {
    liveness_.on_sent(false, true, unacknowledged_bytes(), now);
}

// An answer proves both ways.
void Path::confirm(TimePoint now) {
    const bool asks = delivery_ != nullptr && delivery_->has_pings();
    liveness_.on_progress(unacknowledged_bytes(), asks, now);
}

void Path::expect_more(TimePoint now) {
    if (is_node() && !is_tcp()) {
        liveness_.expect_more(now);
    }
}

bool Path::is_overdue(TimePoint now) const {
    const TimePoint since = liveness_.unheard_since();
    // TCP loses nothing by itself.
    return !is_tcp() && since != base::kNever &&
           (life_requests_.is_open() || now - since >= patience());
}

// Whether probe time-outs apply: to a SNAPT's paths that carry packets, and to all of a node. A
// dead path is probed by announcements.
bool Path::is_judged() const {
    return is_live() && (is_node() || (delivery_ != nullptr && !is_tcp()));
}

Duration Path::probe_timeout() const {
    return std::max(is_tcp() ? kLeastStreamTimeout : Duration{},
                    delivery_ != nullptr ? delivery_->probe_timeout() : rtt_.probe_timeout());
}

TimePoint Path::health_deadline(bool is_active) const {
    if (!is_judged()) {
        return base::kNever;
    }
    const bool detects_losses = delivery_ != nullptr && !is_tcp();
    return std::min({liveness_.deadline(probe_timeout()),
                     detects_losses ? delivery_->loss_detector().deadline() : base::kNever,
                     ping_deadline(is_active)});
}

// When thin traffic has gone without an answer. On the return path SNAPT asks over control.
TimePoint Path::ping_deadline(bool is_active) const {
    return is_node() || !is_active ? liveness_.ask_at(rtt_.probe_timeout()) : base::kNever;
}

TimePoint Path::request_deadline(bool is_active) const {
    const TimePoint since = liveness_.unheard_since();
    return is_node() || !is_active || is_tcp() || since == base::kNever
               ? base::kNever
               : life_requests_.due_at(since, patience());
}

bool Path::on_time(bool is_active, TimePoint now) {
    const bool was_doubtful = state() == PathState::Doubtful;
    if (health_deadline(is_active) <= now) {
        on_health_due(is_active, now);
    }
    if (asks_by_class()) {
        class_ways_->on_time(class_times(), context_.random, now);
    }
    if (is_node()) {
        return follow_health(was_doubtful, is_active, now);
    }
    if (request_deadline(is_active) > now) {
        return false;
    }
    life_requests_.on_sent(patience(), now);
    return true;
}

void Path::on_health_due(bool is_active, TimePoint now) {
    if (delivery_ != nullptr && !is_tcp()) {
        delivery_->on_time(now);
    }
    const bool has_timed_out = liveness_.on_time(probe_timeout(), now);
    // A path that has never answered is asked by challenges alone.
    const bool may_answer = !is_node() || has_answered_;
    if ((has_timed_out && may_answer) || ping_deadline(is_active) <= now) {
        note_asked(now);
        is_ping_due_ = true;
    }
    // Answers to these pass where a network drops the DSCP (section 5.1).
    Tuple& tuple = tuples_[kLtLd];
    if (is_node() && has_timed_out && !tuple.challenge().is_open() && !is_tcp()) {
        start_challenge(tuple, Asks::Question, now);
    }
}

bool Path::follow_health(bool was_doubtful, bool is_active, TimePoint now) {
    if (!is_live() || liveness_.health() == recovery::Health::Usable) {
        return false;
    }
    if (liveness_.health() == recovery::Health::Dead) {
        bury(now);
        return true;
    }
    if (was_doubtful) {
        return false;
    }
    question(is_active, now);
    return true;
}

recovery::Delivery& Path::log() {
    if (delivery_ == nullptr) {
        delivery_ =
            std::make_unique<recovery::Delivery>(rtt_, liveness_, &search_, context_.memory);
    }
    return *delivery_;
}

void Path::on_numbered(TrafficClass traffic_class, const recovery::SentRun& run, TimePoint now) {
    if (delivery_ == nullptr && !run.has_packets && !run.asks) {
        return;  // a path that only announces itself costs nothing
    }
    log().on_sent(run, now);
    note_class_sent(traffic_class, run, now);
}

bool Path::take_out(const recovery::SentRun& run) {
    const bool was_there =
        delivery_ != nullptr && delivery_->take_out(run.space, run.first, run.first);
    if (was_there) {
        forget_class_sendings();  // its ACK confirms no class of this path
    }
    return was_there;
}

bool Path::on_acks_read(bool came_back, bool has_answered, TimePoint now) {
    if (delivery_ == nullptr) {
        return false;  // the path has ended meanwhile
    }
    const bool was_doubtful = state() == PathState::Doubtful;
    delivery_->finish_ack(came_back, now);
    note_class_arrived(came_back, now);
    answered_at_ = has_answered && !is_redirected_ ? now : answered_at_;
    measured_ = {delivery_->rate().bytes_per_s(),      delivery_->rate().has_queue(),
                 delivery_->rate().is_known(),         delivery_->loss(now),
                 delivery_->counters().lost_datagrams, delivery_->counters().late_datagrams};
    return was_doubtful && state() == PathState::Usable;
}

void Path::tidy(TimePoint now) {
    if (delivery_ == nullptr) {
        return;
    }
    if (delivery_->is_idle(kDeliveryLifetime, now)) {
        forget_delivery();
    } else {
        measured_.loss = delivery_->loss(now);
        delivery_->release();
    }
}

void Path::forget_delivery() {
    delivery_.reset();
    forget_class_sendings();
    liveness_.on_taken_out(0, false);  // nothing would acknowledge it
    is_ping_due_ = false;
    measured_ = {0, false, false, std::nullopt, measured_.lost_datagrams, measured_.late_datagrams};
}

void Path::forget_class_sendings() {
    if (class_ways_ != nullptr) {
        class_ways_->forget_sent();
    }
}

}  // namespace continuo::path
