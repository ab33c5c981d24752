// PathSet: challenges and their answers (docs/PROTOCOL.md section 5.4), and the round trips that
// they tell.
#include "common/session/path_set.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;

namespace {

constexpr size_t kLtLd = index_of(TrafficClass::LtLd);

}  // namespace

void PathSet::start_challenge(Path& path, Tuple& tuple, TimePoint now) {
    if (path.state != PathState::Usable || role_ == Role::Node) {
        path.state = PathState::Challenged;
    }
    random_.fill(tuple.token);
    tuple.challenged_at = now;
    tuple.challenge_again_at = now;
    tuple.challenge_interval = kFirstProbeInterval;
    tuple.repetitions = 0;
    tuple.was_sent = false;
}

std::optional<Probe> PathSet::challenge_probe(uint8_t index, TimePoint now) {
    Path& path = paths_[index];
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        Tuple& tuple = path.tuples[index_of(traffic_class)];
        if (tuple.challenge_again_at > now) {
            continue;
        }
        if (now - tuple.challenged_at > kChallengeLifetime) {
            tuple.challenge_again_at = base::kNever;
            tuple.challenged_at = base::kNever;
            const bool is_there = path.needs_proof && now - path.heard_at <= kChallengeLifetime;
            if (role_ == Role::Snapt && active_ != index && !is_there) {
                expect_nothing(path);  // nothing is sent there any more
            }
            continue;
        }
        tuple.repetitions += tuple.was_sent ? 1 : 0;
        tuple.was_sent = true;
        tuple.challenge_again_at = now + tuple.challenge_interval;
        tuple.challenge_interval = longer_interval(tuple.challenge_interval);
        expect_answer(path, now);
        Probe probe{index, traffic_class, tuple.remote, tuple.local};
        probe.challenge = wire::Challenge{tuple.token};
        // Once, so that SNAPT may ask as well and send there before the node does (section 5.4).
        probe.is_padded = role_ == Role::Node && path.state == PathState::Challenged &&
                          !path.has_answered && tuple.repetitions == 0;
        if (role_ == Role::Node && is_in_doubt(now) && second_path(now) == index) {
            probe.copies = copies_frame(index);
        }
        return probe;
    }
    return std::nullopt;
}

void PathSet::on_challenge(const wire::Space& space,
                           const wire::Challenge& challenge,
                           bool was_padded) {
    for (size_t i = 0; i < response_count_; ++i) {
        if (responses_[i].space == space && responses_[i].response.token == challenge.token) {
            return;
        }
    }
    if (response_count_ < kMaxResponses) {
        responses_[response_count_++] = {space, {challenge.token}, was_padded};
    }
}

bool PathSet::on_response(const wire::Space& space, const wire::Response& response, TimePoint now) {
    Path& path = paths_[space.path];
    if (path.search.on_response(response.token, now)) {
        path.mtu = path.search.size();
        return confirm(path, 0, now);
    }
    Tuple& tuple = path.tuples[index_of(space.traffic_class)];
    if (!tuple.is_known || tuple.challenged_at == base::kNever || tuple.token != response.token) {
        return false;
    }
    if (tuple.repetitions == 0) {
        take_rtt_sample(path, now - tuple.challenged_at);  // Karn's rule (RFC 6298 section 3)
        if (reports_[space.path] != nullptr) {
            reports_[space.path]->note_round_trip(now - tuple.challenged_at);
        }
    } else {
        note_rtt_bound(path, now - tuple.challenged_at);
    }
    if (role_ == Role::Snapt && !tuple.is_proven && space.traffic_class == TrafficClass::LtLd) {
        forget_other_tuples(path);
    }
    tuple.is_proven = true;
    tuple.challenged_at = base::kNever;
    tuple.challenge_again_at = base::kNever;
    if (space.traffic_class != TrafficClass::LtLd) {
        return false;
    }
    if (active_ == space.path) {
        end_doubt();
        if (path.announce_again_at != base::kNever) {
            withdraw_again();
        }
    }
    path.announcements_due = 0;
    path.announce_again_at = base::kNever;
    const bool is_news = path.state != PathState::Usable;
    confirm(path, 0, now);
    path.state = PathState::Usable;
    path.has_answered = true;
    return is_news;
}

// RFC 6298 section 2.
void PathSet::take_rtt_sample(Path& path, Duration sample) {
    if (path.smoothed_rtt == Duration{}) {
        path.smoothed_rtt = sample;
        path.rtt_variation = sample / 2;
        return;
    }
    const Duration error =
        sample > path.smoothed_rtt ? sample - path.smoothed_rtt : path.smoothed_rtt - sample;
    path.rtt_variation = (path.rtt_variation * 3 + error) / 4;
    path.smoothed_rtt = (path.smoothed_rtt * 7 + sample) / 8;
}

// A question that was asked while the link was away tells of that, not of the path.
void PathSet::note_rtt_bound(Path& path, Duration at_most) {
    constexpr Duration kMostUseful = base::seconds(1);
    if (at_most <= kMostUseful) {
        path.rtt_at_most =
            path.rtt_at_most == Duration{} ? at_most : std::min(path.rtt_at_most, at_most);
    }
}

}  // namespace continuo::session
