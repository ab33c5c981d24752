// PathSet: which way each class takes on a path (path::ClassWays).
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::index_of;
using base::TimePoint;
using base::TrafficClass;
using path::ClassWay;

ClassWay PathSet::way_of(uint8_t index, TrafficClass traffic_class) const {
    const auto& ways = class_ways_[index];
    return ways == nullptr ? ClassWay::Own : ways->way(traffic_class);
}

// Nothing is missed before it could have been confirmed (RFC 9002, 6.2.1), whatever T_ask is. The
// peer's interval of ACKs does not count: an ACK for another class names this one's numbers, too.
path::ClassWays::Times PathSet::class_times(const Path& path) {
    const base::Duration round_trip = path.rtt.probe_timeout();
    return {std::max(ask_after(path), round_trip),
            std::max<base::Duration>(doubt_after(path) - ask_after(path), round_trip),
            path.rtt.has_sample() ? std::max(kFirstProbeInterval, round_trip)
                                  : kFirstProbeInterval};
}

// The tuple by which the path is used: that of lt-ld, unless the path was heard only in others.
const Tuple& PathSet::current_tuple(const Path& path) {
    const Tuple& usual = path.tuples[index_of(TrafficClass::LtLd)];
    const auto known = std::find_if(path.tuples.begin(), path.tuples.end(),
                                    [](const Tuple& any) { return any.is_known; });
    return usual.is_known || known == path.tuples.end() ? usual : *known;
}

// While the path itself is in question its classes are not.
bool PathSet::asks_by_class(uint8_t index) const {
    const Path& path = paths_[index];
    const bool works = role_ == Role::Node ? path.state == PathState::Usable
                                           : is_live(path) && current_tuple(path).is_proven;
    return works && class_ways_[index] != nullptr && index != wire::kTcpPath && !path.needs_proof;
}

void PathSet::note_class_sent(uint8_t index, TrafficClass traffic_class, TimePoint now) {
    if (index == wire::kTcpPath) {
        return;
    }
    auto& ways = class_ways_[index];
    if (ways == nullptr) {
        ways = std::make_unique<path::ClassWays>();
    }
    ways->on_sent(traffic_class, now);
}

// Before the log of what was sent hears of it. What it has forgotten shows nothing.
void PathSet::note_class_confirmed(const Feedback& feedback) {
    const uint8_t index = feedback.space.path;
    if (class_ways_[index] == nullptr) {
        return;
    }
    TimePoint sent_at{};
    TimePoint rest_since = base::kNever;
    if (deliveries_[index] != nullptr) {
        const path::SentLog& log = deliveries_[index]->log();
        const path::NumberSpace space{feedback.epoch, wire::space_number(feedback.space)};
        sent_at = log.sent_at(space, feedback.highest).value_or(sent_at);
        rest_since = log.packets_after(space, feedback.highest).value_or(rest_since);
    }
    class_ways_[index]->on_confirmed(feedback.space.traffic_class, sent_at, rest_since);
}

void PathSet::note_class_answered(const wire::Space& space, TimePoint sent_at) {
    if (class_ways_[space.path] != nullptr) {
        class_ways_[space.path]->on_answered(space.traffic_class, sent_at);
    }
}

bool PathSet::has_unconfirmed_class(uint8_t index) const {
    return class_ways_[index] != nullptr && class_ways_[index]->has_unconfirmed();
}

std::optional<Probe> PathSet::class_probe(uint8_t index, TimePoint now) {
    if (!asks_by_class(index)) {
        return std::nullopt;
    }
    while (const auto question =
               class_ways_[index]->next_question(class_times(paths_[index]), now)) {
        const auto to = destination_by(index, question->traffic_class, question->way, now);
        if (!to) {
            continue;
        }
        Probe probe{index, question->traffic_class, to->to, to->from};
        probe.challenge = wire::Challenge{question->token};
        probe.tuple_class = to->tuple_class;
        probe.is_unmarked = to->is_unmarked;
        probe.is_class_question = true;
        return probe;
    }
    return std::nullopt;
}

// Goes to where the class was heard last. A network that drops a DSCP usually drops it both ways,
// so that answers in classes other than lt-ld leave without one. A SNAPT whose datagrams of another
// class are unconfirmed adds a PING to one in lt-ld: its acknowledgement shows that lt-ld arrives.
Probe PathSet::response_probe(const wire::Space& space) const {
    const Tuple& tuple = paths_[space.path].tuples[index_of(space.traffic_class)];
    Probe probe{space.path, space.traffic_class, tuple.remote, tuple.local};
    probe.is_unmarked = space.traffic_class != TrafficClass::LtLd;
    if (role_ == Role::Node && way_of(space.path, space.traffic_class) == ClassWay::Detour) {
        probe.tuple_class = TrafficClass::LtLd;
    }
    probe.has_ping = role_ == Role::Snapt && space.traffic_class == TrafficClass::LtLd &&
                     tuple.is_proven && has_unconfirmed_class(space.path);
    return probe;
}

}  // namespace continuo::session
