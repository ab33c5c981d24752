// PathSet: challenges, their answers (docs/PROTOCOL.md section 5.4), and the round trips they give.
#include "common/session/path_set.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;

namespace {

// The last byte of the token is the number of the sending, from 0; all from this one on look alike.
constexpr uint32_t kLastSending = UINT8_MAX;
// A longer time includes an outage of the link, and is not a round trip.
constexpr Duration kMostUsefulRtt = base::seconds(1);

bool is_unmarked_sending(uint32_t sending) {
    return sending % 2 == 1;
}

// The sending of the challenge that was answered; nothing: none.
std::optional<uint32_t> sending_of(const Tuple& tuple, const wire::ChallengeToken& token) {
    const auto sending = static_cast<uint32_t>(token.back() ^ tuple.token.back());
    const bool is_of_it = std::equal(token.begin(), token.end() - 1, tuple.token.begin());
    return is_of_it && sending <= tuple.repetitions ? std::optional(sending) : std::nullopt;
}

}  // namespace

void Probe::serialize(base::ByteWriter& body) const {
    if (announce) {
        announce->serialize(body);
    }
    if (copies) {
        copies->serialize(body);
    }
    if (challenge) {
        challenge->serialize(body);
    }
    if (response) {
        response->serialize(body);
    }
}

// Each sending has its own token, so that its answer gives a round trip (RFC 6298 section 3 ignores
// repeated segments only because they cannot be told apart).
wire::Challenge PathSet::stamp_challenge(Tuple& tuple, TimePoint now) {
    tuple.repetitions += tuple.was_sent && tuple.asked_at != now ? 1U : 0U;
    tuple.was_sent = true;
    tuple.asked_at = now;
    wire::Challenge challenge{tuple.token};
    challenge.token.back() ^= static_cast<uint8_t>(std::min(tuple.repetitions, kLastSending));
    return challenge;
}

// Every second repetition leaves without DSCP, which the network may drop (section 5.1).
std::optional<path::ClassWay> PathSet::way_of_sending(const Tuple& tuple) {
    return is_unmarked_sending(tuple.repetitions) ? std::optional(path::ClassWay::Unmarked)
                                                  : std::nullopt;
}

void PathSet::start_challenge(Path& path, Tuple& tuple, Asks asks, TimePoint now) {
    if (asks == Asks::Validation && (role_ == Role::Node || path.validation != Validation::Done)) {
        path.validation = Validation::Pending;
        path.health = path::Health::Usable;
        path.settle();
    }
    random_.fill(tuple.token);
    tuple.challenged_at = now;
    tuple.challenge_again_at = now;
    tuple.challenge_interval = kFirstProbeInterval;
    tuple.repetitions = 0;
    tuple.was_sent = false;
    tuple.is_withheld = false;
}

void PathSet::on_withheld(const Probe& probe) {
    if (probe.is_class_question) {
        return;  // it is repeated
    }
    Tuple& tuple = paths_[probe.path].tuples[index_of(probe.traffic_class)];
    tuple.is_withheld = tuple.is_withheld || probe.challenge.has_value();
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
        tuple.challenge_again_at = now + tuple.challenge_interval;
        tuple.challenge_interval = longer_interval(tuple.challenge_interval);
        expect_answer(path, now);
        Probe probe{index, traffic_class, tuple.remote, tuple.local};
        probe.challenge = stamp_challenge(tuple, now);
        probe.way = way_of_sending(tuple);
        probe.wants_ack = role_ == Role::Node && has_unconfirmed_class(index, now);
        probe.has_ping =
            traffic_class == TrafficClass::LtLd && role_ == Role::Node && take_ping(index);
        // Padded only once, so that SNAPT may ask as well and send there before the node does
        // (section 5.4).
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
                           bool was_padded,
                           bool is_doubted,
                           bool is_mere_question) {
    for (size_t i = 0; i < response_count_; ++i) {
        if (responses_[i].space == space && responses_[i].response.token == challenge.token) {
            return;
        }
    }
    const DueResponse due{space, {challenge.token}, was_padded, is_doubted};
    if (response_count_ < kMaxResponses) {
        // The last one in the array leaves first.
        auto* const place = responses_.data() + (is_mere_question ? 0 : response_count_);
        std::move_backward(place, responses_.data() + response_count_,
                           responses_.data() + response_count_ + 1);
        *place = due;
        ++response_count_;
        return;
    }
    // When many sendings of one challenge arrive at once, the newest is the best sample.
    const auto oldest = std::find_if(responses_.begin(), responses_.end(),
                                     [&](const DueResponse& any) { return any.space == space; });
    if (oldest != responses_.end()) {
        *oldest = due;
    }
}

bool PathSet::on_response(const wire::Space& space, const wire::Response& response, TimePoint now) {
    Path& path = paths_[space.path];
    if (path.search.on_response(response.token, now)) {
        path.mtu = path.search.size();
        return confirm(path, 0, now);
    }
    if (class_ways_[space.path] != nullptr &&
        class_ways_[space.path]->on_response(space.traffic_class, response.token, now)) {
        return false;
    }
    Tuple& tuple = path.tuples[index_of(space.traffic_class)];
    const auto sending = sending_of(tuple, response.token);
    if (!tuple.is_known || tuple.challenged_at == base::kNever || !sending) {
        return false;
    }
    note_answered(space.path, tuple, *sending, now);
    if (space.traffic_class == TrafficClass::LtLd && is_unmarked_sending(*sending)) {
        note_unmarked_answered(space.path, tuple.challenged_at);
    }
    const ClassMask silent = silent_classes(path, now);
    if (role_ == Role::Snapt && !tuple.is_proven && space.traffic_class == TrafficClass::LtLd) {
        forget_other_tuples(path);
    }
    tuple.is_proven = true;
    tuple.challenged_at = base::kNever;
    tuple.challenge_again_at = base::kNever;
    const bool was_elsewhere = std::exchange(tuple.is_remapped, false);
    if (space.traffic_class != TrafficClass::LtLd) {
        return false;
    }
    if (active_ == space.path) {
        remapped_ |= was_elsewhere ? silent : ClassMask{0};
        end_doubt();
        if (path.announce_again_at != base::kNever) {
            withdraw_again();
        }
    }
    path.announcements_due = 0;
    path.announce_again_at = base::kNever;
    const bool is_awaited =
        role_ == Role::Node && space.path != wire::kTcpPath && has_failing_active(space.path);
    const bool is_news = path.state != PathState::Usable || is_awaited;
    confirm(path, 0, now);
    path.has_answered = true;
    path.answered_at = now;
    mend(path);
    // Link-layer addresses were resolved during the first exchange. Acknowledgements will measure
    // the active path, and TCP resolved them when it connected.
    if (role_ == Role::Node && !std::exchange(path.was_asked_again, true) &&
        active_ != space.path && space.path != wire::kTcpPath) {
        start_challenge(path, tuple, Asks::Question, now);
    }
    return is_news;
}

// Classes whose mappings a NAT that lost the mapping of lt-ld may have lost as well.
ClassMask PathSet::silent_classes(const Path& path, TimePoint now) const {
    ClassMask silent = mask_of(TrafficClass::LtLd);
    for (size_t i = 0; i < path.tuples.size(); ++i) {
        const bool is_heard =
            path.tuples[i].is_known && now - path.tuples[i].heard_at < ask_after(path);
        silent |= is_heard ? ClassMask{0} : mask_of(static_cast<TrafficClass>(i));
    }
    return silent;
}

void PathSet::note_answered(uint8_t index, const Tuple& tuple, uint32_t sending, TimePoint now) {
    Path& path = paths_[index];
    const Duration since_first = now - tuple.challenged_at;
    const bool is_newest = sending == tuple.repetitions;
    ++path.answers;
    path.last_round_trip = is_newest ? now - tuple.asked_at : since_first;
    if (!is_newest && (sending != 0 || since_first > kMostUsefulRtt)) {
        note_rtt_bound(path, since_first);
        return;
    }
    const Duration sample = is_newest ? now - tuple.asked_at : since_first;
    path.rtt.on_exchange(sample, now);
}

void PathSet::note_rtt_bound(Path& path, Duration at_most) {
    if (at_most <= kMostUsefulRtt) {
        path.rtt_at_most =
            path.rtt_at_most == Duration{} ? at_most : std::min(path.rtt_at_most, at_most);
    }
}

}  // namespace continuo::session
