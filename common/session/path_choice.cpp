// PathSet: which path a datagram takes, and which its copy (docs/PROTOCOL.md sections 5.3, 5.4 and
// 5.9).
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Age at which a NAT mapping may have expired (RFC 4787 REQ-5 requires two minutes; many boxes take
// 30 s).
constexpr Duration kMappingLifetime = base::seconds(25);
// If others were heard this much later than the active path, it may be dead.
constexpr Duration kOnlyOthersHeard = base::milliseconds(100);
constexpr Duration kHeardLately = base::seconds(1);

// A datagram that left longer ago is no longer under way.
constexpr Duration kCarriesFor = base::seconds(1);

}  // namespace

std::optional<Destination>
PathSet::destination_on(uint8_t index, TrafficClass traffic_class, TimePoint now) const {
    const Path& path = paths_[index];
    return path.destination(traffic_class, path.way_of(traffic_class), now);
}

std::optional<Destination> PathSet::destination(TrafficClass traffic_class, TimePoint now) const {
    if (!active_) {
        return std::nullopt;
    }
    const auto result = destination_on(*active_, traffic_class, now);
    const bool is_short = result && result->budget_bytes < result->mtu;
    if (is_short && base::is_low_delay(traffic_class)) {
        const auto other = copy_destination(traffic_class, *active_, false, now);
        return other ? other : result;
    }
    const bool is_proven =
        result && paths_[*active_].tuples()[index_of(result->tuple_class)].is_proven();
    if (is_short && !is_proven) {
        // The challenge was lost with its answer, and no datagram comes that would allow another.
        const auto other = heard_instead(now);
        return other ? destination_on(*other, traffic_class, now) : result;
    }
    return result;
}

// A path that delivers while the active path does not; nothing: there is none.
std::optional<uint8_t> PathSet::heard_instead(TimePoint now) const {
    const TimePoint heard_at = paths_[*active_].heard_at();
    std::optional<uint8_t> other;
    any_used([&](uint8_t index) {
        const TimePoint at = paths_[index].heard_at();
        if (index != wire::kTcpPath && at > heard_at + kOnlyOthersHeard &&
            now - at < kHeardLately && may_spread_on(index, now) &&
            (!other || at > paths_[*other].heard_at())) {
            other = index;
        }
        return false;
    });
    return other;
}

std::optional<Destination> PathSet::upkeep_destination(TimePoint now) const {
    const auto result = destination(TrafficClass::LtLd, now);
    if (!result || *active_ == wire::kTcpPath) {
        return result;
    }
    const auto other = heard_instead(now);
    return other ? destination_on(*other, TrafficClass::LtLd, now) : result;
}

bool PathSet::is_in_doubt(TimePoint now) const {
    if (!active_) {
        return false;
    }
    const Path& path = paths_[*active_];
    const Tuple& tuple = path.lt_ld();
    if (context_.role == Role::Node) {
        // A mere probe is no doubt yet.
        const bool is_in_question =
            path.validation() == Validation::Pending || path.announcer().is_running();
        return path.state() == PathState::Doubtful ||
               (tuple.challenge().is_open() && is_in_question);
    }
    return !tuple.is_proven() || is_overdue(*active_, now) ||
           any_used([&](uint8_t index) { return paths_[index].copy_request().is_open(now); });
}

bool PathSet::may_copy_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.lt_ld();
    if (active_ == index || !tuple.is_known() || !path.is_live()) {
        return false;
    }
    if (context_.role == Role::Node) {
        return path.state() != PathState::Doubtful || former_ == index;
    }
    return now - tuple.heard_at() <= kMappingLifetime || path.copy_request().is_open(now);
}

// Prefers the path that was left or asked for, then one that has answered, then the faster one.
bool PathSet::is_second_better(uint8_t candidate, uint8_t other, TimePoint now) const {
    const auto rank = [&](uint8_t index) {
        const Path& path = paths_[index];
        if (former_ == index || path.copy_request().is_open(now)) {
            return 0;
        }
        return path.state() == PathState::Usable ? 1 : 2;
    };
    if (rank(candidate) != rank(other)) {
        return rank(candidate) < rank(other);
    }
    const Duration own = paths_[candidate].smoothed_rtt();
    const Duration theirs = paths_[other].smoothed_rtt();
    return own != Duration{} && (theirs == Duration{} || own < theirs);
}

std::optional<uint8_t> PathSet::second_path(TimePoint now) const {
    std::optional<uint8_t> best;
    any_used([&](uint8_t index) {
        if (index != wire::kTcpPath && may_copy_on(index, now) &&
            (!best || is_second_better(index, *best, now))) {
            best = index;
        }
        return false;
    });
    return best;
}

std::optional<Destination> PathSet::copy_destination(TrafficClass traffic_class,
                                                     uint8_t original,
                                                     bool always,
                                                     TimePoint now) const {
    if (!active_ || (!always && !is_in_doubt(now))) {
        return std::nullopt;
    }
    const auto target = original != *active_ ? active_ : second_path(now);
    if (!target) {
        return std::nullopt;
    }
    const auto result = destination_on(*target, traffic_class, now);
    return result && result->budget_bytes >= result->mtu ? result : std::nullopt;
}

bool PathSet::may_spread_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.lt_ld();
    if (!tuple.is_known() || !tuple.is_proven() || !path.is_live() ||
        path.liveness().health() != recovery::Health::Usable) {
        return false;
    }
    if (context_.role == Role::Node) {
        const bool is_heard = active_ == index || now - path.heard_at() <= kMappingLifetime;
        return path.has_answered() && path.state() != PathState::Doubtful && is_heard;
    }
    return !path.was_left_silent() && now - tuple.heard_at() <= kMappingLifetime;
}

Duration PathSet::largest_rtt() const {
    Duration largest{};
    any_used([&](uint8_t index) {
        const Path& path = paths_[index];
        largest = path.is_live() ? std::max(largest, path.smoothed_rtt()) : largest;
        return false;
    });
    return largest;
}

// Excludes the delay of queues, which is temporary, and of waiting in a silent link.
Duration PathSet::base_rtt(uint8_t index) const {
    return paths_[index].rtt().minimum();
}

PathMask PathSet::spread(Duration difference, TimePoint now) const {
    if (!active_) {
        return 0;
    }
    if (*active_ == wire::kTcpPath) {
        return mask_of(*active_);
    }
    PathMask mask = 0;
    Duration fastest = Duration::max();
    any_used([&](uint8_t index) {
        if (index != wire::kTcpPath && may_spread_on(index, now)) {
            mask |= mask_of(index);
            const Duration rtt = base_rtt(index);
            fastest = rtt != Duration{} ? std::min(fastest, rtt) : fastest;
        }
        return false;
    });
    for (unsigned left = fastest != Duration::max() ? mask : 0U; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (base_rtt(index) > fastest + 2 * difference) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : mask_of(*active_);
}

bool PathSet::is_other_heard(uint8_t index, PathMask paths) const {
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const TimePoint at = paths_[static_cast<size_t>(std::countr_zero(left))].heard_at();
        if (at > paths_[index].heard_at() + kOnlyOthersHeard) {
            return true;
        }
    }
    return false;
}

// For the choice among several paths, which is no judgement: a path is silent when an
// acknowledgement that is owed did not come in time. When none is owed, it is silent if nothing
// came after what was sent while other paths are heard. Gives the beginning of the silence; kNever:
// the path is not silent.
TimePoint PathSet::silent_since(uint8_t index, PathMask paths, TimePoint now) const {
    if (paths_[index].delivery() == nullptr) {
        return base::kNever;
    }
    const recovery::Liveness& liveness = paths_[index].liveness();
    if (liveness.timeouts() > 0) {
        return liveness.owed_since();
    }
    const TimePoint since = liveness.unheard_since();
    const bool is_late = since != base::kNever && now - since >= paths_[index].probe_timeout();
    return is_late && is_other_heard(index, paths) ? since : base::kNever;
}

PathMask PathSet::answering(PathMask paths, Duration patience, TimePoint now) const {
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

std::optional<uint8_t> PathSet::acknowledges_by(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const bool is_heard =
        active_ && path.heard_at() + kOnlyOthersHeard >= paths_[*active_].heard_at();
    const bool is_known =
        std::any_of(path.tuples().begin(), path.tuples().end(),
                    [](const Tuple& any) { return any.is_known() && any.is_proven(); });
    if (active_ != index && is_heard && is_known && !path.is_failing() && !path.was_left_silent()) {
        return index;
    }
    const auto usual = upkeep_destination(now);
    return usual ? std::optional(usual->path) : std::nullopt;
}

PathMask PathSet::carrying(PathMask paths, TimePoint now) const {
    PathMask mask = 0;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (now - paths_[index].packets_sent_at() <= kCarriesFor) {
            mask |= mask_of(index);
        }
    }
    return mask;
}

PathMask PathSet::with_room(PathMask paths, base::TrafficClass traffic_class) const {
    PathMask mask = paths;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (!paths_[index].has_room(traffic_class)) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : paths;
}

}  // namespace continuo::session
