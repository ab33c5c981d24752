// PathSet: whether datagrams sent by this end arrive (docs/PROTOCOL.md section 5.1). Incoming
// datagrams prove nothing of that direction; a RESPONSE does, or an ACK that names a higher number
// than before.
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::TimePoint;

namespace {

// Unconfirmed datagrams with packets after which proof is asked for.
constexpr uint64_t kUnconfirmedDatagrams = 4;
// Upper bound of the interval, which doubles, for a peer that answers questions but sends no ACKs.
constexpr Duration kLongestPatience = base::seconds(4);

constexpr size_t kLtLd = base::index_of(base::TrafficClass::LtLd);

}  // namespace

void PathSet::note_unconfirmed(Path& path, TimePoint now) {
    if (path.unconfirmed_datagrams++ == 0) {
        path.unconfirmed_since = now;
    }
}

bool PathSet::confirm(Path& path, uint64_t outstanding, TimePoint now) {
    path.proof_wanted_from = now;
    path.unconfirmed_datagrams = outstanding;
    path.unconfirmed_since = now;
    if (!path.needs_proof) {
        return false;
    }
    path.needs_proof = false;
    path.unanswered_since = base::kNever;
    if (path.state != PathState::Doubtful) {
        return false;
    }
    return mend(path);
}

bool PathSet::on_feedback(uint8_t index, uint8_t arrived_on, uint64_t outstanding, TimePoint now) {
    Path& path = paths_[index];
    path.proof_patience = {};
    if (arrived_on == index) {
        return confirm(path, outstanding, now);
    }
    // Datagrams on another path prove nothing of the way back.
    if (!path.needs_proof) {
        confirm(path, outstanding, now);
    }
    return false;
}

// The node judges the way up. SNAPT judges the way down where it spreads; on the return path the
// node hears nothing if nothing arrives.
TimePoint PathSet::proof_deadline(uint8_t index) const {
    const Path& path = paths_[index];
    const bool is_judge =
        role_ == Role::Node ? path.state == PathState::Usable || path.state == PathState::Challenged
                            : active_ != index && path.tuples[kLtLd].is_proven && is_live(path);
    if (!is_judge || index == wire::kTcpPath || path.needs_proof) {
        return base::kNever;
    }
    if (const TimePoint asked_at = path.tuples[kLtLd].challenged_at; asked_at != base::kNever) {
        // While nothing is heard, the silence is what counts.
        return path.heard_at > asked_at
                   ? std::max(asked_at, path.proof_wanted_from) + doubt_after(path)
                   : base::kNever;
    }
    const bool is_unconfirmed = path.unconfirmed_datagrams >= kUnconfirmedDatagrams &&
                                path.heard_at > path.unconfirmed_since;
    return is_unconfirmed ? path.unconfirmed_since + std::max(ask_after(path), path.proof_patience)
                          : base::kNever;
}

// From here on only proof ends the silence.
void PathSet::ask_for_proof(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    start_challenge(path, path.tuples[kLtLd], Asks::Question, now);
    path.needs_proof = true;
    path.unanswered_since = now - ask_after(path);
    path.proof_patience =
        std::min<Duration>(std::max(path.proof_patience, ask_after(path)) * 2, kLongestPatience);
}

// True: the path has become doubtful. SNAPT only stops using it, since it owes an answer.
bool PathSet::on_proof_missing(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    if (path.tuples[kLtLd].challenged_at == base::kNever) {
        ask_for_proof(index, now);
        if (role_ == Role::Node && active_ == index) {
            ask_others(now);
        }
        return false;
    }
    path.needs_proof = true;
    path.unanswered_since = now - doubt_after(path);
    if (role_ == Role::Snapt) {
        return false;
    }
    path.health = path::Health::Doubtful;
    path.settle();
    return true;
}

void PathSet::expect_nothing(Path& path) {
    path.unanswered_since = base::kNever;
    path.unconfirmed_datagrams = 0;
    path.needs_proof = false;
}

}  // namespace continuo::session
