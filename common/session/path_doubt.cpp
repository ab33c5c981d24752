// Path: what silence makes of it, whether what is sent arrives, and how much of it
// (docs/PROTOCOL.md sections 5.1 and 6). That datagrams come in says nothing of the other
// direction: what says so is a RESPONSE, and an ACK that names a higher number than before.
#include "common/session/ack_ledger.hpp"
#include "common/session/path.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

constexpr Duration kDeadAfter = base::seconds(10);
// Bytes with packets, 2 % of which pay for an acknowledgement of two classes, with some that are
// lost: 26 bytes.
constexpr uint64_t kPaidBytes = 2000;
// A path without packets and acknowledgements for so long is measured anew.
constexpr Duration kDeliveryLifetime = base::seconds(60);

}  // namespace

bool Path::confirm(uint64_t outstanding, TimePoint now) {
    if (!silence_.confirm(outstanding, now) || state_ != PathState::Doubtful) {
        return false;
    }
    state_ = has_answered_ ? PathState::Usable : PathState::Challenged;
    return has_answered_;
}

bool Path::on_feedback(bool came_back, uint64_t outstanding, TimePoint now) {
    silence_.on_reported();
    if (came_back) {
        return confirm(outstanding, now);
    }
    // An ACK by another way says nothing of the way back.
    if (!silence_.needs_proof()) {
        confirm(outstanding, now);
    }
    return false;
}

// On the return path nothing may come up for long although it delivers: what the node has to say
// goes by others.
bool Path::is_late(TimePoint now) const {
    if (!silence_.is_silent()) {
        return false;
    }
    const TimePoint since = role_ == Role::Snapt && is_active_
                                ? std::max(silence_.since(), silence_.proof_wanted_from())
                                : silence_.since();
    return now - since >= patience().doubt;
}

bool Path::is_overdue(TimePoint now) const {
    // TCP loses nothing by itself.
    return is_active_ && !is_tcp() && silence_.is_silent() &&
           (sign_of_life_.is_requested() || now - silence_.since() >= patience().ask);
}

TimePoint Path::silence_deadline() const {
    if (!silence_.is_silent()) {
        const bool is_cut_short = role_ == Role::Node && is_active_ &&
                                  state_ == PathState::Usable && silence_.is_burst() && !is_asked();
        return is_cut_short ? heard_at_ + patience().ask : base::kNever;
    }
    const TimePoint since = silence_.since();
    if (role_ == Role::Snapt) {
        if (!is_active_) {
            const bool may_ask = first_tuple().is_known && !is_asked();
            return may_ask ? since + patience().ask : base::kNever;
        }
        return is_tcp() ? base::kNever : sign_of_life_.deadline(since, patience().ask);
    }
    switch (state_) {
    case PathState::Usable:
        return since + (is_asked() ? patience().doubt : patience().ask);
    case PathState::Challenged:
        return since + patience().doubt;
    case PathState::Doubtful:
        return since + kDeadAfter;
    case PathState::Unknown:
    case PathState::Dead:
        break;
    }
    return base::kNever;
}

Path::Step Path::on_time(TimePoint now) {
    if (is_probed() && delivery_->deadline() <= now && delivery_->on_time(now)) {
        is_ping_due_ = true;
    }
    if (proof_deadline() <= now) {
        return on_proof_missing(now);
    }
    return silence_deadline() <= now ? on_silence(now) : Step::None;
}

Path::Step Path::on_silence(TimePoint now) {
    if (role_ == Role::Snapt && !is_active_) {
        challenge(first(), now);
        return Step::None;
    }
    if (role_ == Role::Snapt) {
        sign_of_life_.on_requested(patience().ask, now);
        return Step::Told;
    }
    if (state_ == PathState::Usable) {
        silence_.begin(heard_at_);
        if (!is_asked()) {
            silence_.end_burst();
            challenge_or_announce(now);
            state_ = PathState::Usable;
            return Step::Asked;
        }
    }
    if (state_ == PathState::Usable || state_ == PathState::Challenged) {
        state_ = PathState::Doubtful;
    } else {
        bury(now);
    }
    return Step::Told;
}

// The node judges the way up. SNAPT judges the way down where it spreads; on the return path the
// node hears nothing if nothing gets there.
TimePoint Path::proof_deadline() const {
    const path::Validation& validation = first_tuple().validation;
    const bool is_judge = role_ == Role::Node
                              ? state_ == PathState::Usable || state_ == PathState::Challenged
                              : !is_active_ && validation.is_proven() && is_live();
    if (!is_judge || is_tcp() || silence_.needs_proof()) {
        return base::kNever;
    }
    if (validation.is_asked()) {
        // While nothing is heard, the silence counts.
        const TimePoint asked = validation.asked_since();
        return heard_at_ > asked ? std::max(asked, silence_.proof_wanted_from()) + patience().doubt
                                 : base::kNever;
    }
    // An acknowledgement that is not owed comes with data, once in an interval, and not before what
    // was sent has paid for it.
    const bool is_thin = delivery_ != nullptr && !delivery_->liveness().is_owed();
    if (is_thin && delivery_->unacknowledged_bytes() < kPaidBytes) {
        return base::kNever;
    }
    return silence_.ask_for_proof_at(
        heard_at_, patience().ask + (is_thin ? AckLedger::kLazyInterval : Duration{}));
}

// From here on only proof ends the silence.
void Path::ask_for_proof(TimePoint now) {
    const PathState state = state_;
    challenge(first(), now);
    state_ = state;
    silence_.ask_for_proof(patience().ask, now);
}

// At SNAPT the path is just not used, since it owes an answer.
Path::Step Path::on_proof_missing(TimePoint now) {
    if (!is_asked()) {
        ask_for_proof(now);
        return Step::Asked;
    }
    silence_.need_proof(patience().doubt, now);
    if (role_ == Role::Snapt) {
        return Step::None;
    }
    state_ = PathState::Doubtful;
    return Step::Told;
}

// --- Acknowledgements

bool Path::on_ack_range(uint32_t epoch, const wire::Ack& ack, const wire::AckRange& range) {
    if (delivery_ == nullptr) {
        return false;
    }
    std::optional<path::Delivery::Highest> highest;
    if (range.last == ack.highest) {
        highest = path::Delivery::Highest{wire::kAckTimeUnit * ack.delay, ack.clock};
    }
    delivery_->on_range({epoch, wire::space_number(ack.space)}, range.first, range.last, highest);
    return true;
}

void Path::on_ack_count(uint32_t epoch, const wire::Ack& ack) {
    if (delivery_ != nullptr) {
        delivery_->on_count({epoch, wire::space_number(ack.space)}, ack.highest + 1 - ack.missing);
    }
}

void Path::on_acks_read(bool came_back, Duration peer_interval, TimePoint now) {
    if (delivery_ == nullptr) {
        return;
    }
    delivery_->finish_ack(came_back, peer_interval, now);
    const path::RateEstimator& rate = delivery_->rate();
    delivered_ = {rate.bytes_per_s(), rate.has_queue(), rate.is_known(), delivery_->loss(now)};
    count_totals();
}

void Path::on_housekeeping(TimePoint now) {
    if (delivery_ == nullptr) {
        return;
    }
    if (delivery_->is_idle(kDeliveryLifetime, now)) {
        forget_delivery();
        return;
    }
    count_totals();
    delivered_.loss = delivery_->loss(now);
    delivery_->release();
}

void Path::count_totals() {
    const path::DeliveryCounters& counters = delivery_->counters();
    totals_ = {totals_before_.delivered_bytes + delivery_->rate().delivered_bytes(),
               totals_before_.delivered_datagrams + counters.delivered_datagrams,
               totals_before_.lost_datagrams + counters.lost_datagrams,
               totals_before_.late_datagrams + counters.late_datagrams};
}

void Path::forget_delivery() {
    if (delivery_ != nullptr) {
        count_totals();
        delivery_.reset();
    }
    totals_before_ = totals_;
    is_ping_due_ = false;
    delivered_ = {};
}

void Path::forget_round_trips() {
    forget_delivery();
    rtt_.reset();
    rtt_at_most_ = {};
}

}  // namespace continuo::session
