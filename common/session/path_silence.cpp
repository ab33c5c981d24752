// PathSet: what silence makes of a path (docs/PROTOCOL.md section 5.1).
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

namespace {

// T_doubt and T_dead of docs/PROTOCOL.md section 5.1, and when the question is put: some round
// trips, within bounds. Without a sample the upper ones hold.
constexpr Duration kSoonestAsk = milliseconds(500);
constexpr Duration kLatestAsk = base::seconds(1);
constexpr Duration kShortestAnswer = milliseconds(300);  // some repetitions of the challenge
constexpr Duration kLongestAnswer = base::seconds(1);
constexpr Duration kDeadAfter = base::seconds(10);

constexpr Duration kDeadProbeInterval = base::seconds(1);

constexpr size_t kLtLd = base::index_of(TrafficClass::LtLd);

Duration ask_after(const Path& path) {
    const Duration patience = path.smoothed_rtt * 4 + path.rtt_variation * 4;
    return path.smoothed_rtt == Duration{} ? kLatestAsk
                                           : std::clamp(patience, kSoonestAsk, kLatestAsk);
}

Duration doubt_after(const Path& path) {
    const Duration patience = path.smoothed_rtt * 4 + path.rtt_variation * 4;
    return ask_after(path) + (path.smoothed_rtt == Duration{}
                                  ? kLongestAnswer
                                  : std::clamp(patience, kShortestAnswer, kLongestAnswer));
}

}  // namespace

void PathSet::expect_answer(Path& path, TimePoint now) {
    if (role_ == Role::Node && path.unanswered_since == base::kNever) {
        path.unanswered_since = now;
    }
}

TimePoint PathSet::silence_deadline(const Path& path) const {
    if (path.unanswered_since == base::kNever) {
        return base::kNever;
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
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        Path& path = paths_[index];
        if (silence_deadline(path) > now) {
            continue;
        }
        Tuple& tuple = path.tuples[kLtLd];
        if (path.state == PathState::Usable) {
            if (tuple.challenged_at == base::kNever) {
                start_challenge(path, tuple, now);
                path.state = PathState::Usable;
                continue;
            }
        }
        if (path.state == PathState::Usable || path.state == PathState::Challenged) {
            path.state = PathState::Doubtful;
            return index;
        }
        // Asked for as long as it is there, by announcements, since its mapping may be gone too.
        start_challenge(path, tuple, now);
        tuple.challenge_again_at = base::kNever;
        path.state = PathState::Dead;
        path.has_answered = false;
        path.announcements_due = 1;
        path.announce_again_at = now;
        path.announce_interval = kDeadProbeInterval;
        return index;
    }
    return std::nullopt;
}

void PathSet::ask_again(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.state != PathState::Dead || !path.tuples[kLtLd].is_known) {
        return;
    }
    path.announcements_due = 1;
    path.announce_again_at = now;
    path.announce_interval = kDeadProbeInterval;
}

}  // namespace continuo::session
