#include "common/path/path.hpp"

#include "common/base/assert.hpp"

#include <algorithm>

namespace continuo::path {

using base::TimePoint;
using base::TrafficClass;

Path::RolePath Path::make_role(PathParts& parts) {
    return parts.is_node() ? RolePath(std::in_place_type<NodePath>, parts)
                           : RolePath(std::in_place_type<SnaptPath>, parts);
}

Path::Path(const PathContext& context, uint8_t index)
    : parts_(context, index), role_(make_role(parts_)) {}

NodePath& Path::node() {
    CTN_ASSERT(as_node() != nullptr);
    return *as_node();
}

const NodePath& Path::node() const {
    CTN_ASSERT(as_node() != nullptr);
    return *as_node();
}

SnaptPath& Path::snapt() {
    CTN_ASSERT(as_snapt() != nullptr);
    return *as_snapt();
}

const SnaptPath& Path::snapt() const {
    CTN_ASSERT(as_snapt() != nullptr);
    return *as_snapt();
}

bool Path::on_authenticated(TrafficClass traffic_class,
                            const base::Endpoint& from,
                            const base::Endpoint& local,
                            uint64_t bytes,
                            bool is_highest,
                            TimePoint now) {
    parts_.traffic.on_authenticated(now);
    const bool was_silent = parts_.liveness.unheard_since() != base::kNever;
    parts_.liveness.on_heard(now);
    if (SnaptPath* const snapt = as_snapt()) {
        return snapt->on_authenticated(traffic_class, from, local, bytes, is_highest, now);
    }
    node().on_authenticated(traffic_class, was_silent, now);
    return false;
}

Path::Answered Path::on_response(TrafficClass traffic_class,
                                 const wire::ChallengeToken& token,
                                 bool is_active,
                                 TimePoint now) {
    if (parts_.search.on_response(token, now)) {
        const bool was_doubtful = state() == PathState::Doubtful;
        confirm(now);
        return {was_doubtful && state() == PathState::Usable};
    }
    ClassWays* const class_ways = parts_.feedback.class_ways();
    if (class_ways != nullptr && class_ways->on_response(traffic_class, token, now)) {
        return {};
    }
    Tuple& tuple = parts_.validation.tuple(traffic_class);
    const auto answer = tuple.challenge().answer(token, now);
    if (!answer) {
        return {};
    }
    parts_.traffic.on_answer(answer->round_trip);
    if (answer->is_sample) {
        parts_.feedback.on_exchange(answer->round_trip, now);
    }
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && answer->is_unmarked && class_ways != nullptr) {
        class_ways->on_unmarked_answered(tuple.challenge().since());
    }
    const ClassMask silent = parts_.validation.silent_classes(parts_.feedback.patience(), now);
    if (is_lt_ld && !tuple.is_proven()) {  // SNAPT: LtLd has a new NAT mapping
        parts_.validation.forget_other_tuples();
    }
    const bool was_elsewhere = tuple.prove();
    if (!is_lt_ld) {
        return {};
    }
    const Answered answered{state() != PathState::Usable, true, is_announcing(),
                            was_elsewhere ? silent : ClassMask{0}};
    parts_.validation.on_answered(now);
    confirm(now);
    if (NodePath* const node = as_node()) {
        node->on_answered(is_active, now);
    }
    return answered;
}

void Path::on_sent(TrafficClass tuple_class, uint64_t bytes, bool wants_answer, TimePoint now) {
    if (wants_answer) {
        parts_.liveness.note_sent(now);
    }
    parts_.traffic.on_sent(bytes);
    parts_.validation.tuple(tuple_class).on_sent(bytes);
}

void Path::on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, TimePoint now) {
    parts_.traffic.on_packets_sent(total_bytes, now);
    if (!parts_.is_tcp()) {
        parts_.search.on_sent(outer_bytes, now);
    }
}

bool Path::set_limit(uint16_t mtu) {
    const bool is_other = parts_.search.limit() != mtu;
    parts_.search.set_limit(mtu);
    return is_other;
}

std::optional<Destination> Path::destination(TrafficClass traffic_class, TimePoint now) const {
    return destination_by(traffic_class, parts_.feedback.way_of(traffic_class), now);
}

std::optional<Destination>
Path::destination_by(TrafficClass traffic_class, ClassWay way, TimePoint now) const {
    TrafficClass tuple_class = way == ClassWay::Detour ? TrafficClass::LtLd : traffic_class;
    if (const SnaptPath* const snapt = as_snapt()) {
        tuple_class = snapt->tuple_class(traffic_class, tuple_class, now);
    }
    const Tuple& tuple = parts_.validation.tuple(tuple_class);
    if (!tuple.is_known()) {
        return std::nullopt;
    }
    const uint64_t budget = std::min(parts_.traffic.room_for(traffic_class), tuple.budget_bytes());
    Destination result{parts_.index, tuple_class, tuple.remote(), tuple.local(), mtu(), budget};
    result.is_unmarked = way != ClassWay::Own;
    return result;
}

bool Path::on_acks_read(bool came_back, bool has_answered, TimePoint now) {
    if (parts_.feedback.delivery() == nullptr) {
        return false;  // the path has ended meanwhile
    }
    const bool was_doubtful = state() == PathState::Doubtful;
    parts_.feedback.on_acks_read(came_back, now);
    if (has_answered) {
        parts_.validation.on_acknowledged(now);
    }
    return was_doubtful && state() == PathState::Usable;
}

void Path::tidy(TimePoint now) {
    if (parts_.feedback.tidy(now)) {
        parts_.is_ping_due = false;
    }
}

}  // namespace continuo::path
