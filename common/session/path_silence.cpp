// PathSet: how silence changes the state of a path (docs/PROTOCOL.md section 5.1).
#include "common/session/path_set.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

namespace {

// T_doubt and T_dead of docs/PROTOCOL.md section 5.1, and when the path is asked: some round trips,
// within bounds. The upper bounds hold while there is no sample.
constexpr Duration kSoonestAsk = milliseconds(500);
constexpr Duration kLatestAsk = base::seconds(1);
constexpr Duration kShortestAnswer = milliseconds(300);  // some repetitions of the challenge
constexpr Duration kLongestAnswer = base::seconds(1);
// For a suspect path, whose silence is expected.
constexpr Duration kSoonestAskOfSuspect = milliseconds(200);
constexpr Duration kShortestAnswerOfSuspect = milliseconds(200);
constexpr Duration kDeadAfter = base::seconds(10);

constexpr Duration kDeadProbeInterval = base::seconds(1);

// SNAPT's requests for a sign of life double their interval up to this.
constexpr Duration kLongestRequestInterval = base::seconds(25);
// The way down works if the node heard SNAPT this recently: a request comes later than the data.
constexpr Duration kWorksAfterHearing = base::seconds(2);

constexpr size_t kLtLd = base::index_of(TrafficClass::LtLd);

}  // namespace

Duration PathSet::ask_after(const Path& path) {
    const Duration patience = path.smoothed_rtt() * 4 + path.rtt_variation() * 4;
    const Duration soonest = path.is_suspect ? kSoonestAskOfSuspect : kSoonestAsk;
    return path.smoothed_rtt() == Duration{} ? kLatestAsk
                                             : std::clamp(patience, soonest, kLatestAsk);
}

Duration PathSet::doubt_after(const Path& path) {
    const Duration patience = path.smoothed_rtt() * 4 + path.rtt_variation() * 4;
    const Duration shortest = path.is_suspect ? kShortestAnswerOfSuspect : kShortestAnswer;
    return ask_after(path) + (path.smoothed_rtt() == Duration{}
                                  ? kLongestAnswer
                                  : std::clamp(patience, shortest, kLongestAnswer));
}

void PathSet::expect_answer(Path& path, TimePoint now) {
    if (path.unanswered_since == base::kNever) {
        path.unanswered_since = now;
    }
}

// SNAPT: signs of life that come unasked; the next silence is reported anew.
void PathSet::note_sign_of_life(Path& path, TimePoint now) {
    if (std::exchange(path.is_requested, false)) {
        path.request_answered_at = now;
    } else if (now - path.request_answered_at > ask_after(path)) {
        path.request_interval = {};
    }
}

// Nothing may come up on the return path for long although it delivers: the node may send by other
// paths.
bool PathSet::is_late(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    if (path.unanswered_since == base::kNever) {
        return false;
    }
    const TimePoint since = role_ == Role::Snapt && active_ == index
                                ? std::max(path.unanswered_since, path.proof_wanted_from)
                                : path.unanswered_since;
    return now - since >= doubt_after(path);
}

bool PathSet::is_overdue(uint8_t index, TimePoint now) const {
    const Path& path = paths_[index];
    // TCP loses nothing by itself.
    return active_ == index && index != wire::kTcpPath && path.unanswered_since != base::kNever &&
           (path.is_requested || now - path.unanswered_since >= ask_after(path));
}

TimePoint PathSet::silence_deadline(const Path& path) const {
    if (path.unanswered_since == base::kNever) {
        return base::kNever;
    }
    if (role_ == Role::Snapt) {
        if (active_ != &path - paths_.data()) {
            const Tuple& tuple = path.tuples[kLtLd];
            const bool may_ask = tuple.is_known && tuple.challenged_at == base::kNever;
            return may_ask ? path.unanswered_since + ask_after(path) : base::kNever;
        }
        return active_ == wire::kTcpPath ? base::kNever
                                         : std::max(path.unanswered_since, path.requested_at) +
                                               std::max(ask_after(path), path.request_interval);
    }
    switch (path.state) {
    case PathState::Usable:
        return path.unanswered_since + (path.tuples[kLtLd].challenged_at == base::kNever
                                            ? ask_after(path)
                                            : doubt_after(path));
    case PathState::Challenged:
        return path.unanswered_since + doubt_after(path);
    case PathState::Doubtful:
        return path.unanswered_since + kDeadAfter;
    case PathState::Unknown:
    case PathState::Dead:
        break;
    }
    return base::kNever;
}

std::optional<uint8_t> PathSet::on_time(TimePoint now) {
    std::optional<uint8_t> silent;
    any_used([&](uint8_t index) {
        if (is_probed(index) && deliveries_[index]->deadline() <= now &&
            deliveries_[index]->on_time(now)) {
            pings_due_ |= mask_of(index);
        }
        pings_due_ |= ping_deadline(index) <= now ? mask_of(index) : PathMask{0};
        if (asks_by_class(index)) {
            class_ways_[index]->on_time(class_times(index), random_, now);
        }
        const bool is_told = proof_deadline(index) <= now
                                 ? on_proof_missing(index, now)
                                 : silence_deadline(paths_[index]) <= now && on_silence(index, now);
        if (is_told) {
            silent = index;
        }
        return silent.has_value();
    });
    return silent;
}

bool PathSet::on_silence(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (role_ == Role::Snapt && active_ != index) {
        start_challenge(path, path.tuples[kLtLd], Asks::Validation, now);
        return false;
    }
    if (role_ == Role::Snapt) {
        path.requested_at = now;
        path.is_requested = true;
        path.request_interval = std::min<Duration>(
            std::max(path.request_interval, ask_after(path)) * 2, kLongestRequestInterval);
        return true;
    }
    Tuple& tuple = path.tuples[kLtLd];
    path.is_streaming = false;
    if (path.state == PathState::Usable && tuple.challenged_at == base::kNever) {
        ask_active_or_other(index, now);
        if (active_ == index) {
            ask_others(now);
        }
        return false;
    }
    if (path.state == PathState::Usable || path.state == PathState::Challenged) {
        path.health = path::Health::Doubtful;
        path.settle();
        return true;
    }
    bury(index, now);
    return true;
}

// Asks by announcements for as long as the path exists, since its mapping may be gone too.
void PathSet::bury(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (!tuple.is_known) {
        return;
    }
    start_challenge(path, tuple, Asks::Question, now);
    tuple.challenge_again_at = base::kNever;
    path.validation = Validation::Failed;
    path.settle();
    path.has_answered = false;
    path.announcements_due = 1;
    path.announce_again_at = now;
    path.announce_interval = kDeadProbeInterval;
}

// Announcements ask the active path and say what was received last: SNAPT repeats the rest.
void PathSet::ask_active_or_other(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    start_challenge(path, path.tuples[kLtLd], Asks::Question, now);
    if (active_ == index) {
        path.tuples[kLtLd].challenge_again_at = base::kNever;
        distrust_round_trip(index, now);
        path.announcements_due = 1;
        path.announce_interval = path.tuples[kLtLd].challenge_interval;
        path.announce_again_at = now;
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
    const bool is_asked = path.tuples[kLtLd].challenged_at != base::kNever;
    if (path.state != PathState::Usable || is_asked) {
        return false;  // it is being asked
    }
    if (now - path.heard_at < kWorksAfterHearing) {
        if (*active_ != wire::kTcpPath) {
            ask_for_proof(*active_, now);  // one way works
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
        paths_[*active_].tuples[kLtLd].is_remapped = false;
    }
}

void PathSet::ask(uint8_t index, TimePoint now) {
    if (active_ != index) {
        probe(index, now);
        return;
    }
    Path& path = paths_[index];
    const bool is_asked = path.tuples[kLtLd].challenged_at != base::kNever;
    if (path.state == PathState::Usable && !is_asked) {
        ask_active_or_other(index, now);
    }
}

void PathSet::on_pause(TimePoint now) {
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        Path& path = paths_[index];
        path.unanswered_since = base::kNever;
        path.is_streaming = false;
        path.keepalive.on_pause();
        // The clock may have stopped during a sleep, so delays from before and after it cannot be
        // compared: a path that is not measured again would have an advantage or disadvantage.
        forget_delivery(index);
        // TCP's own end watches its connection.
        if (index != wire::kTcpPath && active_ != index && is_live(path)) {
            start_challenge(path, path.tuples[kLtLd], Asks::Validation, now);
        }
    }
    announce_again(now);
}

void PathSet::ask_again(uint8_t index, TimePoint at) {
    Path& path = paths_[index];
    if (path.state != PathState::Dead || !path.tuples[kLtLd].is_known) {
        return;
    }
    path.announcements_due = 1;
    path.announce_again_at = at;
    path.announce_interval = kDeadProbeInterval;
}

}  // namespace continuo::session
