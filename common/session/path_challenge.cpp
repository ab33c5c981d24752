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

// Which sending of the challenge was answered, counted from 0 in one byte; nothing: none.
std::optional<uint8_t> sending_of(const Tuple& tuple, const wire::ChallengeToken& token) {
    const bool is_alike = std::equal(token.begin(), token.end() - 1, tuple.token.begin());
    return is_alike ? std::optional(static_cast<uint8_t>(token.back() ^ tuple.token.back()))
                    : std::nullopt;
}

}  // namespace

// Each sending has a token of its own, so that its answer tells a round trip (RFC 6298 section 3
// takes none from what was sent more than once because there all look alike).
wire::Challenge PathSet::next_challenge(Tuple& tuple, TimePoint now) {
    tuple.asked_at = now;
    wire::Challenge challenge{tuple.token};
    challenge.token.back() ^= static_cast<uint8_t>(tuple.repetitions);
    return challenge;
}

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
        probe.challenge = next_challenge(tuple, now);
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
    const auto sending = sending_of(tuple, response.token);
    if (!tuple.is_known || tuple.challenged_at == base::kNever || !sending) {
        return false;
    }
    const bool is_first_answer = path.smoothed_rtt == Duration{};
    note_answered(space.path, tuple, *sending, now);
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
    // Link-layer addresses were looked up below during the first exchange; the active path has been
    // spoken with before, by the control connection.
    if (role_ == Role::Node && is_first_answer && active_ != space.path) {
        start_challenge(path, tuple, now);
        path.state = PathState::Usable;
    }
    return is_news;
}

void PathSet::note_answered(uint8_t index, const Tuple& tuple, uint8_t sending, TimePoint now) {
    Path& path = paths_[index];
    const bool is_newest = sending == static_cast<uint8_t>(tuple.repetitions);
    if (!is_newest && sending != 0) {
        note_rtt_bound(path, now - tuple.challenged_at);
        return;
    }
    const Duration sample = now - (is_newest ? tuple.asked_at : tuple.challenged_at);
    take_rtt_sample(path, sample);
    if (reports_[index] != nullptr) {
        reports_[index]->note_round_trip(sample);
    }
}

// RFC 6298 section 2, but for a second sample that is shorter: the first one was of an exchange
// before which addresses were looked up.
void PathSet::take_rtt_sample(Path& path, Duration sample) {
    const bool is_first = path.smoothed_rtt == Duration{};
    const bool replaces_first = path.rtt_samples == 1 && sample < path.smoothed_rtt;
    path.rtt_samples = static_cast<uint8_t>(std::min(path.rtt_samples + 1, 2));
    if (is_first || replaces_first) {
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
