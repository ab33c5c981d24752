// PathSet: which path a datagram takes, and which a copy of it (docs/PROTOCOL.md sections 5.3, 5.4
// and 5.9).
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// A NAT mapping may have expired after that (RFC 4787 REQ-5 allows two minutes; many boxes take 30
// s).
constexpr Duration kMappingLifetime = base::seconds(25);
// The node keeps LtLd alive as often as it takes. Another class that was heard so much earlier may
// have lost its mapping meanwhile.
constexpr Duration kMayBeOlder = base::seconds(1);

// When others were heard for so long and the active path was not, it may be dead.
constexpr Duration kOnlyOthersHeard = base::milliseconds(100);
constexpr Duration kHeardLately = base::seconds(1);

// What left longer ago is not under way any more.
constexpr Duration kCarriesFor = base::seconds(1);

// By which a datagram may be there later that does not wait for a full socket.
constexpr Duration kWorthTheLongerWay = base::milliseconds(200);

}  // namespace

std::optional<Destination>
PathSet::destination_on(uint8_t index, TrafficClass traffic_class, TimePoint now) const {
    const Path& path = paths_[index];
    TrafficClass tuple_class = traffic_class;
    if (role_ == Role::Snapt) {
        const Tuple& own = path.tuple(traffic_class);
        const TimePoint heard_at = path.first_tuple().heard_at;
        const bool is_stale =
            now - own.heard_at > kMappingLifetime || heard_at - own.heard_at > kMayBeOlder;
        if (!own.is_known || !own.validation.is_proven() || is_stale) {
            tuple_class = TrafficClass::LtLd;
        }
        if (!path.tuple(tuple_class).is_known) {
            // The path was first heard in another class.
            tuple_class = traffic_class;
        }
    }
    const Tuple& tuple = path.tuple(tuple_class);
    if (!tuple.is_known) {
        return std::nullopt;
    }
    const uint64_t room = std::min(path.room_for(traffic_class), tuple.validation.room_for_data());
    return Destination{index, tuple_class, tuple.remote, tuple.local, path.mtu(), room};
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
        result && paths_[*active_].tuple(result->tuple_class).validation.is_proven();
    if (is_short && !is_proven) {
        // The question was lost with its answer, and nothing that comes allows another.
        const auto other = heard_instead(now);
        return other ? destination_on(*other, traffic_class, now) : result;
    }
    return result;
}

// What delivers while the active path does not.
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
    const Tuple& tuple = path.first_tuple();
    if (role_ == Role::Node) {
        return path.state() == PathState::Doubtful || tuple.validation.is_asked();
    }
    return !tuple.validation.is_proven() || paths_[*active_].is_overdue(now) ||
           any_used([&](uint8_t index) { return paths_[index].copies().is_on(now); });
}

bool PathSet::may_copy_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.first_tuple();
    if (active_ == index || !tuple.is_known || !path.is_live()) {
        return false;
    }
    if (role_ == Role::Node) {
        return path.state() != PathState::Doubtful || former_ == index;
    }
    return now - tuple.heard_at <= kMappingLifetime || path.copies().is_on(now);
}

// First the one that was left or asked for, then what has answered, then the faster.
bool PathSet::is_second_better(uint8_t candidate, uint8_t other, TimePoint now) const {
    const auto rank = [&](uint8_t index) {
        const Path& path = paths_[index];
        if (former_ == index || path.copies().is_on(now)) {
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

std::optional<wire::Announce> PathSet::copies_frame(uint8_t path) const {
    wire::Announce announce;
    announce.path = path;
    announce.copy_wanted = true;
    announce.number = announcement_number_;
    return announce;
}

void PathSet::end_copies() {
    for (Path& path : paths_) {
        path.end_copies();
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
        const Tuple& tuple = paths_[*active_].first_tuple();
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
        const bool is_due = path.state() == PathState::Challenged ||
                            (path.state() == PathState::Usable && now - path.heard_at() >= longest);
        if (active_ != index && is_due) {
            paths_[index].probe(now);
        }
    }
}

// What was told before the announcement may have been lost with it.
void PathSet::withdraw_again() {
    for (unsigned left = ended_; left != 0; left &= left - 1) {
        uint8_t& due = withdrawals_due_[static_cast<size_t>(std::countr_zero(left))];
        due = std::max<uint8_t>(due, 1);
    }
    withdrawing_ |= ended_;
}

bool PathSet::may_spread_on(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const Tuple& tuple = path.first_tuple();
    if (!tuple.is_known || !tuple.validation.is_proven() || !path.is_live() || path.is_late(now)) {
        return false;
    }
    if (role_ == Role::Node) {
        const bool is_heard = active_ == index || now - path.heard_at() <= kMappingLifetime;
        return path.has_answered() && path.state() != PathState::Doubtful && is_heard;
    }
    return !path.was_left_silent() && now - tuple.heard_at <= kMappingLifetime;
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

Duration PathSet::smallest_rtt() const {
    Duration smallest{};
    any_used([&](uint8_t index) {
        const Duration rtt = paths_[index].smoothed_rtt();
        const bool is_smaller = smallest == Duration{} || rtt < smallest;
        if (paths_[index].is_live() && rtt != Duration{} && is_smaller) {
            smallest = rtt;
        }
        return false;
    });
    return smallest;
}

// Without what a queue adds, which passes, and what waited in a silence of the link.
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

// A path is silent when an acknowledgement that is owed did not come in time. When none is owed, it
// is silent if nothing came after what was sent while other paths are heard. Gives the beginning of
// the silence; kNever: the path is not silent.
TimePoint PathSet::silent_since(uint8_t index, PathMask paths, TimePoint now) const {
    const path::Delivery* const delivery = paths_[index].delivery();
    if (delivery == nullptr) {
        return base::kNever;
    }
    if (delivery->liveness().timeouts() > 0) {
        return delivery->liveness().owed_since();
    }
    const TimePoint since = delivery->liveness().unheard_since();
    const bool is_late = since != base::kNever && now - since >= delivery->probe_timeout();
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
    const Tuple& tuple = path.first_tuple();
    const bool is_proven = tuple.is_known && tuple.validation.is_proven();
    if (active_ != index && is_heard && is_proven && !path.is_failing() &&
        !path.was_left_silent()) {
        return index;
    }
    const auto usual = upkeep_destination(now);
    return usual ? std::optional(usual->path) : std::nullopt;
}

// By which the one-way delay of `path` is longer than that of `other`: all are told by the same two
// clocks, so that those of two paths can be compared.
std::optional<Duration> PathSet::delay_beyond(uint8_t path, uint8_t other) const {
    if (paths_[path].delivery() == nullptr || paths_[other].delivery() == nullptr) {
        return std::nullopt;
    }
    const auto own = paths_[path].delivery()->relative_delay().smallest();
    const auto theirs = paths_[other].delivery()->relative_delay().smallest();
    if (!own || !theirs) {
        return std::nullopt;
    }
    return wire::kAckTimeUnit * path::RelativeDelay::above(*own, *theirs);
}

// As base_rtt(); of a path without a sample, the most that it can be.
Duration PathSet::expected_rtt(uint8_t index) const {
    const Duration known = base_rtt(index);
    return known != Duration{} ? known : paths_[index].rtt_at_most();
}

// By which each of the paths is slower than the fastest, each way and queues apart: by the delays
// that ACKs tell, and by half the round trips as long as these do not tell of all. False: too
// little is known.
bool PathSet::delays_beyond_fastest(PathMask paths, PathDelays& more) const {
    const auto first = static_cast<uint8_t>(std::countr_zero(paths));
    bool is_told = true;
    bool is_measured = true;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        is_told = is_told && delay_beyond(index, first).has_value();
        is_measured = is_measured && expected_rtt(index) != Duration{};
    }
    if (!is_told && !is_measured) {
        return false;
    }
    Duration smallest = Duration::max();
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        more[index] = is_told ? *delay_beyond(index, first) : expected_rtt(index) / 2;
        smallest = std::min(smallest, more[index]);
    }
    for (unsigned left = paths; left != 0; left &= left - 1) {
        more[static_cast<size_t>(std::countr_zero(left))] -= smallest;
    }
    return true;
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
        if (paths_[index].room_for(traffic_class) < paths_[index].mtu()) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : paths;
}

std::optional<PathSet::Arrival>
PathSet::soonest_arrival(PathMask paths, const PathDelays& more, TimePoint now) const {
    std::optional<Arrival> best;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        const Path& path = paths_[index];
        const path::Delivery* const delivery = paths_[index].delivery();
        const Duration queueing =
            delivery != nullptr
                ? delivery->queueing(path.mtu(), now)
                : path::Delivery::time_for(path.mtu(), path::Delivery::kAssumedBytesPerS);
        const TimePoint at = now + more[index] + queueing;
        if (!best || at < best->at) {
            best = {index, at};
        }
    }
    return best;
}

std::optional<uint8_t>
PathSet::soonest(PathMask paths, TrafficClass traffic_class, TimePoint now) const {
    PathDelays more{};
    if (!delays_beyond_fastest(paths, more)) {
        return std::nullopt;
    }
    const auto first = soonest_arrival(paths, more, now);
    const PathMask open = with_room(paths, traffic_class);
    const auto instead = open != paths ? soonest_arrival(open, more, now) : first;
    // What waits for the socket may still be there sooner.
    return instead->at - first->at <= kWorthTheLongerWay ? instead->path : first->path;
}

}  // namespace continuo::session
