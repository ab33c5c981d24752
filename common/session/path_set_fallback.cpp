// PathSet: paths that are given up while another transport carries the session, and other ports of
// the SNAPT (docs/PROTOCOL.md section 5.8).
#include "common/session/path_set.hpp"

#include <algorithm>
#include <bit>

namespace continuo::session {

using base::TimePoint;

namespace {

// Longer than a challenge lives: the next question comes from another retry().
constexpr base::Duration kNoRepetition = base::seconds(60);

}  // namespace

void PathSet::give_up(uint8_t index) {
    Path& path = paths_[index];
    path.validation = Validation::Failed;
    path.liveness.begin_anew();
    pings_due_ &= static_cast<PathMask>(~mask_of(index));
    settle(path);
    path.announcements_due = 0;
    path.announce_again_at = base::kNever;
    path.tuples[kLtLd].challenged_at = base::kNever;
    path.tuples[kLtLd].challenge_again_at = base::kNever;
}

void PathSet::retry(uint8_t index, const base::Endpoint& remote, TimePoint now) {
    Path& path = paths_[index];
    Tuple& tuple = path.tuples[kLtLd];
    if (path.state != PathState::Dead || !tuple.is_known) {
        return;
    }
    const bool has_ended =
        tuple.challenged_at == base::kNever || now - tuple.challenged_at >= kChallengeLifetime;
    if (has_ended || tuple.remote != remote) {
        path.is_redirected = path.is_redirected || tuple.remote != remote;
        for (Tuple& any : path.tuples) {
            any.remote = remote;
        }
        start_challenge(path, tuple, now, Asks::Question);
    }
    tuple.challenge_again_at = now;
    tuple.challenge_interval = kNoRepetition;
}

void PathSet::redirect(const base::Endpoint& remote, TimePoint now) {
    if (!active_) {
        return;
    }
    Path& path = paths_[*active_];
    path.is_redirected = path.is_redirected || path.tuples[kLtLd].remote != remote;
    for (Tuple& tuple : path.tuples) {
        tuple.remote = remote;
    }
    announce_anew(Asks::Question, now);
}

uint64_t PathSet::room_for(const Path& path, base::TrafficClass traffic_class) {
    if (path.room_bytes == UINT64_MAX || base::is_low_delay(traffic_class)) {
        return path.room_bytes;
    }
    return path.room_bytes - std::min(path.room_bytes, kReservedRoomBytes);
}

PathMask PathSet::with_room(PathMask paths, base::TrafficClass traffic_class) const {
    PathMask mask = paths;
    for (unsigned left = paths; left != 0; left &= left - 1) {
        const auto index = static_cast<uint8_t>(std::countr_zero(left));
        if (room_for(paths_[index], traffic_class) < paths_[index].mtu) {
            mask &= static_cast<PathMask>(~mask_of(index));
        }
    }
    return mask != 0 ? mask : paths;
}

void PathSet::trust(const wire::Space& space) {
    paths_[space.path].tuples[base::index_of(space.traffic_class)].is_proven = true;
}

}  // namespace continuo::session
