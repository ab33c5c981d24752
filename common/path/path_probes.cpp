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

std::optional<Probe> Path::next_probe(bool is_active, TimePoint now) {
    std::optional<Probe> probe;
    if (NodePath* const node = as_node()) {
        probe = node->announcement(is_active, now);
    }
    if (!probe && !(probe = challenge_probe(now)) && !(probe = class_probe(now)) &&
        !(probe = ping_probe())) {
        probe = mtu_probe(now);
    }
    return probe;
}

TimePoint Path::next_deadline(bool is_active) const {
    if (parts_.is_ping_due) {
        return TimePoint{};
    }
    const TimePoint by_role =
        as_node() != nullptr ? node().announcer().due_at() : snapt().deadline(is_active);
    const TimePoint by_class =
        asks_by_class() ? parts_.feedback.class_ways()->deadline(parts_.feedback.class_times())
                        : base::kNever;
    return std::min({by_role, by_class, health_deadline(is_active), parts_.search.deadline(),
                     parts_.validation.deadline()});
}

std::optional<Probe> Path::challenge_probe(TimePoint now) {
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        OpenChallenge& challenge = parts_.validation.tuple(traffic_class).challenge();
        if (traffic_class == TrafficClass::LtLd && is_announcing() && challenge.has_expired(now)) {
            challenge.leave_to_announcements();  // for as long as they go on
            continue;
        }
        if (!challenge.take_due(now)) {
            continue;
        }
        expect_answer(now);
        Probe probe = parts_.probe_to(traffic_class);
        probe.challenge = challenge.next_sending(now);
        probe.way = challenge.way();
        probe.wants_ack = parts_.is_node() && parts_.feedback.has_unconfirmed_class(now);
        // Padded only once, so that SNAPT may ask as well and send there before the node does
        // (section 5.4).
        probe.is_padded = parts_.is_node() && state() == PathState::Challenged &&
                          !parts_.validation.has_answered() && challenge.repetitions() == 0;
        probe.has_ping = traffic_class == TrafficClass::LtLd && parts_.is_node() &&
                         !probe.is_padded && std::exchange(parts_.is_ping_due, false);
        return probe;
    }
    return std::nullopt;
}

void Path::on_withheld(const Probe& probe) {
    if (probe.asks_tuple()) {
        parts_.validation.tuple(probe.traffic_class).challenge().withhold();
    }
}

std::optional<Probe> Path::ping_probe() {
    if (!std::exchange(parts_.is_ping_due, false) || !parts_.validation.lt_ld().is_known()) {
        return std::nullopt;
    }
    Probe probe = parts_.probe_to(TrafficClass::LtLd);
    probe.has_ping = true;
    return probe;
}

// Expects no answer: a size that does not pass does not make the path silent.
std::optional<Probe> Path::mtu_probe(TimePoint now) {
    if (parts_.search.deadline() > now) {
        return std::nullopt;
    }
    const bool may_ask = parts_.validation.lt_ld().is_known() &&
                         parts_.validation.lt_ld().is_proven() &&
                         (!parts_.is_node() || state() == PathState::Usable);
    if (!may_ask) {
        parts_.search.give_up();
        return std::nullopt;
    }
    const auto asked =
        parts_.search.next(parts_.feedback.smoothed_rtt(), parts_.feedback.rtt_variation(),
                           parts_.context.random, now);
    if (!asked) {
        return std::nullopt;
    }
    Probe probe = parts_.probe_to(TrafficClass::LtLd);
    probe.challenge = wire::Challenge{asked->token};
    probe.outer_bytes = asked->outer_bytes;
    return probe;
}

// While the path itself is in question its classes are not.
bool Path::asks_by_class() const {
    const bool works = parts_.is_node()
                           ? state() == PathState::Usable
                           : is_live(state()) && parts_.validation.current().is_proven();
    return parts_.feedback.class_ways() != nullptr && works && !parts_.is_tcp() &&
           parts_.liveness.health() == recovery::Health::Usable;
}

std::optional<Probe> Path::class_probe(TimePoint now) {
    if (!asks_by_class()) {
        return std::nullopt;
    }
    while (const auto question = parts_.feedback.class_ways()->next_question(now)) {
        const auto to = destination_by(question->traffic_class, question->way, now);
        if (!to) {
            continue;
        }
        Probe probe{parts_.index, question->traffic_class, to->to, to->from};
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
    Tuple& tuple = parts_.validation.tuple(traffic_class);
    if (!tuple.is_known()) {
        return std::nullopt;
    }
    const bool is_repeated = tuple.note_response(now);
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    Probe probe = parts_.probe_to(traffic_class);
    probe.response = due.response;
    probe.is_padded = due.is_padded;
    if (!is_lt_ld || due.is_doubted || is_repeated) {
        probe.way = ClassWay::Unmarked;
    }
    if (parts_.is_node() && parts_.feedback.way_of(traffic_class) == ClassWay::Detour) {
        probe.tuple_class = TrafficClass::LtLd;
        probe.way = ClassWay::Detour;
    }
    probe.wants_ack = !parts_.is_node() && is_lt_ld && tuple.is_proven() &&
                      parts_.feedback.has_unconfirmed_class(now);
    return probe;
}

}  // namespace continuo::path
