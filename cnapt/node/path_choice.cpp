#include "cnapt/node/path_choice.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using policy::Candidate;
using policy::PathView;
using policy::Transport;
using session::Path;
using session::PathSet;
using session::PathState;
using session::Session;
using session::Validation;

namespace {

constexpr size_t kLtLd = base::index_of(base::TrafficClass::LtLd);

// What both transports have.
PathView view_of(const Session& session, uint8_t index) {
    const Path& path = session.paths().path(index);
    PathView view;
    view.health = path.validation == Validation::Failed ? path::Health::Dead : path.health;
    view.answered_at = path.answered_at;
    view.smoothed_rtt = path.smoothed_rtt();
    view.probe_timeout = path.rtt.probe_timeout();
    view.has_full_queue = path.is_full;
    view.delivered_bytes = session.counters().inner_bytes_received;
    if (const path::Delivery* delivery = session.paths().delivery(index)) {
        view.delivered_bytes += delivery->rate().delivered_bytes();
        view.up = {delivery->counters().delivered_datagrams, delivery->counters().lost_datagrams};
    }
    view.down = {session.counters().datagrams_received, session.missing_datagrams()};
    return view;
}

bool is_at(const Path& path, const base::Endpoint& remote) {
    return path.tuples[kLtLd].remote == remote;
}

}  // namespace

bool is_added(const Path& path) {
    return path.tuples[kLtLd].is_known;
}

PathView view_of_udp(const Session& session, uint8_t slot) {
    const Path& path = session.paths().path(slot);
    PathView view = view_of(session, slot);
    view.uplink = slot;
    view.port = path.tuples[kLtLd].remote.port;
    view.is_validated = path.has_answered && path.validation != Validation::Failed;
    return view;
}

PathView view_of_tcp(const Session& session, uint8_t slot, TimePoint opened_at) {
    PathView view = view_of(session, wire::kTcpPath);
    view.uplink = slot;
    view.transport = Transport::Tcp;
    view.is_validated = true;
    view.opened_at = opened_at;
    view.answered_at = std::max(view.answered_at, opened_at);
    return view;
}

// A path that is asked already repeats its question. One that has not answered moves to the other
// port; one that has is asked where it answered.
void ask_path(PathSet& paths, const Candidate& candidate, TimePoint now) {
    const uint8_t index = candidate.uplink;
    const Path& path = paths.path(index);
    if (paths.active() == index) {
        if (path.state != PathState::Usable && !is_at(path, candidate.to)) {
            paths.redirect(candidate.to, now);
        } else {
            paths.ask(index, now);
            paths.ask_again(index, now);  // if it is dead
        }
        return;
    }
    const bool is_elsewhere = path.state != PathState::Usable && !is_at(path, candidate.to);
    if (is_elsewhere) {
        paths.give_up(index);
    }
    if (path.state == PathState::Dead) {
        paths.retry(index, candidate.to, now);
    } else {
        paths.probe(index, now);
    }
}

void move_to(PathSet& paths, const Candidate& candidate, TimePoint now) {
    const uint8_t index = path_of(candidate);
    paths.activate(index, now);
    if (candidate.transport == Transport::Udp && !is_at(paths.path(index), candidate.to)) {
        paths.redirect(candidate.to, now);
    }
}

}  // namespace continuo::cnapt::node
