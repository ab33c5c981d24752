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
// The node keeps the LtLd mapping alive. Another class that was last heard this much earlier may
// have lost its mapping.
constexpr Duration kMayBeOlder = base::seconds(1);

// Duration of a single request for copies, if the path then answers.
constexpr Duration kShortestCopies = base::milliseconds(200);

// If others were heard this much later than the active path, it may be dead.
constexpr Duration kOnlyOthersHeard = base::milliseconds(100);
constexpr Duration kHeardLately = base::seconds(1);

// A datagram that left longer ago is no longer under way.
constexpr Duration kCarriesFor = base::seconds(1);

}  // namespace

std::optional<Destination>
PathSet::destination_on(uint8_t index, TrafficClass traffic_class, TimePoint now) const {
    return destination_by(index, traffic_class, way_of(index, traffic_class), now);
}

std::optional<Destination> PathSet::destination_by(uint8_t index,
                                                   TrafficClass traffic_class,
                                                   path::ClassWay way,
                                                   TimePoint now) const {
    const Path& path = paths_[index];
    TrafficClass tuple_class = way == path::ClassWay::Detour ? TrafficClass::LtLd : traffic_class;
    if (role_ == Role::Snapt) {
        const Tuple& own = path.tuples[index_of(traffic_class)];
        const TimePoint heard_at = path.tuples[kLtLd].heard_at;
        const bool is_stale =
            now - own.heard_at > kMappingLifetime || heard_at - own.heard_at > kMayBeOlder;
        if (!own.is_known || !own.is_proven || is_stale) {
            tuple_class = TrafficClass::LtLd;
        }
        if (!path.tuples[index_of(tuple_class)].is_known) {
            // The path was first heard in another class.
            tuple_class = traffic_class;
        }
    }
    const Tuple& tuple = path.tuples[index_of(tuple_class)];
    if (!tuple.is_known) {
        return std::nullopt;
    }
    const uint64_t room = room_for(path, traffic_class);
    Destination result{index, tuple_class, tuple.remote, tuple.local, path.mtu, room};
    result.is_unmarked = way != path::ClassWay::Own;
    if (!tuple.is_proven) {
        const uint64_t allowed = tuple.unproven_received_bytes * wire::kAmplificationFactor;
        const uint64_t taken = tuple.unproven_sent_bytes + kChallengeRoomBytes;
        result.budget_bytes = std::min(room, allowed - std::min(allowed, taken));
    }
    return result;
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
        result && paths_[*active_].tuples[index_of(result->tuple_class)].is_proven;
    if (is_short && !is_proven) {
        // The challenge was lost with its answer, and no datagram comes that would allow another.
        const auto other = heard_instead(now);
        return other ? destination_on(*other, traffic_class, now) : result;
    }
    return result;
}

// A path that delivers while the active path does not; nothing: there is none.
std::optional<uint8_t> PathSet::heard_instead(TimePoint now) const {
    const TimePoint heard_at = paths_[*active_].heard_at;
    std::optional<uint8_t> other;
    any_used([&](uint8_t index) {
        const TimePoint at = paths_[index].heard_at;
        if (index != wire::kTcpPath && at > heard_at + kOnlyOthersHeard &&
            now - at < kHeardLately && may_spread_on(index, now) &&
            (!other || at > paths_[*other].heard_at)) {
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
    const Tuple& tuple = path.tuples[kLtLd];
    if (role_ == Role::Node) {
        // A mere probe is no doubt yet.
        const bool is_in_question =
            path.validation == Validation::Pending || path.announce_again_at != base::kNever;
        return path.state == PathState::Doubtful ||
               (tuple.challenged_at != base::kNever && is_in_question);
    }
    return !tuple.is_proven || is_overdue(*active_, now) ||
           any_used([&](uint8_t index) { return paths_[index].copies_until > now; });
}

bool PathSet::may_copy_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.tuples[kLtLd];
    if (active_ == index || !tuple.is_known || !is_live(path)) {
        return false;
    }
    if (role_ == Role::Node) {
        return path.state != PathState::Doubtful || former_ == index;
    }
    return now - tuple.heard_at <= kMappingLifetime || path.copies_until > now;
}

// Prefers the path that was left or asked for, then one that has answered, then the faster one.
bool PathSet::is_second_better(uint8_t candidate, uint8_t other, TimePoint now) const {
    const auto rank = [&](uint8_t index) {
        const Path& path = paths_[index];
        if (former_ == index || path.copies_until > now) {
            return 0;
        }
        return path.state == PathState::Usable ? 1 : 2;
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

std::optional<wire::Announce> PathSet::copies_frame(uint8_t path) const {
    wire::Announce announce;
    announce.path = path;
    announce.copy_wanted = true;
    announce.number = announcement_number_;
    return announce;
}

// The request is repeated at doubling intervals, so it is valid for as long as it has existed.
void PathSet::want_copies(Path& path, TimePoint now) {
    if (path.copies_until < now) {
        path.copies_since = now;
    }
    const Duration life = kShortestCopies + (now - path.copies_since) * 2;
    path.copies_until = now + std::min<Duration>(life, wire::kCopiesLifetime);
}

void PathSet::end_copies() {
    for (Path& path : paths_) {
        path.copies_until = {};
    }
}

// The active path has answered.
void PathSet::end_doubt() {
    former_.reset();
    end_copies();
}

std::optional<Probe> PathSet::withdrawal_probe() {
    while (has_withdrawals()) {
        const auto index = static_cast<uint8_t>(std::countr_zero(withdrawing_));
        if (--withdrawals_due_[index] == 0 || active_ == index) {
            withdrawing_ &= static_cast<PathMask>(~mask_of(index));
        }
        if (active_ == index) {
            continue;
        }
        const Tuple& tuple = paths_[*active_].tuples[kLtLd];
        Probe probe{*active_, TrafficClass::LtLd, tuple.remote, tuple.local};
        probe.announce.emplace();
        probe.announce->path = index;
        probe.announce->withdrawn = true;
        probe.announce->number = announcement_number_;
        return probe;
    }
    return std::nullopt;
}

void PathSet::keep_ready(Duration longest, TimePoint now) {
    tells_withdrawals_ = true;
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        const Path& path = paths_[index];
        const bool is_due = path.state == PathState::Challenged ||
                            (path.state == PathState::Usable && now - path.heard_at >= longest);
        if (active_ != index && is_due) {
            probe(index, now);
        }
    }
}

// Withdrawals sent before the announcement may have been lost with it.
void PathSet::withdraw_again() {
    for (unsigned left = ended_; left != 0; left &= left - 1) {
        uint8_t& due = withdrawals_due_[static_cast<size_t>(std::countr_zero(left))];
        due = std::max<uint8_t>(due, 1);
    }
    withdrawing_ |= ended_;
}

bool PathSet::may_spread_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.tuples[kLtLd];
    if (!tuple.is_known || !tuple.is_proven || !is_live(path) ||
        path.liveness.health() != path::Health::Usable) {
        return false;
    }
    if (role_ == Role::Node) {
        const bool is_heard = active_ == index || now - path.heard_at <= kMappingLifetime;
        return path.has_answered && path.state != PathState::Doubtful && is_heard;
    }
    return !path.was_left_silent && now - tuple.heard_at <= kMappingLifetime;
}

Duration PathSet::largest_rtt() const {
    Duration largest{};
    any_used([&](uint8_t index) {
        const Path& path = paths_[index];
        largest = is_live(path) ? std::max(largest, path.smoothed_rtt()) : largest;
        return false;
    });
    return largest;
}

Duration PathSet::smallest_rtt() const {
    Duration smallest{};
    any_used([&](uint8_t index) {
        const Duration rtt = paths_[index].smoothed_rtt();
        const bool is_smaller = smallest == Duration{} || rtt < smallest;
        if (is_live(paths_[index]) && rtt != Duration{} && is_smaller) {
            smallest = rtt;
        }
        return false;
    });
    return smallest;
}

// Excludes the delay of queues, which is temporary, and of waiting in a silent link.
Duration PathSet::base_rtt(uint8_t index) const {
    return paths_[index].rtt.minimum();
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
        const TimePoint at = paths_[static_cast<size_t>(std::countr_zero(left))].heard_at;
        if (at > paths_[index].heard_at + kOnlyOthersHeard) {
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
    if (deliveries_[index] == nullptr) {
        return base::kNever;
    }
    const path::Liveness& liveness = paths_[index].liveness;
    if (liveness.timeouts() > 0) {
        return liveness.owed_since();
    }
    const TimePoint since = liveness.unheard_since();
    const bool is_late = since != base::kNever && now - since >= probe_timeout(index);
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
    const bool is_heard = active_ && path.heard_at + kOnlyOthersHeard >= paths_[*active_].heard_at;
    const bool is_known = std::any_of(path.tuples.begin(), path.tuples.end(), [](const Tuple& any) {
        return any.is_known && any.is_proven;
    });
    if (active_ != index && is_heard && is_known && !path.is_failing() && !path.was_left_silent) {
        return index;
    }
    const auto usual = upkeep_destination(now);
    return usual ? std::optional(usual->path) : std::nullopt;
}

PathMask PathSet::carrying(PathMask paths, TimePoint now) const {
    PathMask mask = 0;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (now - paths_[index].packets_sent_at <= kCarriesFor) {
            mask |= mask_of(index);
        }
    }
    return mask;
}

}  // namespace continuo::session
