#include "common/path/node_path.hpp"

#include <algorithm>
#include <utility>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// The way down works if the node heard SNAPT this recently: a request comes later than the data.
constexpr Duration kWorksAfterHearing = base::seconds(2);

}  // namespace

void NodePath::start(const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    parts_.validation.begin(remote, now);
    parts_.search.begin(mtu);
    parts_.traffic.begin(now);
}

void NodePath::probe(TimePoint now) {
    const PathState state = parts_.state();
    const bool is_asked = lt_ld().challenge().is_open();
    if (!is_asked && (state == PathState::Challenged || state == PathState::Usable)) {
        challenge(Asks::Validation, now);
    }
}

void NodePath::announce(Asks asks, TimePoint now) {
    announcer_.start(wire::kAnnounceCopies, recovery::Liveness::kProbeInterval, now);
    parts_.feedback.distrust_round_trips(now);
    challenge(asks, now);
    lt_ld().challenge().leave_to_announcements();
}

void NodePath::give_up() {
    parts_.validation.fail();
    parts_.liveness.begin_anew();
    parts_.is_ping_due = false;
    announcer_.stop();
    lt_ld().challenge().stop();
}

void NodePath::retry(const base::Endpoint& remote, TimePoint now) {
    Tuple& tuple = lt_ld();
    if (parts_.state() != PathState::Dead || !tuple.is_known()) {
        return;
    }
    const bool has_ended = !tuple.challenge().is_open() || tuple.challenge().has_expired(now);
    if (has_ended || tuple.remote() != remote) {
        redirect(remote);
        challenge(Asks::Question, now);
    }
    tuple.challenge().repeat_once(now);
}

// Asks by announcements for as long as the path exists, since its mapping may be gone too.
void NodePath::mark_dead(TimePoint now) {
    Tuple& tuple = lt_ld();
    if (!tuple.is_known()) {
        return;
    }
    parts_.validation.fail();
    if (!tuple.challenge().is_open()) {
        challenge(Asks::Question, now);
    }
    tuple.challenge().leave_to_announcements();
    parts_.validation.forget_answers();
    announcer_.start(1, kLongestProbeInterval, now);
}

void NodePath::ask_again(TimePoint at) {
    if (parts_.state() == PathState::Dead && lt_ld().is_known()) {
        announcer_.start(1, kLongestProbeInterval, at);
    }
}

void NodePath::ask(TimePoint now) {
    if (parts_.state() == PathState::Usable && !lt_ld().challenge().is_open()) {
        parts_.is_ping_due = true;
        challenge(Asks::Question, now);  // gives a round trip, too
    }
}

// Announcements ask the active path and say what was received last: SNAPT repeats the rest.
void NodePath::question(bool is_active, TimePoint now) {
    Tuple& tuple = lt_ld();
    if (!tuple.challenge().is_open()) {
        challenge(Asks::Question, now);
    }
    if (is_active && !announcer_.is_running()) {
        tuple.challenge().leave_to_announcements();
        parts_.feedback.distrust_round_trips(now);
        announcer_.start(1, tuple.challenge().interval(), now);
    }
}

// A datagram came on a failing path: what was asked in vain may be answered now. Each datagram that
// comes while only that direction works is no reason.
void NodePath::hasten(TimePoint now) {
    OpenChallenge& challenge = lt_ld().challenge();
    const Duration pause =
        std::max<Duration>(parts_.feedback.probe_timeout(), recovery::Liveness::kAskAfter);
    if (!challenge.is_open() || now - challenge.asked_at() < pause) {
        return;
    }
    if (announcer_.is_running()) {
        announcer_.hasten(now);
    } else {
        challenge.hasten(now);
    }
}

bool NodePath::on_request(TimePoint idle_since, TimePoint now) {
    if (parts_.state() != PathState::Usable || lt_ld().challenge().is_open()) {
        return false;  // it is being asked
    }
    if (now - parts_.traffic.heard_at() < kWorksAfterHearing) {
        if (!parts_.is_tcp()) {
            ask(now);  // one way works
        }
        return false;
    }
    keepalive_.on_request(now - idle_since, parts_.feedback.patience(), now);
    question(true, now);
    return true;
}

void NodePath::on_pause(bool is_active, TimePoint now) {
    parts_.liveness.begin_anew();
    keepalive_.on_pause();
    // The clock may have stopped during a sleep, so delays from before and after it cannot be
    // compared: a path that is not measured again would have an advantage or disadvantage.
    parts_.forget_delivery();
    // TCP's own end watches its connection.
    if (!parts_.is_tcp() && !is_active && is_live(parts_.state())) {
        challenge(Asks::Validation, now);
    }
}

void NodePath::expect_more(TimePoint now) {
    if (!parts_.is_tcp()) {
        parts_.liveness.expect_more(now);
    }
}

void NodePath::on_authenticated(TrafficClass traffic_class, bool was_silent, TimePoint now) {
    parts_.validation.tuple(traffic_class).on_heard(now);
    // Not for each of many datagrams while nothing goes out.
    if (is_failing(parts_.state()) && was_silent) {
        hasten(now);
    }
}

// Link-layer addresses were resolved during the first exchange, so a second one gives a better
// round trip. Acknowledgements will measure the active path, and TCP resolved them when it
// connected.
void NodePath::on_answered(bool is_active, TimePoint now) {
    announcer_.stop();
    if (!std::exchange(was_asked_again_, true) && !is_active && !parts_.is_tcp()) {
        challenge(Asks::Question, now);
    }
}

bool NodePath::follow_health(bool was_doubtful, bool is_active, TimePoint now) {
    const recovery::Health health = parts_.liveness.health();
    if (!is_live(parts_.state()) || health == recovery::Health::Usable) {
        return false;
    }
    if (health == recovery::Health::Dead) {
        mark_dead(now);
        return true;
    }
    if (was_doubtful) {
        return false;
    }
    question(is_active, now);
    return true;
}

std::optional<Probe> NodePath::announcement(bool is_active, TimePoint now) {
    if (announcer_.due_at() > now) {
        return std::nullopt;
    }
    announcer_.on_sent(is_active, parts_.traffic.heard_at(), now);
    parts_.note_asked(now);
    OpenChallenge& challenge = lt_ld().challenge();
    Probe probe = parts_.probe_to(TrafficClass::LtLd);
    probe.announce.emplace();
    probe.announce->path = parts_.index;
    probe.announce->mtu = parts_.search.limit();
    probe.announce->active = is_active;
    probe.challenge = challenge.next_sending(now);
    probe.way = challenge.way();
    // Padded, so that SNAPT may send the waiting data at once. Every second repetition is short,
    // since the path may not take padded ones; a path silent for long is only asked.
    probe.is_padded = parts_.state() != PathState::Dead && !probe.way;
    probe.wants_ack = parts_.feedback.has_unconfirmed_class(now);
    probe.has_ping = !probe.is_padded && std::exchange(parts_.is_ping_due, false);
    return probe;
}

}  // namespace continuo::path
