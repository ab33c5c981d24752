// PathManager: TCP in UDP's place, and the ports of UDP (docs/PROTOCOL.md section 5.8).
#include "policy/path_manager.hpp"

#include <algorithm>

namespace continuo::policy {

using base::Duration;
using base::TimePoint;
using path::PathState;

namespace {

using Kind = PathStep::Kind;

constexpr Duration kNextPortAfter = base::seconds(2);
constexpr Duration kNextPortInterval = base::seconds(1);
// A part of the silence, where nothing is sent.
constexpr int64_t kNextPortShare = 8;
constexpr Duration kNextPortLongest = base::seconds(300);
// A connection that a NAT has forgotten stays silent until TCP gives it up; a link that pauses does
// not.
constexpr Duration kStuckAfter = base::seconds(3);
constexpr Duration kMendInterval = base::seconds(10);
// An answer of TCP shows for so long that it carries.
constexpr Duration kAnsweredLately = base::seconds(3);
// TCP that owes an answer for so long, or so many round trips, ends its trial or moves to another
// uplink: as long as UDP is waited for.
constexpr Duration kStreamSilentAfter = kAskStreamAfter;
constexpr int64_t kStreamSilentAfterRtts = 4;

}  // namespace

void PathManager::on_stream_closed(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    if (!is_on_stream_) {
        return;
    }
    fallback_.on_stream_ended(now);
    // TCP may be back at once, by the same uplink, where the best route leads nowhere.
    const std::optional<uint8_t> former = active_;
    const WayFacts* next = facts.find(former);
    if (next == nullptr || !next->can_carry || !next->is_wanted) {
        next = facts.best(facts.cut());
    }
    if (next != nullptr) {
        activate(facts, next->slot, now, steps);
    } else {
        begin();
    }
    if (active_ != former) {
        steps.push_back({.kind = Kind::Moved});
    }
}

void PathManager::consider_stream(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    stream_due_ = base::kNever;
    const WayFacts* const active = facts.find(active_);
    if (!facts.stream.is_open || active == nullptr || is_on_stream_) {
        return;
    }
    UdpFacts udp;
    udp.unanswered_since = active->unanswered_since;
    udp.was_proven = active->received_datagrams > 0;
    udp.has_other_answered =
        std::any_of(facts.ways.begin(), facts.ways.end(), [active](const WayFacts& way) {
            return way.slot != active->slot && way.state == PathState::Usable;
        });
    const TcpFallback::Decision decision = fallback_.decide(udp, now);
    stream_due_ = decision.again_at;
    if (decision.step == TcpFallback::Step::AskStream) {
        steps.push_back({.kind = Kind::Probe, .slot = wire::kTcpPath});
        for (const WayFacts& way : facts.ways) {
            if (way.slot != active->slot) {
                steps.push_back({.kind = Kind::Probe, .slot = way.slot});
            }
        }
    } else if (decision.step == TcpFallback::Step::UseStream) {
        use_stream(facts, "UDP does not get through", now, steps);
    }
}

void PathManager::use_stream(const PathFacts& facts,
                             const char* reason,
                             TimePoint now,
                             PathSteps& steps) {
    const std::optional<uint8_t> former = active_;
    if (const WayFacts* const by = facts.find(facts.stream.slot)) {
        active_ = by->slot;
    }
    is_on_stream_ = true;
    fallback_.on_stream_used(now);
    steps.push_back(
        {.kind = Kind::UseStream, .slot = *active_, .former = former, .reason = reason});
    if (active_ != former) {
        steps.push_back({.kind = Kind::Moved});
    }
}

// A path that was given up for TCP is asked as one that fell silent; where UDP is throttled it is
// not taken back for as long as TCP is kept at first, and longer if that happens again.
void PathManager::leave_stream(const PathFacts& facts,
                               uint8_t slot,
                               TimePoint now,
                               PathSteps& steps) {
    fallback_.on_udp_used(now);
    throttled_ &= static_cast<WaySet>(~way_bit(slot));
    for (const WayFacts& way : facts.ways) {
        if (way.slot == slot || way.state != PathState::Dead) {
            continue;
        }
        if (throttle_.keeps_stream() && (throttled_ & way_bit(way.slot)) != 0) {
            bar(way.slot, UdpThrottle::kFirstStay, UdpThrottle::kLongestStay, now);
        }
        steps.push_back({.kind = Kind::Bury, .slot = way.slot});
    }
}

// Where UDP is throttled TCP is kept; another interface is another network.
bool PathManager::may_ask_udp(const WayFacts& way) const {
    const bool is_throttled = throttle_.keeps_stream() && (throttled_ & way_bit(way.slot)) != 0;
    return way.is_wanted && !is_throttled;
}

// Where TCP is silent too, what UDP still carries is more.
bool PathManager::asks_udp(const PathFacts& facts, const WayFacts& way, TimePoint now) const {
    return may_ask_udp(way) || (way.is_wanted && is_stream_silent(facts, now));
}

void PathManager::ask_udp(const PathFacts& facts, TimePoint now, PathSteps& steps) const {
    for (const WayFacts& way : facts.ways) {
        if (asks_udp(facts, way, now)) {
            steps.push_back({.kind = Kind::Retry, .slot = way.slot});
        }
    }
}

// One port at a time of each IP version, so that it is clear which one answers.
void PathManager::ask_next_port(const PathFacts& facts, TimePoint now, PathSteps& steps) const {
    if (std::any_of(facts.ways.begin(), facts.ways.end(),
                    [&](const WayFacts& way) { return asks_udp(facts, way, now); })) {
        steps.push_back({.kind = Kind::NextPort});
        ask_udp(facts, now, steps);
    }
}

void PathManager::retry_udp(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    if (is_on_stream_ &&
        fallback_.wants_retry(facts.sent_packets, is_stream_silent(facts, now), now)) {
        ask_next_port(facts, now, steps);
    }
}

void PathManager::watch_throttle(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    if (!active_) {
        return;
    }
    const WaySet same_network = facts.beside(*active_);
    const WayFacts* const active = facts.find(active_);
    UdpTraffic traffic = facts.traffic;
    traffic.network = active != nullptr ? active->network : 0;
    for (const WayFacts& way : facts.ways) {
        const bool is_other = (same_network & way_bit(way.slot)) == 0;
        if (is_other && facts.is_spread && way.received_datagrams > 0) {
            other_heard_at_ = std::max({other_heard_at_, way.heard_at, way.arrived_at});
        }
    }
    traffic.other_heard_at = other_heard_at_;
    traffic.is_stream_silent = is_stream_silent(facts, now);
    // One that owes an answer, or has given none, may carry nothing.
    const bool has_answered =
        stream_answered_at_ != base::kNever && now - stream_answered_at_ <= kAnsweredLately;
    const bool may_try =
        facts.stream.is_open && has_answered && facts.stream.unanswered_since == base::kNever;
    switch (throttle_.on_tick(traffic, is_on_stream_, may_try, now)) {
    case UdpThrottle::Step::TryStream:
        // Others that were found throttled were left too lately to be fine again.
        throttled_ = same_network | (throttled_ & barred(now));
        use_stream(facts, "UDP loses much", now, steps);
        ask_udp(facts, now, steps);  // an idle uplink that answers is better
        break;
    case UdpThrottle::Step::TryUdp:
        throttled_ = 0;
        if (!traffic.is_stream_silent) {
            stream_mended_at_ = now;  // by UDP, if that answers
        }
        ask_next_port(facts, now, steps);
        break;
    case UdpThrottle::Step::None:
        if (throttle_.wants_stream() && facts.stream.is_open) {
            steps.push_back({.kind = Kind::Probe, .slot = wire::kTcpPath});
        }
        break;
    }
}

bool PathManager::is_stream_silent(const PathFacts& facts, TimePoint now) const {
    const StreamFacts& stream = facts.stream;
    const Duration patience =
        std::max<Duration>(kStreamSilentAfter, kStreamSilentAfterRtts * stream.smoothed_rtt);
    return is_on_stream_ && stream.unanswered_since != base::kNever &&
           now - std::max(stream.unanswered_since, stream_mended_at_) >= patience;
}

// A way by another interface than the active one, not found bad lately; null: there is none.
const WayFacts* PathManager::other_way(const PathFacts& facts, TimePoint now) const {
    const WayFacts* const other = facts.best(facts.cut() | facts.beside(*active_) | barred(now));
    return other != nullptr && other->has_route ? other : nullptr;
}

// The uplink may be what makes TCP silent: the next connection is made by another. False: TCP is
// not silent, or there is no other.
bool PathManager::move_stream(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    const WayFacts* const other = is_stream_silent(facts, now) ? other_way(facts, now) : nullptr;
    if (other == nullptr) {
        return false;
    }
    bar(*active_, kFirstBar, kLongestBar, now);
    active_ = other->slot;
    stream_mended_at_ = now;
    steps.push_back({.kind = Kind::MoveStream, .slot = other->slot});
    steps.push_back({.kind = Kind::Moved});
    return true;
}

// Another connection in the place of one that has been stuck for long.
void PathManager::mend_stream(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    if (!active_ || move_stream(facts, now, steps)) {
        return;
    }
    // UDP that is silent waits for TCP's answer as well.
    const WayFacts* const active = facts.find(active_);
    const bool is_wanted =
        !is_on_stream_ && facts.has_control && active != nullptr && path::is_failing(active->state);
    if (!is_on_stream_ && !is_wanted) {
        return;
    }
    // Where there is another uplink, all are tried.
    const bool is_race = is_wanted && other_way(facts, now) != nullptr;
    const StreamFacts& stream = facts.stream;
    const Duration patience =
        is_race ? std::max<Duration>(kAskedBefore, kStreamSilentAfterRtts * stream.smoothed_rtt)
                : kStuckAfter;
    const bool is_silent =
        stream.unanswered_since != base::kNever && now - stream.unanswered_since >= patience;
    if (is_silent && now - stream_mended_at_ >= kMendInterval) {
        stream_mended_at_ = now;
        steps.push_back({.kind = Kind::RenewStream});
    }
}

// When the one in use is silent and TCP does not help.
void PathManager::try_next_port(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    const WayFacts* const active = facts.find(active_);
    if (is_on_stream_ || active == nullptr || facts.udp_ports < 2) {
        return;
    }
    const TimePoint since = active->unanswered_since;
    if (since == base::kNever || now - since < kNextPortAfter) {
        return;
    }
    // A SNAPT that is away is asked ever less by a node that has nothing to send.
    const Duration interval = active->packets_sent_at > port_taken_at_
                                  ? kNextPortInterval
                                  : std::clamp<Duration>((now - since) / kNextPortShare,
                                                         kNextPortInterval, kNextPortLongest);
    if (now - port_taken_at_ >= interval) {
        port_taken_at_ = now;
        steps.push_back({.kind = Kind::Redirect});
    }
}

}  // namespace continuo::policy
