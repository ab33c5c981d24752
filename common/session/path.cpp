#include "common/session/path.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::TimePoint;
using base::TrafficClass;

namespace {

constexpr Duration kDeadProbeInterval = base::seconds(1);
// Nobody answers for long: an active path is announced as often as a mapping needs it, another one
// ever less.
constexpr Duration kLongestPatience = base::seconds(300);
// So short a time ago something came in: SNAPT asks later than it sends.
constexpr Duration kWorksAfterHearing = base::seconds(2);

}  // namespace

// --- Beginning and end

void Path::begin(const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    end();
    state_ = PathState::Challenged;
    search_.begin(mtu);
    heard_at_ = now;
    for (Tuple& tuple : tuples_) {
        tuple.remote = remote;
        tuple.is_known = true;
        tuple.validation.trust();  // configured: no amplification limit towards a SNAPT
        tuple.heard_at = now;
    }
}

// The measurement refers to this object, so it goes first.
void Path::end() {
    const bool was_active = is_active_;
    delivery_.reset();
    *this = Path(index_, role_, *random_);
    state_ = PathState::Dead;
    is_active_ = was_active;
}

// --- Questions

void Path::challenge(Tuple& tuple, TimePoint now) {
    if (state_ != PathState::Usable || role_ == Role::Node) {
        state_ = PathState::Challenged;
    }
    tuple.validation.start(*random_, now);
}

void Path::probe(TimePoint now) {
    if (!is_asked() && (state_ == PathState::Challenged || state_ == PathState::Usable)) {
        challenge(first(), now);
    }
}

void Path::announce(TimePoint now) {
    announcements_.begin(wire::kAnnounceCopies, path::kFirstProbeInterval, now);
    if (delivery_ != nullptr) {
        delivery_->distrust_times(now);
    }
    challenge(first(), now);
    first().validation.leave_to_announcements();
}

// The active path is asked by announcements, which say what was received last: SNAPT repeats the
// rest. Datagrams that the silence held up are sent again, and old acknowledgements with them.
void Path::challenge_or_announce(TimePoint now) {
    challenge(first(), now);
    if (!is_active_) {
        return;
    }
    first().validation.leave_to_announcements();
    if (delivery_ != nullptr) {
        delivery_->distrust_times(now);
    }
    announcements_.begin(1, path::kFirstProbeInterval, now);
}

void Path::ask(TimePoint now) {
    if (!is_active_) {
        probe(now);
    } else if (state_ == PathState::Usable && !is_asked()) {
        announce_usable(now);
    }
}

void Path::announce_usable(TimePoint now) {
    challenge_or_announce(now);
    state_ = PathState::Usable;
}

void Path::ask_again(TimePoint at) {
    if (state_ == PathState::Dead && first().is_known) {
        announcements_.begin(1, kDeadProbeInterval, at);
    }
}

void Path::give_up() {
    state_ = PathState::Dead;
    silence_.end();
    announcements_.stop();
    first().validation.stop();
}

void Path::retry(const base::Endpoint& remote, TimePoint now) {
    if (state_ != PathState::Dead || !first().is_known) {
        return;
    }
    if (!is_asked() || first().remote != remote) {
        for (Tuple& tuple : tuples_) {
            tuple.remote = remote;
        }
        challenge(first(), now);
        state_ = PathState::Dead;
        announcements_.stop();
    }
    first().validation.ask_once(now);  // the next question is another retry()
}

// Asked for as long as it is there, by announcements, since its mapping may be gone too.
void Path::bury(TimePoint now) {
    if (!first().is_known) {
        return;
    }
    challenge(first(), now);
    first().validation.leave_to_announcements();
    state_ = PathState::Dead;
    has_answered_ = false;
    announcements_.begin(1, kDeadProbeInterval, now);
}

void Path::redirect(const base::Endpoint& remote, TimePoint now) {
    for (Tuple& tuple : tuples_) {
        tuple.remote = remote;
    }
    const PathState state = state_;
    announce(now);
    state_ = state;  // a doubt ends with an answer
}

bool Path::on_request(TimePoint idle_since, TimePoint now) {
    if (state_ != PathState::Usable || is_asked()) {
        return false;  // it is being asked
    }
    if (now - heard_at_ < kWorksAfterHearing) {
        if (!is_tcp()) {
            ask_for_proof(now);  // one way works
        }
        return false;
    }
    keepalive_.on_request(now - idle_since, now + patience().ask);
    challenge_or_announce(now);
    state_ = PathState::Usable;
    return true;
}

// In a sleep the clock may have stood still, so that delays from before cannot be compared with
// those after it: a path that is not measured again would lose, or win, by them.
void Path::on_pause(TimePoint now) {
    silence_.on_pause();
    keepalive_.on_pause();
    forget_delivery();
    // TCP's connection is looked after by its own end.
    if (!is_tcp() && !is_active_ && is_live()) {
        challenge(first(), now);
    }
}

// --- SNAPT

void Path::on_announced(uint16_t mtu, bool is_new) {
    if (is_new) {
        forget_other_tuples();
    }
    if (mtu >= path::MtuSearch::kSmallest) {
        search_.set_limit(mtu);
    }
}

// An index is used again with other sockets behind it, or the mapping of LtLd at a NAT has become
// another: so may have those of the others. LtLd serves all classes until they are heard.
void Path::forget_other_tuples() {
    std::fill(tuples_.begin() + 1, tuples_.end(), Tuple{});
}

bool Path::on_source(TrafficClass traffic_class,
                     const base::Endpoint& from,
                     const base::Endpoint& local,
                     uint64_t bytes,
                     bool is_highest,
                     TimePoint now) {
    Tuple& tuple = tuples_[index_of(traffic_class)];
    const bool is_same = tuple.is_known && tuple.remote == from && tuple.local == local;
    if (!is_same && !is_highest) {
        return false;
    }
    if (!is_same) {
        move_tuple(traffic_class, from, local, now);
    }
    tuple.heard_at = now;
    if (!tuple.validation.is_proven()) {
        tuple.validation.on_received(bytes, now);
        if (!tuple.validation.is_asked()) {
            challenge(tuple, now);
        }
    }
    return true;
}

void Path::move_tuple(TrafficClass traffic_class,
                      const base::Endpoint& from,
                      const base::Endpoint& local,
                      TimePoint now) {
    Tuple& tuple = tuples_[index_of(traffic_class)];
    const bool was_known = tuple.is_known;
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && tuple.remote.address != from.address) {
        forget_round_trips();  // another network; another port is a NAT's doing
    }
    if (is_lt_ld) {
        search_.distrust();
    }
    tuple = Tuple{};
    tuple.remote = from;
    tuple.local = local;
    tuple.is_known = true;
    if (is_lt_ld || (!was_known && state_ != PathState::Usable)) {
        state_ = PathState::Challenged;
    }
    challenge(tuple, now);
}

// --- What came

bool Path::on_authenticated(TrafficClass traffic_class, TimePoint now) {
    silence_.on_heard(heard_at_, now);
    heard_at_ = now;
    was_left_silent_ = false;
    ++counters_.received_datagrams;
    if (delivery_ != nullptr) {
        delivery_->on_heard();
    }
    if (role_ == Role::Snapt) {
        sign_of_life_.on_heard(patience().ask, now);
        return false;
    }
    tuples_[index_of(traffic_class)].heard_at = now;
    // Not for each of many that come in while nothing goes out, nor of one that was given up.
    if (state_ == PathState::Dead && is_asked() && announcements_.are_rare(now)) {
        ask_again(now);
    }
    if (state_ != PathState::Doubtful || silence_.needs_proof()) {
        return false;
    }
    silence_.want_proof_from(now);
    state_ = has_answered_ ? PathState::Usable : PathState::Challenged;
    return has_answered_;
}

Path::Answer
Path::on_response(TrafficClass traffic_class, const wire::ChallengeToken& token, TimePoint now) {
    if (search_.on_response(token, now)) {
        return {false, false, confirm(0, now)};
    }
    Tuple& tuple = tuples_[index_of(traffic_class)];
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    const bool was_proven = tuple.validation.is_proven();
    const auto answer = tuple.is_known ? tuple.validation.on_response(token, now) : std::nullopt;
    if (!answer) {
        return {};
    }
    note_answered(*answer, now);
    if (role_ == Role::Snapt && !was_proven && is_lt_ld) {
        forget_other_tuples();
    }
    if (!is_lt_ld) {
        return {};
    }
    const Answer result{true, announcements_.are_repeated(), state_ != PathState::Usable};
    announcements_.stop();
    confirm(0, now);
    state_ = PathState::Usable;
    has_answered_ = true;
    // Link-layer addresses were looked up below during the first exchange. Acknowledgements will
    // tell of the active path, and TCP looked them up when it connected.
    if (role_ == Role::Node && !std::exchange(was_asked_again_, true) && !is_active_ && !is_tcp()) {
        challenge(tuple, now);
        state_ = PathState::Usable;
    }
    return result;
}

void Path::note_answered(const path::Validation::Answer& answer, TimePoint now) {
    ++counters_.answers;
    counters_.last_round_trip = answer.round_trip;
    if (answer.is_exact) {
        rtt_.on_exchange(answer.round_trip, now);
    } else if (answer.round_trip <= path::Validation::kMostUsefulRtt) {
        rtt_at_most_ = rtt_at_most_ == Duration{} ? answer.round_trip
                                                  : std::min(rtt_at_most_, answer.round_trip);
    }
}

// --- What left

uint64_t Path::room_for(TrafficClass traffic_class) const {
    if (room_bytes_ == UINT64_MAX || base::is_low_delay(traffic_class)) {
        return room_bytes_;
    }
    return room_bytes_ - std::min(room_bytes_, kReservedRoomBytes);
}

void Path::on_sent(TrafficClass tuple_class, uint64_t bytes, bool wants_answer, TimePoint now) {
    if (wants_answer) {
        silence_.on_packets_sent(now);
    }
    if (room_bytes_ != UINT64_MAX) {
        room_bytes_ -= std::min(room_bytes_, bytes);
    }
    tuples_[index_of(tuple_class)].validation.on_sent(bytes);
}

void Path::on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, TimePoint now) {
    packets_sent_at_ = now;
    counters_.sent_bytes += total_bytes;
    if (!is_tcp()) {
        search_.on_sent(outer_bytes, now);
    }
}

void Path::on_numbered(const path::SentRun& run, TimePoint now) {
    if (delivery_ == nullptr) {
        if (!run.has_packets) {
            return;  // a path that only announces itself costs nothing
        }
        delivery_ = std::make_unique<path::Delivery>(rtt_, &search_);
    }
    delivery_->on_sent(run, now);
}

void Path::distrust_samples(TimePoint now) {
    if (delivery_ != nullptr) {
        delivery_->distrust_samples(now);
    }
}

void Path::on_app_limited() {
    if (delivery_ != nullptr) {
        delivery_->on_app_limited();
    }
}

// --- What it has to send

TimePoint Path::deadline() const {
    TimePoint earliest = std::min(
        {announcements_.deadline(), silence_deadline(), proof_deadline(), search_.deadline()});
    if (is_probed()) {
        earliest = std::min(earliest, delivery_->deadline());
    }
    for (const Tuple& tuple : tuples_) {
        earliest = std::min(earliest, tuple.validation.deadline());
    }
    return is_ping_due_ ? TimePoint{} : earliest;
}

std::optional<Probe> Path::announce_probe(uint16_t number, TimePoint now) {
    if (announcements_.deadline() > now) {
        return std::nullopt;
    }
    announcements_.on_sent(now - heard_at_ > path::kChallengeLifetime,
                           is_active_ ? path::Announcements::kPatientInterval : kLongestPatience,
                           now);
    silence_.expect_answer(now);
    Probe probe{index_, TrafficClass::LtLd, first().remote, first().local};
    probe.announce.emplace();
    probe.announce->path = index_;
    probe.announce->mtu = search_.limit();
    probe.announce->active = is_active_;
    probe.announce->number = number;
    probe.challenge = first().validation.stamp(now);
    // Padded, so that SNAPT may send at once what waits. Every second repetition is short, since
    // the path may not take the others; a path long silent is only asked.
    probe.is_padded = state_ != PathState::Dead && first().validation.repetitions() % 2 == 0;
    return probe;
}

std::optional<Probe> Path::challenge_probe(TimePoint now) {
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        Tuple& tuple = tuples_[index_of(traffic_class)];
        if (tuple.validation.deadline() > now) {
            continue;
        }
        if (!tuple.validation.repeat(now)) {
            const bool is_there =
                silence_.needs_proof() && now - heard_at_ <= path::kChallengeLifetime;
            if (role_ == Role::Snapt && !is_active_ && !is_there) {
                silence_.end_all();  // nothing is sent there any more
            }
            continue;
        }
        silence_.expect_answer(now);
        Probe probe{index_, traffic_class, tuple.remote, tuple.local};
        probe.challenge = tuple.validation.stamp(now);
        // Once, so that SNAPT may ask as well and send there before the node does (section 5.4).
        probe.is_padded = role_ == Role::Node && state_ == PathState::Challenged &&
                          !has_answered_ && tuple.validation.repetitions() == 0;
        return probe;
    }
    return std::nullopt;
}

std::optional<Probe> Path::ping_probe() {
    if (!std::exchange(is_ping_due_, false) || !first().is_known) {
        return std::nullopt;
    }
    Probe probe{index_, TrafficClass::LtLd, first().remote, first().local};
    probe.has_ping = true;
    return probe;
}

// No answer is expected of it: that a size does not pass is no silence of the path.
std::optional<Probe> Path::mtu_probe(bool& has_narrowed, TimePoint now) {
    if (search_.deadline() > now) {
        return std::nullopt;
    }
    const bool may_ask = first().is_known && first().validation.is_proven() &&
                         (role_ == Role::Snapt || state_ == PathState::Usable);
    if (!may_ask) {
        search_.give_up();
        return std::nullopt;
    }
    const uint64_t holes = search_.black_holes();
    const auto asked = search_.next(smoothed_rtt(), rtt_variation(), *random_, now);
    has_narrowed = has_narrowed || search_.black_holes() != holes;
    if (!asked) {
        return std::nullopt;
    }
    Probe probe{index_, TrafficClass::LtLd, first().remote, first().local};
    probe.challenge = wire::Challenge{asked->token};
    probe.outer_bytes = asked->outer_bytes;
    return probe;
}

}  // namespace continuo::session
