#include "cnapt/node/path_choice.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using path::Path;
using path::PathState;
using path::Validation;
using policy::Candidate;
using policy::PathView;
using policy::Transport;
using routing::PathSet;
using tunnel::Session;

namespace {

// Both transports have these.
PathView view_of(const Session& session, uint8_t index) {
    const Path& path = session.paths().path(index);
    PathView view;
    view.health = path.validation().state() == Validation::Failed ? recovery::Health::Dead
                                                                  : path.liveness().health();
    view.answered_at = path.validation().answered_at();
    view.smoothed_rtt = path.feedback().smoothed_rtt();
    view.probe_timeout = path.feedback().rtt().probe_timeout();
    view.has_full_queue = path.feedback().measured().is_full;
    if (const recovery::Delivery* delivery = session.paths().path(index).feedback().delivery()) {
        const recovery::DeliveryCounters& counters = delivery->counters();
        view.up = {counters.delivered_datagrams, counters.lost_datagrams, counters.delivered_bytes};
    }
    const session::SessionCounters& counters = session.counters();
    view.down = {counters.datagrams_received, session.epochs().missing_datagrams(),
                 counters.inner_bytes_received};
    return view;
}

bool is_at(const Path& path, const base::Endpoint& remote) {
    return path.validation().lt_ld().remote() == remote;
}

}  // namespace

bool is_added(const Path& path) {
    return path.validation().lt_ld().is_known();
}

PathView view_of_udp(const Session& session, uint8_t slot) {
    const Path& path = session.paths().path(slot);
    PathView view = view_of(session, slot);
    view.uplink = slot;
    view.port = path.validation().lt_ld().remote().port;
    view.is_validated =
        path.validation().has_answered() && path.validation().state() != Validation::Failed;
    return view;
}

PathView view_of_tcp(const Session& session, uint8_t slot, TimePoint opened_at, bool is_stuck) {
    PathView view = view_of(session, wire::kTcpPath);
    view.uplink = slot;
    view.transport = Transport::Tcp;
    view.is_validated = true;
    view.health = is_stuck ? std::max(view.health, recovery::Health::Doubtful) : view.health;
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
        if (path.state() != PathState::Usable && !is_at(path, candidate.to)) {
            paths.node().redirect(candidate.to, now);
        } else {
            paths.node().ask(index, now);
            paths.path(index).node().ask_again(now);  // if it is dead
        }
        return;
    }
    const bool is_at_rest = path.state() == PathState::Usable || path.state() == PathState::Dead;
    if (!is_at_rest && !is_at(path, candidate.to)) {
        paths.path(index).node().give_up();
    }
    if (path.state() == PathState::Dead) {
        paths.path(index).node().retry(candidate.to, now);
    } else {
        paths.path(index).node().probe(now);
    }
}

void move_to(PathSet& paths, const Candidate& candidate, TimePoint now) {
    const uint8_t index = path_of(candidate);
    if (!is_added(paths.path(index))) {
        return;  // the connection has ended
    }
    paths.node().activate(index, now);
    if (candidate.transport == Transport::Udp && !is_at(paths.path(index), candidate.to)) {
        paths.node().redirect(candidate.to, now);
    }
}

}  // namespace continuo::cnapt::node
