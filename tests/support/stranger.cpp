#include "tests/support/stranger.hpp"

#include "common/wire/unsealed.hpp"

#include <algorithm>

namespace continuo::tests {

namespace {

using base::DropReason;

int64_t number_of(base::TimePoint at) {
    return at.time_since_epoch().count();
}

int64_t load_number(const uint8_t* bytes) {
    return static_cast<int64_t>(base::load_big_endian<uint64_t>(bytes));
}

void add_tuple(std::vector<int64_t>& state, const path::Tuple& tuple) {
    for (const base::Endpoint& endpoint : {tuple.remote(), tuple.local()}) {
        state.push_back(endpoint.port);
        state.push_back(load_number(endpoint.address.octets.data()));
    }
    const path::OpenChallenge& challenge = tuple.challenge();
    state.insert(state.end(), {tuple.is_known(), tuple.is_proven(), number_of(tuple.heard_at()),
                               static_cast<int64_t>(tuple.unproven_received_bytes()),
                               static_cast<int64_t>(tuple.unproven_sent_bytes()),
                               load_number(challenge.token().data()), number_of(challenge.since()),
                               number_of(challenge.due_at()), challenge.interval().count(),
                               challenge.repetitions()});
}

void add_role(std::vector<int64_t>& state, const path::NodePath& side) {
    const path::KeepaliveLearner::State& learned = side.keepalive().state();
    state.insert(state.end(),
                 {side.announcer().due(), number_of(side.announcer().due_at()),
                  side.announcer().interval().count(), learned.interval.count(),
                  number_of(learned.learned_at), learned.idle_when_asked.count(),
                  number_of(learned.lost_known_by), learned.idle_when_lost.count(),
                  learned.idle_before_keepalive.count(), number_of(learned.remapping_known_by)});
}

void add_role(std::vector<int64_t>& state, const path::SnaptPath& side) {
    state.insert(state.end(),
                 {side.life_requests().interval().count(), side.life_requests().is_open(),
                  number_of(side.life_requests().answered_at()),
                  number_of(side.copy_request().until()), side.was_left_silent()});
}

void add_path(std::vector<int64_t>& state, const path::Path& path, path::Role role) {
    for (const path::Tuple& tuple : path.validation().tuples()) {
        add_tuple(state, tuple);
    }
    if (role == path::Role::Node) {
        add_role(state, path.node());
    } else {
        add_role(state, path.snapt());
    }
    const path::Measured& measured = path.feedback().measured();
    state.insert(state.end(), {static_cast<int64_t>(path.state()),
                               path.validation().has_answered(),
                               path.mtu(),
                               path.mtu_search().limit(),
                               static_cast<int64_t>(path.mtu_search().state()),
                               number_of(path.mtu_search().deadline()),
                               path.feedback().smoothed_rtt().count(),
                               path.feedback().rtt_variation().count(),
                               number_of(path.traffic().heard_at()),
                               static_cast<int64_t>(path.traffic().counters().received_datagrams),
                               number_of(path.liveness().silent_since()),
                               static_cast<int64_t>(measured.bytes_per_s),
                               measured.is_full,
                               measured.was_full,
                               static_cast<int64_t>(measured.loss.value_or(-1) * 1e9),
                               static_cast<int64_t>(measured.lost_datagrams),
                               static_cast<int64_t>(measured.late_datagrams),
                               static_cast<int64_t>(path.validation().state()),
                               static_cast<int64_t>(path.liveness().health()),
                               path.liveness().timeouts(),
                               number_of(path.liveness().owed_since())});
}

// All visible state of an end, except its drops.
std::vector<int64_t> state_of(const SessionEnd& end, base::TimePoint now) {
    const tunnel::Session& session = *end.session;
    const session::SessionCounters& counters = session.counters();
    const routing::PathSet& paths = session.paths();
    std::vector<int64_t> state{
        paths.active().value_or(UINT8_MAX),
        paths.announcement_number(),
        paths.selector().is_in_doubt(now),
        number_of(paths.next_deadline()),
        number_of(session.next_deadline(now)),
        number_of(session.heard_at()),
        session.epochs().newest().value_or(0),
        session.epochs().may_grant(session.epochs().newest().value_or(0)),
        static_cast<int64_t>(session.flows()),
        static_cast<int64_t>(session.queues().bytes()),
        static_cast<int64_t>(counters.datagrams_received),
        static_cast<int64_t>(counters.bytes_received),
        static_cast<int64_t>(counters.overhead_sent()),
        static_cast<int64_t>(counters.overhead_received()),
        static_cast<int64_t>(counters.acks_sent),
        static_cast<int64_t>(counters.acks_received),
        static_cast<int64_t>(counters.lost_datagrams),
        static_cast<int64_t>(counters.copies_dropped),
        static_cast<int64_t>(counters.copies_sent),
        static_cast<int64_t>(counters.handovers),
        static_cast<int64_t>(counters.repeated_datagrams),
        static_cast<int64_t>(session.resequencing().held),
        static_cast<int64_t>(end.delivered.size()),
        static_cast<int64_t>(end.paths_changed.size()),
        static_cast<int64_t>(end.silent_paths.size()),
        static_cast<int64_t>(end.challenges),
        static_cast<int64_t>(end.closed_flows),
    };
    state.reserve(2048);
    for (uint8_t path = 0; path < wire::kMaxPaths; ++path) {
        add_path(state, paths.path(path), end.role);
    }
    return state;
}

// Datagrams that were thrown away before anything was looked at.
uint64_t refused(const SessionEnd& end) {
    const base::DropCounters& drops = end.session->drops();
    return drops.count(DropReason::TooShort) + drops.count(DropReason::UnknownEpoch) +
           drops.count(DropReason::Unauthentic) + drops.count(DropReason::Replayed) +
           drops.count(DropReason::Repeated);
}

}  // namespace

void Stranger::interfere() {
    pair_.record = true;
    pair_.run_for(base::milliseconds(20));
    pair_.record = false;
    Datagrams up = std::move(pair_.recorded_up);
    Datagrams down = std::move(pair_.recorded_down);
    pair_.recorded_up.clear();
    pair_.recorded_down.clear();
    attack(pair_.snapt, up, old_up_);
    attack(pair_.node, down, old_down_);
    old_up_ = std::move(up);
    old_down_ = std::move(down);
}

void Stranger::attack(SessionEnd& end, const Datagrams& fresh, const Datagrams& old) {
    state_ = state_of(end, pair_.now);
    for (const auto& datagram : fresh) {
        forge(end, spoil(datagram), "an altered datagram");
        forge(end, unsealed(datagram), "a message without protection");
    }
    for (const auto& datagram : old) {
        replay(end, datagram);
    }
    // Datagrams of the other direction are reflected.
    for (const auto& datagram : &end == &pair_.node ? old_up_ : old_down_) {
        forge(end, datagram, "a reflected datagram");
    }
}

void Stranger::forge(SessionEnd& end, std::vector<uint8_t> datagram, const char* what) {
    if (datagram.empty()) {
        return;
    }
    ++attempts;
    give(end, datagram);
    if (is_changed(end)) {
        fault += std::string(what) + " changed the state of the " +
                 (end.role == path::Role::Node ? "node" : "SNAPT") + "; ";
    }
}

// A datagram that had been lost is still valid, wherever it comes from: it may make SNAPT send a
// challenge there, but never trust the address. One that had arrived changes nothing.
void Stranger::replay(SessionEnd& end, const std::vector<uint8_t>& datagram) {
    ++attempts;
    const uint64_t refused_before = refused(end);
    give(end, datagram);
    const bool is_taken = refused(end) == refused_before;
    taken += is_taken ? 1U : 0U;
    if (is_changed(end) && !is_taken) {
        fault += "a replayed datagram changed the state; ";
    }
    if (is_believed()) {
        fault += "SNAPT believes the stranger; ";
    }
}

// Since it was looked at last.
bool Stranger::is_changed(const SessionEnd& end) {
    std::vector<int64_t> state = state_of(end, pair_.now);
    const bool is_other = state != state_;
    state_ = std::move(state);
    return is_other;
}

void Stranger::give(SessionEnd& end, const std::vector<uint8_t>& datagram) {
    if (end.role == path::Role::Snapt) {
        pair_.inject(end, datagram, address_);
        return;
    }
    auto path = pair_.path_addresses.begin();
    std::advance(path, random_.below(pair_.path_addresses.size()));
    pair_.inject(end, datagram, random_.below(2) == 0 ? address_ : pair_.snapt_address,
                 path->first);
}

// Another datagram than it was; nothing when it happens to be the same.
std::vector<uint8_t> Stranger::spoil(std::vector<uint8_t> datagram) {
    const std::vector<uint8_t> original = datagram;
    switch (random_.below(3)) {
    case 0:
        datagram[random_.below(datagram.size())] ^= static_cast<uint8_t>(1U << random_.below(8));
        break;
    case 1:
        datagram.resize(1 + random_.below(datagram.size()));
        break;
    default:
        std::fill(datagram.begin() + 1, datagram.end(), static_cast<uint8_t>(random_.below(256)));
        break;
    }
    return datagram == original ? std::vector<uint8_t>{} : datagram;
}

std::vector<uint8_t> Stranger::unsealed(const std::vector<uint8_t>& datagram) {
    const auto quote = wire::Quote::of(datagram);
    if (!quote) {
        return {};
    }
    std::vector<uint8_t> bytes(64);
    base::ByteWriter writer(bytes);
    if (random_.below(2) == 0) {
        wire::Unknown message;
        message.reason = static_cast<wire::UnknownReason>(1 + random_.below(3));
        message.quote = *quote;
        message.serialize(writer);
    } else {
        wire::Versions message;
        message.quote = *quote;
        message.supported = static_cast<uint16_t>(2U | (random_.u64() & 0xFFFEU));
        message.serialize(writer);
    }
    bytes.resize(writer.size());
    return bytes;
}

bool Stranger::is_believed() const {
    for (uint8_t path = 0; path < wire::kMaxPaths; ++path) {
        for (const path::Tuple& tuple :
             pair_.snapt.session->paths().path(path).validation().tuples()) {
            if (tuple.is_known() && tuple.is_proven() && tuple.remote() == address_) {
                return true;
            }
        }
    }
    return false;
}

}  // namespace continuo::tests
