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

path::ClassWays::Times PathSet::class_times(const Path& path) {
    return {ask_after(path), doubt_after(path) - ask_after(path)};
}

// While the path itself is in question its classes are not.
bool PathSet::asks_by_class(uint8_t index) const {
    const Path& path = paths_[index];
    const bool works = role_ == Role::Node ? path.state == PathState::Usable
                                           : is_live(path) && path.tuples[0].is_proven;
    return works && class_ways_[index] != nullptr && index != wire::kTcpPath && !path.needs_proof;
}

void PathSet::note_class_sent(uint8_t index,
                              TrafficClass traffic_class,
                              uint64_t count,
                              TimePoint now) {
    if (index == wire::kTcpPath) {
        return;
    }
    auto& ways = class_ways_[index];
    if (ways == nullptr) {
        ways = std::make_unique<path::ClassWays>();
    }
    ways->on_sent(traffic_class, count, now);
}

void PathSet::note_class_confirmed(const wire::Space& space, uint64_t outstanding, TimePoint now) {
    if (class_ways_[space.path] != nullptr) {
        class_ways_[space.path]->on_confirmed(space.traffic_class, outstanding, now);
    }
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
    const auto& ways = class_ways_[space.path];
    probe.has_ping = role_ == Role::Snapt && space.traffic_class == TrafficClass::LtLd &&
                     tuple.is_proven && ways != nullptr && ways->has_unconfirmed();
    return probe;
}

}  // namespace continuo::session
