// Path: the datagrams without packets that it sends by itself.
#include "common/path/path.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

void Probe::serialize(base::ByteWriter& body) const {
    if (announce) {
        announce->serialize(body);
    }
    if (copies) {
        copies->serialize(body);
    }
    if (challenge) {
        challenge->serialize(body);
    }
    if (response) {
        response->serialize(body);
    }
}

Probe Path::probe_to(TrafficClass traffic_class) const {
    const Tuple& tuple = tuples_[base::index_of(traffic_class)];
    return {index_, traffic_class, tuple.remote(), tuple.local()};
}

std::optional<Probe> Path::next_probe(bool is_active, TimePoint now) {
    std::optional<Probe> probe;
    if (!(probe = announcement(is_active, now)) && !(probe = challenge_probe(now)) &&
        !(probe = class_probe(now)) && !(probe = ping_probe())) {
        probe = mtu_probe(now);
    }
    return probe;
}

TimePoint Path::next_deadline(bool is_active) const {
    TimePoint earliest = std::min({announcer_.due_at(), health_deadline(is_active),
                                   request_deadline(is_active), search_.deadline()});
    if (asks_by_class()) {
        earliest = std::min(earliest, class_ways_->deadline(class_times()));
    }
    for (const Tuple& tuple : tuples_) {
        earliest = std::min(earliest, tuple.challenge().due_at());
    }
    return is_ping_due_ ? TimePoint{} : earliest;
}

std::optional<Probe> Path::announcement(bool is_active, TimePoint now) {
    if (announcer_.due_at() > now) {
        return std::nullopt;
    }
    announcer_.on_sent(is_active, heard_at_, now);
    expect_answer(now);
    OpenChallenge& challenge = tuples_[kLtLd].challenge();
    Probe probe = probe_to(TrafficClass::LtLd);
    probe.announce.emplace();
    probe.announce->path = index_;
    probe.announce->mtu = search_.limit();
    probe.announce->active = is_active;
    probe.challenge = challenge.next_sending(now);
    probe.way = challenge.way();
    // Padded, so that SNAPT may send the waiting data at once. Every second repetition is short,
    // since the path may not take padded ones; a path silent for long is only asked.
    probe.is_padded = state() != PathState::Dead && !probe.way;
    probe.wants_ack = has_unconfirmed_class(now);
    probe.has_ping = !probe.is_padded && std::exchange(is_ping_due_, false);
    return probe;
}

std::optional<Probe> Path::challenge_probe(TimePoint now) {
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        OpenChallenge& challenge = of(traffic_class).challenge();
        if (traffic_class == TrafficClass::LtLd && announcer_.is_running() &&
            challenge.has_expired(now)) {
            challenge.leave_to_announcements();  // for as long as they go on
            continue;
        }
        if (!challenge.take_due(now)) {
            continue;
        }
        expect_answer(now);
        Probe probe = probe_to(traffic_class);
        probe.challenge = challenge.next_sending(now);
        probe.way = challenge.way();
        probe.wants_ack = is_node() && has_unconfirmed_class(now);
        // Padded only once, so that SNAPT may ask as well and send there before the node does
        // (section 5.4).
        probe.is_padded = is_node() && state() == PathState::Challenged && !has_answered_ &&
                          challenge.repetitions() == 0;
        probe.has_ping = traffic_class == TrafficClass::LtLd && is_node() && !probe.is_padded &&
                         std::exchange(is_ping_due_, false);
        return probe;
    }
    return std::nullopt;
}

void Path::on_withheld(const Probe& probe) {
    if (probe.asks_tuple()) {
        of(probe.traffic_class).challenge().withhold();
    }
}

std::optional<Probe> Path::ping_probe() {
    if (!std::exchange(is_ping_due_, false) || !lt_ld().is_known()) {
        return std::nullopt;
    }
    Probe probe = probe_to(TrafficClass::LtLd);
    probe.has_ping = true;
    return probe;
}

// Expects no answer: a size that does not pass does not make the path silent.
std::optional<Probe> Path::mtu_probe(TimePoint now) {
    if (search_.deadline() > now) {
        return std::nullopt;
    }
    const bool may_ask =
        lt_ld().is_known() && lt_ld().is_proven() && (!is_node() || state() == PathState::Usable);
    if (!may_ask) {
        search_.give_up();
        return std::nullopt;
    }
    const auto asked = search_.next(smoothed_rtt(), rtt_variation(), context_.random, now);
    mtu_ = search_.size();
    if (!asked) {
        return std::nullopt;
    }
    Probe probe = probe_to(TrafficClass::LtLd);
    probe.challenge = wire::Challenge{asked->token};
    probe.outer_bytes = asked->outer_bytes;
    return probe;
}

// Nothing is missed before it could have been confirmed (RFC 9002, 6.2.1), whatever T_ask is. What
// may overtake is what the loss detector allows beyond a round trip (RFC 9002, 6.1.2).
ClassWays::Times Path::class_times() const {
    const Duration round_trip = rtt_.probe_timeout();
    const Duration reordering =
        delivery_ != nullptr ? delivery_->loss_detector().time_threshold(rtt_) - rtt_.smoothed()
                             : Duration{};
    return {std::max(patience(), round_trip),
            std::max<Duration>(recovery::Liveness::kProbeInterval, round_trip),
            std::max<Duration>(reordering, {})};
}

// While the path itself is in question its classes are not.
bool Path::asks_by_class() const {
    const bool works =
        is_node() ? state() == PathState::Usable : is_live() && current_tuple().is_proven();
    return class_ways_ != nullptr && works && !is_tcp() &&
           liveness_.health() == recovery::Health::Usable;
}

// Datagrams without packets count in lt-ld alone, where the acknowledgements leave.
void Path::note_class_sent(TrafficClass traffic_class,
                           const recovery::SentRun& run,
                           TimePoint now) {
    const bool counts = run.has_packets || traffic_class == TrafficClass::LtLd;
    if (is_tcp() || !counts || run.is_size_probe || run.is_other_way) {
        return;
    }
    if (class_ways_ == nullptr) {
        class_ways_ = std::make_unique<ClassWays>();
    }
    class_ways_->on_sent(traffic_class, now);
}

void Path::note_class_arrived(bool came_back, TimePoint now) {
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

bool Path::has_unconfirmed_class(TimePoint now) const {
    const Duration round_trip = rtt_.has_sample() ? rtt_.probe_timeout() : Duration{};
    return class_ways_ != nullptr && class_ways_->has_unconfirmed(now - round_trip);
}

std::optional<Probe> Path::class_probe(TimePoint now) {
    if (!asks_by_class()) {
        return std::nullopt;
    }
    while (const auto question = class_ways_->next_question(now)) {
        const auto to = destination(question->traffic_class, question->way, now);
        if (!to) {
            continue;
        }
        Probe probe{index_, question->traffic_class, to->to, to->from};
        probe.challenge = wire::Challenge{question->token};
        probe.tuple_class = to->tuple_class;
        probe.way = question->way;
        probe.is_class_question = true;
        return probe;
    }
    return std::nullopt;
}

// Goes to where the class was heard last. A network that drops a DSCP usually drops it both ways.
// So answers in classes other than lt-ld leave without one, and in lt-ld those to a question of a
// way and those to repetitions: the challenger may not have got the answer before.
// A SNAPT whose datagrams are unconfirmed adds a PING to one in lt-ld: its acknowledgement shows
// that lt-ld arrives.
std::optional<Probe> Path::response_probe(const DueResponse& due, TimePoint now) {
    const TrafficClass traffic_class = due.space.traffic_class;
    Tuple& tuple = of(traffic_class);
    if (!tuple.is_known()) {
        return std::nullopt;
    }
    const bool is_repeated = tuple.note_response(now);
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    Probe probe = probe_to(traffic_class);
    probe.response = due.response;
    probe.is_padded = due.is_padded;
    if (!is_lt_ld || due.is_doubted || is_repeated) {
        probe.way = ClassWay::Unmarked;
    }
    if (is_node() && way_of(traffic_class) == ClassWay::Detour) {
        probe.tuple_class = TrafficClass::LtLd;
        probe.way = ClassWay::Detour;
    }
    probe.wants_ack = !is_node() && is_lt_ld && tuple.is_proven() && has_unconfirmed_class(now);
    return probe;
}

}  // namespace continuo::path
