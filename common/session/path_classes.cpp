// PathSet: which way each class takes on a path (path::ClassWays).
#include "common/session/path_set.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;
using path::ClassWay;

// Nothing is missed before it could have been confirmed (RFC 9002, 6.2.1), whatever T_ask is. What
// may overtake is what the loss detector allows beyond a round trip (RFC 9002, 6.1.2).
path::ClassWays::Times PathSet::class_times(uint8_t index) const {
    const Path& path = paths_[index];
    const Duration round_trip = path.rtt.probe_timeout();
    const Duration reordering =
        deliveries_[index] != nullptr
            ? deliveries_[index]->loss_detector().time_threshold(path.rtt) - path.rtt.smoothed()
            : Duration{};
    return {std::max(ask_after(path), round_trip),
            std::max<Duration>(kFirstProbeInterval, round_trip),
            std::max<Duration>(reordering, {})};
}

// The tuple by which the path is used: that of lt-ld, unless the path was heard only in others.
const Tuple& PathSet::current_tuple(const Path& path) {
    const Tuple& usual = path.tuples[index_of(TrafficClass::LtLd)];
    const auto known = std::find_if(path.tuples.begin(), path.tuples.end(),
                                    [](const Tuple& any) { return any.is_known(); });
    return usual.is_known() || known == path.tuples.end() ? usual : *known;
}

// While the path itself is in question its classes are not.
bool PathSet::asks_by_class(uint8_t index) const {
    const Path& path = paths_[index];
    const bool works = role_ == Role::Node ? path.state == PathState::Usable
                                           : is_live(path) && current_tuple(path).is_proven();
    return works && class_ways_[index] != nullptr && index != wire::kTcpPath &&
           path.liveness.health() == path::Health::Usable;
}

// Datagrams without packets count in lt-ld alone, where the acknowledgements leave.
void PathSet::note_class_sent(uint8_t index,
                              TrafficClass traffic_class,
                              const path::SentRun& run,
                              TimePoint now) {
    const bool counts = run.has_packets || traffic_class == TrafficClass::LtLd;
    if (index == wire::kTcpPath || !counts || run.is_size_probe || run.is_other_way) {
        return;
    }
    auto& ways = class_ways_[index];
    if (ways == nullptr) {
        ways = std::make_unique<path::ClassWays>();
    }
    ways->on_sent(traffic_class, now);
}

void PathSet::note_class_arrived(uint8_t index, TimePoint now) {
    const path::Delivery::Arrived arrived = deliveries_[index]->take_arrived();
    if (class_ways_[index] == nullptr) {
        return;
    }
    // An ACK that another path brought is no sign that this one is in use.
    if (acknowledged_by_ == index) {
        class_ways_[index]->on_arrived(arrived.any);
    }
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        const TimePoint sent_at = arrived.by_way[index_of(traffic_class)];
        if (sent_at != TimePoint{}) {
            class_ways_[index]->on_confirmed(traffic_class, sent_at, now);
        }
    }
}

void PathSet::note_unmarked_answered(uint8_t index, TimePoint since) {
    if (class_ways_[index] != nullptr) {
        class_ways_[index]->on_unmarked_answered(since);
    }
}

void PathSet::forget_sent() {
    for (const auto& ways : class_ways_) {
        if (ways != nullptr) {
            ways->forget_sent();
        }
    }
}

// Something that could have been acknowledged is not.
bool PathSet::has_unconfirmed_class(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Duration round_trip = path.rtt.has_sample() ? path.rtt.probe_timeout() : Duration{};
    return class_ways_[index] != nullptr && class_ways_[index]->has_unconfirmed(now - round_trip);
}

std::optional<Probe> PathSet::class_probe(uint8_t index, TimePoint now) {
    if (!asks_by_class(index)) {
        return std::nullopt;
    }
    while (const auto question = class_ways_[index]->next_question(now)) {
        const auto to = destination_by(index, question->traffic_class, question->way, now);
        if (!to) {
            continue;
        }
        Probe probe{index, question->traffic_class, to->to, to->from};
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
Probe PathSet::response_probe(const DueResponse& due, TimePoint now) {
    const wire::Space& space = due.space;
    Tuple& tuple = paths_[space.path].tuples[index_of(space.traffic_class)];
    const bool is_repeated = tuple.note_response(now);
    const bool is_lt_ld = space.traffic_class == TrafficClass::LtLd;
    Probe probe{space.path, space.traffic_class, tuple.remote(), tuple.local()};
    probe.response = due.response;
    probe.is_padded = due.is_padded;
    if (!is_lt_ld || due.is_doubted || is_repeated) {
        probe.way = ClassWay::Unmarked;
    }
    if (role_ == Role::Node && way_of(space.path, space.traffic_class) == ClassWay::Detour) {
        probe.tuple_class = TrafficClass::LtLd;
        probe.way = ClassWay::Detour;
    }
    probe.wants_ack = role_ == Role::Snapt && is_lt_ld && tuple.is_proven() &&
                      has_unconfirmed_class(space.path, now);
    return probe;
}

}  // namespace continuo::session
