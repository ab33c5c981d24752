// PathSet: what follows from whether a path answers (docs/PROTOCOL.md section 5.1). The node judges
// its paths by path::Liveness. SNAPT leaves out paths that it spreads over in the same way, and
// asks for a sign of life over control when the return path is silent.
#include "common/session/path_set.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::milliseconds;
using base::TimePoint;
using path::Health;

namespace {

// SNAPT's patience with the return path: some round trips, within bounds. The upper bound holds
// while there is no sample.
constexpr Duration kSoonestAsk = milliseconds(500);
constexpr Duration kLatestAsk = base::seconds(1);
// TCP repeats by itself, and not sooner (RFC 6298 section 2.4).
constexpr Duration kLeastStreamTimeout = base::seconds(1);
// The way down works if the node heard SNAPT this recently: a request comes later than the data.
constexpr Duration kWorksAfterHearing = base::seconds(2);

}  // namespace

PathState state_of(Validation validation, Health health) {
    const bool is_failing = health != Health::Usable;
    switch (validation) {
    case Validation::None:
        return PathState::Unknown;
    case Validation::Failed:
        return PathState::Dead;
    case Validation::Pending:
        return is_failing ? PathState::Doubtful : PathState::Challenged;
    case Validation::Done:
        return is_failing ? PathState::Doubtful : PathState::Usable;
    }
    return PathState::Unknown;
}

// The only place that sets the state of a path.
void PathSet::settle(Path& path) const {
    path.state =
        state_of(path.validation, role_ == Role::Node ? path.liveness.health() : Health::Usable);
}

Duration PathSet::ask_after(const Path& path) {
    const Duration patience = path.smoothed_rtt() * 4 + path.rtt_variation() * 4;
    return path.smoothed_rtt() == Duration{} ? kLatestAsk
                                             : std::clamp(patience, kSoonestAsk, kLatestAsk);
}

// SNAPT's challenges ask for an address.
void PathSet::expect_answer(uint8_t index, TimePoint now) {
    if (role_ == Role::Snapt) {
        paths_[index].liveness.note_sent(now);
    } else {
        note_asked(index, now);
    }
}

void PathSet::note_asked(uint8_t index, TimePoint now) {
    const auto& delivery = deliveries_[index];
    paths_[index].liveness.on_sent(false, true,
                                   delivery != nullptr ? delivery->unacknowledged_bytes() : 0, now);
}

// An answer proves both ways.
void PathSet::confirm(uint8_t index, TimePoint now) {
    const auto& delivery = deliveries_[index];
    paths_[index].liveness.on_progress(delivery != nullptr ? delivery->unacknowledged_bytes() : 0,
                                       delivery != nullptr && delivery->has_pings(), now);
    settle(paths_[index]);
}

bool PathSet::is_overdue(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    const TimePoint since = path.liveness.unheard_since();
    // TCP loses nothing by itself.
    return active_ == index && index != wire::kTcpPath && since != base::kNever &&
           (path.life_requests.is_open() || now - since >= ask_after(path));
}

// Whether probe time-outs apply: to a SNAPT's paths that carry packets, and to all of a node. A
// dead path is probed by announcements.
bool PathSet::is_judged(uint8_t index) const {
    if (role_ == Role::Snapt && (deliveries_[index] == nullptr || index == wire::kTcpPath)) {
        return false;
    }
    return is_live(paths_[index]);
}

Duration PathSet::least_timeout(uint8_t index) {
    return index == wire::kTcpPath ? kLeastStreamTimeout : Duration{};
}

Duration PathSet::probe_timeout(uint8_t index) const {
    return std::max(least_timeout(index), deliveries_[index] != nullptr
                                              ? deliveries_[index]->probe_timeout()
                                              : paths_[index].rtt.probe_timeout());
}

TimePoint PathSet::health_deadline(uint8_t index) const {
    if (!is_judged(index)) {
        return base::kNever;
    }
    const bool detects_losses = deliveries_[index] != nullptr && index != wire::kTcpPath;
    return std::min({paths_[index].liveness.deadline(probe_timeout(index)),
                     detects_losses ? deliveries_[index]->loss_detector().deadline() : base::kNever,
                     ping_deadline(index)});
}

// When thin traffic has gone without an answer. On the return path SNAPT asks over control.
TimePoint PathSet::ping_deadline(uint8_t index) const {
    const bool asks = role_ == Role::Node || active_ != index;
    const Path& path = paths_[index];
    return asks ? path.liveness.ask_at(path.rtt.probe_timeout()) : base::kNever;
}

std::optional<uint8_t> PathSet::on_time(TimePoint now) {
    std::optional<uint8_t> told;
    any_used([&](uint8_t index) {
        if (health_deadline(index) <= now) {
            on_health_due(index, now);
        }
        if (asks_by_class(index)) {
            class_ways_[index]->on_time(class_times(index), random_, now);
        }
        const bool is_told =
            role_ == Role::Node ? follow_health(index, now) : request_deadline(index) <= now;
        if (is_told && role_ == Role::Snapt) {
            paths_[index].life_requests.on_sent(ask_after(paths_[index]), now);
        }
        if (is_told) {
            told = index;
        }
        return told.has_value();
    });
    return told;
}

void PathSet::on_health_due(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (deliveries_[index] != nullptr && index != wire::kTcpPath) {
        deliveries_[index]->on_time(now);
    }
    const bool has_timed_out = path.liveness.on_time(probe_timeout(index), now);
    // A path that has never answered is asked by challenges alone.
    const bool may_answer = role_ == Role::Snapt || path.has_answered;
    if ((has_timed_out && may_answer) || ping_deadline(index) <= now) {
        note_asked(index, now);
        pings_due_ |= mask_of(index);
    }
    // Answers to these pass where a network drops the DSCP (section 5.1).
    Tuple& tuple = path.tuples[kLtLd];
    if (role_ == Role::Node && has_timed_out && !tuple.challenge().is_open() &&
        index != wire::kTcpPath) {
        start_challenge(path, tuple, now, Asks::Question);
    }
}

// Node. True when the path has become doubtful or dead.
bool PathSet::follow_health(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (!is_live(path) || path.liveness.health() == Health::Usable) {
        return false;
    }
    if (path.liveness.health() == Health::Dead) {
        bury(index, now);
        return true;
    }
    if (path.state == PathState::Doubtful) {
        return false;
    }
    settle(path);
    ask_active_or_other(index, now);
    if (active_ == index) {
        ask_others(now);
    }
    return true;
}

TimePoint PathSet::request_deadline(uint8_t index) const {
    const Path& path = paths_[index];
    const TimePoint since = path.liveness.unheard_since();
    return active_ != index || index == wire::kTcpPath || since == base::kNever
               ? base::kNever
               : path.life_requests.due_at(since, ask_after(path));
}

// Asks by announcements for as long as the path exists, since its mapping may be gone too.
void PathSet::bury(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (!tuple.is_known()) {
        return;
    }
    path.validation = Validation::Failed;
    settle(path);
    if (!tuple.challenge().is_open()) {
        start_challenge(path, tuple, now, Asks::Question);
    }
    tuple.challenge().leave_to_announcements();
    path.has_answered = false;
    path.announcer.start(1, kLongestProbeInterval, now);
}

// Announcements ask the active path and say what was received last: SNAPT repeats the rest.
void PathSet::ask_active_or_other(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (!tuple.challenge().is_open()) {
        start_challenge(path, tuple, now, Asks::Question);
    }
    if (active_ == index && !path.announcer.is_running()) {
        tuple.challenge().leave_to_announcements();
        distrust_round_trip(index, now);
        path.announcer.start(1, tuple.challenge().interval(), now);
    }
}

// A datagram came on a failing path: what was asked in vain may be answered now. Each datagram that
// comes while only that direction works is no reason.
void PathSet::hasten(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    path::OpenChallenge& challenge = path.tuples[kLtLd].challenge();
    const Duration pause = std::max<Duration>(probe_timeout(index), path::Liveness::kAskAfter);
    if (!challenge.is_open() || now - challenge.asked_at() < pause) {
        return;
    }
    if (path.announcer.is_running()) {
        path.announcer.hasten(now);
    } else {
        challenge.hasten(now);
    }
}

// Asks the paths that may have to replace the active one or take its copies.
void PathSet::ask_others(TimePoint now) {
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        if (active_ != index) {
            probe(index, now);
        }
    }
}

bool PathSet::on_request(TimePoint idle_since, TimePoint now) {
    if (!active_) {
        return false;
    }
    Path& path = paths_[*active_];
    if (path.state != PathState::Usable || path.tuples[kLtLd].challenge().is_open()) {
        return false;  // it is being asked
    }
    if (now - path.heard_at < kWorksAfterHearing) {
        if (*active_ != wire::kTcpPath) {
            ask(*active_, now);  // one way works
        }
        return false;
    }
    path.keepalive.on_request(now - idle_since, ask_after(path), now);
    ask_active_or_other(*active_, now);
    return true;
}

void PathSet::on_keepalive(TimePoint idle_since, TimePoint now) {
    if (active_) {
        Path& path = paths_[*active_];
        path.keepalive.on_keepalive(now - idle_since, ask_after(path), now);
    }
}

void PathSet::forget_remapping() {
    remapped_ = 0;
    if (active_) {
        paths_[*active_].tuples[kLtLd].forget_remapping();
    }
}

void PathSet::ask(uint8_t index, TimePoint now) {
    if (active_ != index) {
        probe(index, now);
        return;
    }
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (path.state == PathState::Usable && !tuple.challenge().is_open()) {
        pings_due_ |= mask_of(index);
        start_challenge(path, tuple, now, Asks::Question);  // gives a round trip, too
    }
}

void PathSet::on_pause(TimePoint now) {
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        Path& path = paths_[index];
        path.liveness.begin_anew();
        settle(path);
        path.keepalive.on_pause();
        // The clock may have stopped during a sleep, so delays from before and after it cannot be
        // compared: a path that is not measured again would have an advantage or disadvantage.
        forget_delivery(index);
        // TCP's own end watches its connection.
        if (index != wire::kTcpPath && active_ != index && is_live(path)) {
            start_challenge(path, path.tuples[kLtLd], now, Asks::Validation);
        }
    }
    announce_again(now);
}

void PathSet::ask_again(uint8_t index, TimePoint at) {
    Path& path = paths_[index];
    if (path.state != PathState::Dead || !path.tuples[kLtLd].is_known()) {
        return;
    }
    path.announcer.start(1, kLongestProbeInterval, at);
}

}  // namespace continuo::session
