#include "common/path/snapt_path.hpp"

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using Asks = PathValidation::Asks;

namespace {

// The node keeps the LtLd mapping alive. Another class that was last heard this much earlier may
// have lost its mapping.
constexpr Duration kMayBeOlder = base::seconds(1);

}  // namespace

bool SnaptPath::is_overdue(TimePoint now) const {
    const TimePoint since = parts_.liveness.unheard_since();
    // TCP loses nothing by itself.
    return !parts_.is_tcp() && since != base::kNever &&
           (life_requests_.is_open() || now - since >= parts_.feedback.patience());
}

// Nobody may be there to answer, and what was sent is repeated on the other path.
void SnaptPath::on_left(TimePoint now) {
    was_left_silent_ = is_overdue(now);
    parts_.liveness.forget_silence();
    parts_.feedback.forget_class_sendings();
}

void SnaptPath::on_chosen(TimePoint now) {
    parts_.liveness.forget_silence();
    parts_.feedback.forget_class_sendings();
    parts_.traffic.begin(now);
}

bool SnaptPath::on_authenticated(TrafficClass traffic_class,
                                 const base::Endpoint& from,
                                 const base::Endpoint& local,
                                 uint64_t bytes,
                                 bool is_highest,
                                 TimePoint now) {
    was_left_silent_ = false;
    life_requests_.on_heard(parts_.feedback.patience(), now);
    // Without a log no answer can come, and without packets there is none: it may carry again.
    if (parts_.feedback.delivery() == nullptr) {
        parts_.liveness.forget_judgement();
    }
    Tuple& tuple = parts_.validation.tuple(traffic_class);
    if (!tuple.is_heard_from(from, local)) {
        if (!is_highest) {
            return false;
        }
        move_tuple(traffic_class, from, local, now);
    }
    tuple.on_heard(now);
    if (!tuple.is_proven()) {
        tuple.on_received_unproven(bytes);
        if (tuple.challenge().is_open()) {
            tuple.challenge().resume(now);
        } else {
            parts_.validation.challenge(traffic_class, Asks::Validation, now);
        }
    }
    return true;
}

void SnaptPath::move_tuple(TrafficClass traffic_class,
                           const base::Endpoint& from,
                           const base::Endpoint& local,
                           TimePoint now) {
    Tuple& tuple = parts_.validation.tuple(traffic_class);
    const bool was_known = tuple.is_known();
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && tuple.remote().address != from.address) {
        parts_.forget_delivery();  // another network; a changed port is a NAT's doing
        parts_.feedback.forget_network();
    }
    if (is_lt_ld) {
        parts_.search.distrust();
    }
    tuple = Tuple::of_node(from, local, tuple.is_proven() || tuple.is_remapped());
    if (is_lt_ld || (!was_known && parts_.state() != PathState::Usable)) {
        parts_.validation.invalidate();
    }
    parts_.validation.challenge(traffic_class, Asks::Validation, now);
}

TrafficClass
SnaptPath::tuple_class(TrafficClass traffic_class, TrafficClass wanted, TimePoint now) const {
    const PathValidation& validation = parts_.validation;
    const Tuple& own = validation.tuple(traffic_class);
    const bool is_stale = now - own.heard_at() > kMappingLifetime ||
                          validation.lt_ld().heard_at() - own.heard_at() > kMayBeOlder;
    const bool is_usable = own.is_known() && own.is_proven() && !is_stale;
    const TrafficClass chosen = is_usable ? wanted : TrafficClass::LtLd;
    // The path may have been heard first in another class.
    return validation.tuple(chosen).is_known() ? chosen : traffic_class;
}

TimePoint SnaptPath::deadline(bool is_active) const {
    const TimePoint since = parts_.liveness.unheard_since();
    return !is_active || parts_.is_tcp() || since == base::kNever
               ? base::kNever
               : life_requests_.due_at(since, parts_.feedback.patience());
}

bool SnaptPath::on_time(bool is_active, TimePoint now) {
    if (deadline(is_active) > now) {
        return false;
    }
    life_requests_.on_sent(parts_.feedback.patience(), now);
    return true;
}

}  // namespace continuo::path
