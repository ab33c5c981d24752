#include "common/path/path.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Age at which a NAT mapping may have expired (RFC 4787 REQ-5 requires two minutes; many boxes take
// 30 s).
constexpr Duration kMappingLifetime = base::seconds(25);
// The node keeps the LtLd mapping alive. Another class that was last heard this much earlier may
// have lost its mapping.
constexpr Duration kMayBeOlder = base::seconds(1);
// The way down works if the node heard SNAPT this recently: a request comes later than the data.
constexpr Duration kWorksAfterHearing = base::seconds(2);

}  // namespace

std::string_view to_string(PathState state) {
    switch (state) {
    case PathState::Unknown:
        return "unknown";
    case PathState::Challenged:
        return "challenged";
    case PathState::Usable:
        return "usable";
    case PathState::Doubtful:
        return "doubtful";
    case PathState::Dead:
        return "dead";
    }
    return "unknown";
}

PathState state_of(Validation validation, recovery::Health health) {
    const bool is_failing = health != recovery::Health::Usable;
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

bool Path::is_known_at(const base::Endpoint& remote) const {
    return std::any_of(tuples_.begin(), tuples_.end(), [&](const Tuple& tuple) {
        return tuple.is_known() && tuple.remote() == remote;
    });
}

// The tuple by which the path is used: that of lt-ld, unless the path was heard only in others.
const Tuple& Path::current_tuple() const {
    const auto known = std::find_if(tuples_.begin(), tuples_.end(),
                                    [](const Tuple& any) { return any.is_known(); });
    return lt_ld().is_known() || known == tuples_.end() ? lt_ld() : *known;
}

void Path::start(const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    validation_ = Validation::Pending;
    search_.begin(mtu);
    mtu_ = search_.size();
    heard_at_ = now;
    tuples_.fill(Tuple::of_snapt(remote, now));
}

void Path::start_challenge(Tuple& tuple, Asks asks, TimePoint now) {
    if (asks == Asks::Validation && (is_node() || validation_ != Validation::Done)) {
        if (validation_ == Validation::Failed) {
            liveness_.begin_anew();
        }
        validation_ = Validation::Pending;
    }
    tuple.challenge().start(context_.random, now);
}

void Path::probe(TimePoint now) {
    const bool is_asked = lt_ld().challenge().is_open();
    if (!is_asked && (state() == PathState::Challenged || state() == PathState::Usable)) {
        start_challenge(tuples_[kLtLd], Asks::Validation, now);
    }
}

void Path::announce(Asks asks, TimePoint now) {
    announcer_.start(wire::kAnnounceCopies, recovery::Liveness::kProbeInterval, now);
    if (delivery_ != nullptr) {
        delivery_->distrust_round_trips(now);
    }
    start_challenge(tuples_[kLtLd], asks, now);
    tuples_[kLtLd].challenge().leave_to_announcements();
}

void Path::redirect(const base::Endpoint& remote) {
    is_redirected_ = is_redirected_ || lt_ld().remote() != remote;
    for (Tuple& tuple : tuples_) {
        tuple.redirect(remote);
    }
}

void Path::give_up() {
    validation_ = Validation::Failed;
    liveness_.begin_anew();
    is_ping_due_ = false;
    announcer_.stop();
    tuples_[kLtLd].challenge().stop();
}

void Path::retry(const base::Endpoint& remote, TimePoint now) {
    Tuple& tuple = tuples_[kLtLd];
    if (state() != PathState::Dead || !tuple.is_known()) {
        return;
    }
    const bool has_ended = !tuple.challenge().is_open() || tuple.challenge().has_expired(now);
    if (has_ended || tuple.remote() != remote) {
        redirect(remote);
        start_challenge(tuple, Asks::Question, now);
    }
    tuple.challenge().repeat_once(now);
}

// Asks by announcements for as long as the path exists, since its mapping may be gone too.
void Path::bury(TimePoint now) {
    Tuple& tuple = tuples_[kLtLd];
    if (!tuple.is_known()) {
        return;
    }
    validation_ = Validation::Failed;
    if (!tuple.challenge().is_open()) {
        start_challenge(tuple, Asks::Question, now);
    }
    tuple.challenge().leave_to_announcements();
    has_answered_ = false;
    announcer_.start(1, kLongestProbeInterval, now);
}

void Path::ask_again(TimePoint at) {
    if (state() == PathState::Dead && lt_ld().is_known()) {
        announcer_.start(1, kLongestProbeInterval, at);
    }
}

void Path::ask(TimePoint now) {
    if (state() == PathState::Usable && !lt_ld().challenge().is_open()) {
        is_ping_due_ = true;
        start_challenge(tuples_[kLtLd], Asks::Question, now);  // gives a round trip, too
    }
}

// Announcements ask the active path and say what was received last: SNAPT repeats the rest.
void Path::question(bool is_active, TimePoint now) {
    Tuple& tuple = tuples_[kLtLd];
    if (!tuple.challenge().is_open()) {
        start_challenge(tuple, Asks::Question, now);
    }
    if (is_active && !announcer_.is_running()) {
        tuple.challenge().leave_to_announcements();
        if (delivery_ != nullptr) {
            delivery_->distrust_round_trips(now);
        }
        announcer_.start(1, tuple.challenge().interval(), now);
    }
}

// A datagram came on a failing path: what was asked in vain may be answered now. Each datagram that
// comes while only that direction works is no reason.
void Path::hasten(TimePoint now) {
    OpenChallenge& challenge = tuples_[kLtLd].challenge();
    const Duration pause = std::max<Duration>(probe_timeout(), recovery::Liveness::kAskAfter);
    if (!challenge.is_open() || now - challenge.asked_at() < pause) {
        return;
    }
    if (announcer_.is_running()) {
        announcer_.hasten(now);
    } else {
        challenge.hasten(now);
    }
}

bool Path::on_request(TimePoint idle_since, TimePoint now) {
    if (state() != PathState::Usable || lt_ld().challenge().is_open()) {
        return false;  // it is being asked
    }
    if (now - heard_at_ < kWorksAfterHearing) {
        if (!is_tcp()) {
            ask(now);  // one way works
        }
        return false;
    }
    keepalive_.on_request(now - idle_since, patience(), now);
    question(true, now);
    return true;
}

void Path::on_pause(bool is_active, TimePoint now) {
    liveness_.begin_anew();
    keepalive_.on_pause();
    // The clock may have stopped during a sleep, so delays from before and after it cannot be
    // compared: a path that is not measured again would have an advantage or disadvantage.
    forget_delivery();
    // TCP's own end watches its connection.
    if (!is_tcp() && !is_active && is_live()) {
        start_challenge(tuples_[kLtLd], Asks::Validation, now);
    }
}

bool Path::on_authenticated(TrafficClass traffic_class,
                            const base::Endpoint& from,
                            const base::Endpoint& local,
                            uint64_t bytes,
                            bool is_highest,
                            TimePoint now) {
    heard_at_ = now;
    was_left_silent_ = false;
    const bool was_silent = liveness_.unheard_since() != base::kNever;
    liveness_.on_heard(now);
    life_requests_.on_heard(patience(), now);
    ++counters_.received_datagrams;
    Tuple& tuple = of(traffic_class);
    if (is_node()) {
        tuple.on_heard(now);
        // Not for each of many datagrams while nothing goes out.
        if (is_failing() && was_silent) {
            hasten(now);
        }
        return false;
    }
    // Without a log no answer can come, and without packets there is none: it may carry again.
    if (delivery_ == nullptr) {
        liveness_.forget_judgement();
    }
    if (!tuple.is_heard_from(from, local)) {
        if (!is_highest) {
            return false;
        }
        move_tuple(traffic_class, from, local, now);
    }
    tuple.on_heard(now);
    if (!tuple.is_proven()) {
        tuple.on_received_unproven(bytes);
        if (tuple.challenge().is_open()) {
            tuple.challenge().resume(now);
        } else {
            start_challenge(tuple, Asks::Validation, now);
        }
    }
    return true;
}

void Path::move_tuple(TrafficClass traffic_class,
                      const base::Endpoint& from,
                      const base::Endpoint& local,
                      TimePoint now) {
    Tuple& tuple = of(traffic_class);
    const bool was_known = tuple.is_known();
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && tuple.remote().address != from.address) {
        forget_delivery();  // another network; a changed port is a NAT's doing
        rtt_.reset();
        class_ways_.reset();
    }
    if (is_lt_ld) {
        search_.distrust();
    }
    tuple = Tuple::of_node(from, local, tuple.is_proven() || tuple.is_remapped());
    if (is_lt_ld || (!was_known && state() != PathState::Usable)) {
        validation_ = Validation::Pending;
    }
    start_challenge(tuple, Asks::Validation, now);
}

// The index is reused with other sockets, or LtLd has a new NAT mapping: the other classes may have
// new ones too. LtLd serves all classes until they are heard.
void Path::forget_other_tuples() {
    for (size_t i = 0; i < tuples_.size(); ++i) {
        if (i != kLtLd) {
            tuples_[i] = Tuple();
        }
    }
}

// Nobody may be there to answer, and what was sent is repeated on the other path.
void Path::on_left(TimePoint now) {
    was_left_silent_ = is_overdue(now);
    liveness_.forget_silence();
    forget_class_sendings();
}

void Path::on_chosen(TimePoint now) {
    liveness_.forget_silence();
    forget_class_sendings();
    heard_at_ = now;
}

Path::Answered Path::on_response(TrafficClass traffic_class,
                                 const wire::ChallengeToken& token,
                                 bool is_active,
                                 TimePoint now) {
    if (search_.on_response(token, now)) {
        mtu_ = search_.size();
        const bool was_doubtful = state() == PathState::Doubtful;
        confirm(now);
        return {was_doubtful && state() == PathState::Usable};
    }
    if (class_ways_ != nullptr && class_ways_->on_response(traffic_class, token, now)) {
        return {};
    }
    Tuple& tuple = of(traffic_class);
    const auto answer = tuple.challenge().answer(token, now);
    if (!answer) {
        return {};
    }
    ++counters_.answers;
    counters_.last_round_trip = answer->round_trip;
    if (answer->is_sample) {
        rtt_.on_exchange(answer->round_trip, now);
    }
    const bool is_lt_ld = traffic_class == TrafficClass::LtLd;
    if (is_lt_ld && answer->is_unmarked && class_ways_ != nullptr) {
        class_ways_->on_unmarked_answered(tuple.challenge().since());
    }
    const ClassMask silent = silent_classes(now);
    if (!is_node() && !tuple.is_proven() && is_lt_ld) {
        forget_other_tuples();
    }
    const bool was_elsewhere = tuple.prove();
    if (!is_lt_ld) {
        return {};
    }
    const Answered answered{state() != PathState::Usable, true, announcer_.is_running(),
                            was_elsewhere ? silent : ClassMask{0}};
    announcer_.stop();
    validation_ = Validation::Done;
    has_answered_ = true;
    is_redirected_ = false;
    answered_at_ = now;
    confirm(now);
    // Link-layer addresses were resolved during the first exchange. Acknowledgements will measure
    // the active path, and TCP resolved them when it connected.
    if (is_node() && !std::exchange(was_asked_again_, true) && !is_active && !is_tcp()) {
        start_challenge(tuple, Asks::Question, now);
    }
    return answered;
}

// Classes whose mappings a NAT that lost the mapping of lt-ld may have lost as well.
ClassMask Path::silent_classes(TimePoint now) const {
    ClassMask silent = mask_of(TrafficClass::LtLd);
    for (const TrafficClass any : base::kAllTrafficClasses) {
        const Tuple& tuple = tuples_[base::index_of(any)];
        const bool is_heard = tuple.is_known() && now - tuple.heard_at() < patience();
        silent |= is_heard ? ClassMask{0} : mask_of(any);
    }
    return silent;
}

void Path::on_sent(TrafficClass tuple_class, uint64_t bytes, bool wants_answer, TimePoint now) {
    if (wants_answer) {
        liveness_.note_sent(now);
    }
    if (room_bytes_ != UINT64_MAX) {
        room_bytes_ -= std::min(room_bytes_, bytes);
    }
    of(tuple_class).on_sent(bytes);
}

void Path::on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, TimePoint now) {
    packets_sent_at_ = now;
    counters_.sent_bytes += total_bytes;
    if (!is_tcp()) {
        search_.on_sent(outer_bytes, now);
    }
}

bool Path::set_limit(uint16_t mtu) {
    const bool is_other = search_.limit() != mtu;
    search_.set_limit(mtu);
    mtu_ = search_.size();
    return is_other;
}

uint64_t Path::room_for(TrafficClass traffic_class) const {
    if (room_bytes_ == UINT64_MAX || base::is_low_delay(traffic_class)) {
        return room_bytes_;
    }
    return room_bytes_ - std::min(room_bytes_, kReservedRoomBytes);
}

std::optional<Destination>
Path::destination(TrafficClass traffic_class, ClassWay way, TimePoint now) const {
    TrafficClass tuple_class = way == ClassWay::Detour ? TrafficClass::LtLd : traffic_class;
    if (!is_node()) {
        const Tuple& own = tuples_[base::index_of(traffic_class)];
        const bool is_stale = now - own.heard_at() > kMappingLifetime ||
                              lt_ld().heard_at() - own.heard_at() > kMayBeOlder;
        if (!own.is_known() || !own.is_proven() || is_stale) {
            tuple_class = TrafficClass::LtLd;
        }
        if (!tuples_[base::index_of(tuple_class)].is_known()) {
            // The path was first heard in another class.
            tuple_class = traffic_class;
        }
    }
    const Tuple& tuple = tuples_[base::index_of(tuple_class)];
    if (!tuple.is_known()) {
        return std::nullopt;
    }
    const uint64_t budget = std::min(room_for(traffic_class), tuple.budget_bytes());
    Destination result{index_, tuple_class, tuple.remote(), tuple.local(), mtu_, budget};
    result.is_unmarked = way != ClassWay::Own;
    return result;
}

}  // namespace continuo::path
