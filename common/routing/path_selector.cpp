#include "common/routing/path_selector.hpp"

#include <algorithm>

namespace continuo::routing {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using path::kMappingLifetime;

namespace {

// If others were heard this much later than the active path, it may be dead.
constexpr Duration kOnlyOthersHeard = base::milliseconds(100);
constexpr Duration kHeardLately = base::seconds(1);

// A datagram that left longer ago is no longer under way.
constexpr Duration kCarriesFor = base::seconds(1);

}  // namespace

std::optional<Destination> PathSelector::destination(TrafficClass traffic_class,
                                                     TimePoint now) const {
    if (!table_.active) {
        return std::nullopt;
    }
    const auto result = destination_on(*table_.active, traffic_class, now);
    const bool is_short = result && result->budget_bytes < result->mtu;
    if (is_short && base::is_low_delay(traffic_class)) {
        const auto other = copy_destination(traffic_class, *table_.active, false, now);
        return other ? other : result;
    }
    const bool is_proven =
        result && table_.paths[*table_.active].validation().tuple(result->tuple_class).is_proven();
    if (is_short && !is_proven) {
        // The challenge was lost with its answer, and no datagram comes that would allow another.
        const auto other = heard_instead(now);
        return other ? destination_on(*other, traffic_class, now) : result;
    }
    return result;
}

// A path that delivers while the active path does not; nothing: there is none.
std::optional<uint8_t> PathSelector::heard_instead(TimePoint now) const {
    const auto heard_at = [this](uint8_t index) {
        return table_.paths[index].traffic().heard_at();
    };
    std::optional<uint8_t> other;
    table_.any_used([&](uint8_t index) {
        const TimePoint at = heard_at(index);
        if (index != wire::kTcpPath && at > heard_at(*table_.active) + kOnlyOthersHeard &&
            now - at < kHeardLately && may_spread_on(index, now) &&
            (!other || at > heard_at(*other))) {
            other = index;
        }
        return false;
    });
    return other;
}

std::optional<Destination> PathSelector::upkeep_destination(TimePoint now) const {
    const auto result = destination(TrafficClass::LtLd, now);
    if (!result || *table_.active == wire::kTcpPath) {
        return result;
    }
    const auto other = heard_instead(now);
    return other ? destination_on(*other, TrafficClass::LtLd, now) : result;
}

bool PathSelector::is_in_doubt(TimePoint now) const {
    if (!table_.active) {
        return false;
    }
    const Path& path = table_.paths[*table_.active];
    const Tuple& tuple = path.validation().lt_ld();
    if (table_.is_node()) {
        // A mere probe is no doubt yet.
        const bool is_in_question = path.validation().state() == Validation::Pending ||
                                    path.node().announcer().is_running();
        return path.state() == PathState::Doubtful ||
               (tuple.challenge().is_open() && is_in_question);
    }
    return !tuple.is_proven() || path.snapt().is_overdue(now) ||
           table_.any_used([&](uint8_t index) { return is_copy_wanted(index, now); });
}

// SNAPT: the node has asked for copies on that path.
bool PathSelector::is_copy_wanted(uint8_t index, TimePoint now) const {
    return !table_.is_node() && table_.paths[index].snapt().copy_request().is_open(now);
}

bool PathSelector::may_copy_on(uint8_t index, TimePoint now) const {
    const Path& path = table_.paths[index];
    const Tuple& tuple = path.validation().lt_ld();
    if (table_.active == index || !tuple.is_known() || !is_live(path.state())) {
        return false;
    }
    if (table_.is_node()) {
        return path.state() != PathState::Doubtful || table_.former == index;
    }
    return now - tuple.heard_at() <= kMappingLifetime || is_copy_wanted(index, now);
}

// Prefers the path that was left or asked for, then one that has answered, then the faster one.
bool PathSelector::is_second_better(uint8_t candidate, uint8_t other, TimePoint now) const {
    const auto rank = [&](uint8_t index) {
        const Path& path = table_.paths[index];
        if (table_.former == index || is_copy_wanted(index, now)) {
            return 0;
        }
        return path.state() == PathState::Usable ? 1 : 2;
    };
    if (rank(candidate) != rank(other)) {
        return rank(candidate) < rank(other);
    }
    const Duration own = table_.paths[candidate].feedback().smoothed_rtt();
    const Duration theirs = table_.paths[other].feedback().smoothed_rtt();
    return own != Duration{} && (theirs == Duration{} || own < theirs);
}

std::optional<uint8_t> PathSelector::second_path(TimePoint now) const {
    std::optional<uint8_t> best;
    table_.any_used([&](uint8_t index) {
        if (index != wire::kTcpPath && may_copy_on(index, now) &&
            (!best || is_second_better(index, *best, now))) {
            best = index;
        }
        return false;
    });
    return best;
}

std::optional<Destination> PathSelector::copy_destination(TrafficClass traffic_class,
                                                          uint8_t original,
                                                          bool always,
                                                          TimePoint now) const {
    if (!table_.active || (!always && !is_in_doubt(now))) {
        return std::nullopt;
    }
    const auto target = original != *table_.active ? table_.active : second_path(now);
    if (!target) {
        return std::nullopt;
    }
    const auto result = destination_on(*target, traffic_class, now);
    return result && result->budget_bytes >= result->mtu ? result : std::nullopt;
}

bool PathSelector::may_spread_on(uint8_t index, TimePoint now) const {
    const Path& path = table_.paths[index];
    const Tuple& tuple = path.validation().lt_ld();
    if (!tuple.is_known() || !tuple.is_proven() || !is_live(path.state()) ||
        path.liveness().health() != recovery::Health::Usable) {
        return false;
    }
    if (table_.is_node()) {
        const bool is_heard =
            table_.active == index || now - path.traffic().heard_at() <= kMappingLifetime;
        return path.validation().has_answered() && path.state() != PathState::Doubtful && is_heard;
    }
    return !path.snapt().was_left_silent() && now - tuple.heard_at() <= kMappingLifetime;
}

PathMask PathSelector::spread(Duration difference, TimePoint now) const {
    if (!table_.active) {
        return 0;
    }
    if (*table_.active == wire::kTcpPath) {
        return mask_of(*table_.active);
    }
    PathMask mask = 0;
    Duration fastest = Duration::max();
    table_.any_used([&](uint8_t index) {
        if (index != wire::kTcpPath && may_spread_on(index, now)) {
            mask |= mask_of(index);
            const Duration rtt = table_.paths[index].feedback().rtt().minimum();
            fastest = rtt != Duration{} ? std::min(fastest, rtt) : fastest;
        }
        return false;
    });
    // Minimal round trips leave out queues, which are temporary, and waits in a silent link.
    for (unsigned left = fastest != Duration::max() ? mask : 0U; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (table_.paths[index].feedback().rtt().minimum() > fastest + 2 * difference) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : mask_of(*table_.active);
}

bool PathSelector::is_other_heard(uint8_t index, PathMask paths) const {
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const TimePoint at =
            table_.paths[static_cast<size_t>(std::countr_zero(left))].traffic().heard_at();
        if (at > table_.paths[index].traffic().heard_at() + kOnlyOthersHeard) {
            return true;
        }
    }
    return false;
}

// For the choice among several paths, which is no judgement: a path is silent when an
// acknowledgement that is owed did not come in time. When none is owed, it is silent if nothing
// came after what was sent while other paths are heard. Gives the beginning of the silence; kNever:
// the path is not silent.
TimePoint PathSelector::silent_since(uint8_t index, PathMask paths, TimePoint now) const {
    if (table_.paths[index].feedback().delivery() == nullptr) {
        return base::kNever;
    }
    const recovery::Liveness& liveness = table_.paths[index].liveness();
    if (liveness.timeouts() > 0) {
        return liveness.owed_since();
    }
    const TimePoint since = liveness.unheard_since();
    const bool is_late =
        since != base::kNever && now - since >= table_.paths[index].feedback().probe_timeout();
    return is_late && is_other_heard(index, paths) ? since : base::kNever;
}

PathMask PathSelector::answering(PathMask paths, Duration patience, TimePoint now) const {
    PathMask mask = paths;
    PathMask newest = paths;
    TimePoint newest_at{};
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const TimePoint since = silent_since(index, paths, now);
        if (since == base::kNever) {
            continue;
        }
        if (now - since >= patience) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
        if (since > newest_at) {
            newest_at = since;
            newest = mask_of(index);
        }
    }
    return mask != 0 ? mask : newest;
}

std::optional<uint8_t> PathSelector::acknowledges_by(uint8_t index, TimePoint now) const {
    const Path& path = table_.paths[index];
    const path::PathValidation::Tuples& tuples = path.validation().tuples();
    const bool is_heard = table_.active && path.traffic().heard_at() + kOnlyOthersHeard >=
                                               table_.paths[*table_.active].traffic().heard_at();
    const bool is_known = std::any_of(tuples.begin(), tuples.end(), [](const Tuple& any) {
        return any.is_known() && any.is_proven();
    });
    const bool is_left = !table_.is_node() && path.snapt().was_left_silent();
    if (table_.active != index && is_heard && is_known && !is_failing(path.state()) && !is_left) {
        return index;
    }
    const auto usual = upkeep_destination(now);
    return usual ? std::optional(usual->path) : std::nullopt;
}

PathMask PathSelector::carrying(PathMask paths, TimePoint now) const {
    PathMask mask = 0;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (now - table_.paths[index].traffic().packets_sent_at() <= kCarriesFor) {
            mask |= mask_of(index);
        }
    }
    return mask;
}

PathMask PathSelector::with_room(PathMask paths, base::TrafficClass traffic_class) const {
    PathMask mask = paths;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const Path& path = table_.paths[index];
        if (path.traffic().room_for(traffic_class) < path.mtu()) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : paths;
}

}  // namespace continuo::routing
