#include "common/routing/node_paths.hpp"

#include "common/base/assert.hpp"

#include <algorithm>

namespace continuo::routing {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;
using Asks = path::NodePath::Asks;

void NodePaths::add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, TimePoint now) {
    CTN_ASSERT(index < table_.paths.size());
    table_.use(index);
    table_.renew(index);
    withdrawals_.cancel(index);
    table_.paths[index].node().start(remote, mtu, now);
}

void NodePaths::remove(uint8_t index) {
    const bool was_known = table_.paths[index].validation().lt_ld().is_known();
    if (tells_withdrawals_ && index != wire::kTcpPath && was_known) {
        withdrawals_.on_ended(index);
    }
    table_.retire(index);
    table_.paths[index].node().give_up();
    if (table_.active == index) {
        table_.active.reset();
    }
    if (table_.former == index) {
        table_.former.reset();
    }
}

void NodePaths::activate(uint8_t index, TimePoint now) {
    CTN_ASSERT(table_.paths[index].validation().lt_ld().is_known());
    if (table_.active && table_.active != index) {
        table_.former = table_.active;
    } else if (table_.former == index) {
        table_.former.reset();
    }
    table_.active = index;
    ++table_.announcement_number;
    connections_ += index == wire::kTcpPath ? 1U : 0U;
    announce_again(now);
}

void NodePaths::announce_again(TimePoint now) {
    if (table_.active) {
        table_.paths[*table_.active].node().announce(Asks::Validation, now);
    }
}

void NodePaths::redirect(const base::Endpoint& remote, TimePoint now) {
    if (table_.active) {
        path::NodePath& path = table_.paths[*table_.active].node();
        path.redirect(remote);
        path.announce(Asks::Question, now);
    }
}

void NodePaths::ask(uint8_t index, TimePoint now) {
    path::NodePath& path = table_.paths[index].node();
    if (table_.active == index) {
        path.ask(now);
    } else {
        path.probe(now);
    }
}

bool NodePaths::on_request(TimePoint idle_since, TimePoint now) {
    return table_.active && table_.paths[*table_.active].node().on_request(idle_since, now);
}

void NodePaths::ask_others(TimePoint now) {
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        if (table_.active != index) {
            table_.paths[index].node().probe(now);
        }
    }
}

void NodePaths::keep_ready(Duration longest, TimePoint now) {
    tells_withdrawals_ = true;
    for (uint8_t index = 0; index < wire::kTcpPath; ++index) {
        Path& path = table_.paths[index];
        const bool is_silent = now - path.traffic().heard_at() >= longest;
        const bool is_due = path.state() == PathState::Challenged ||
                            (path.state() == PathState::Usable && is_silent);
        if (table_.active != index && is_due) {
            path.node().probe(now);
        }
    }
}

void NodePaths::on_pause(TimePoint now) {
    for (uint8_t index = 0; index < wire::kMaxPaths; ++index) {
        table_.paths[index].node().on_pause(table_.active == index, now);
    }
    announce_again(now);
}

bool NodePaths::on_answered(uint8_t index, const Path::Answered& answered) {
    if (table_.active == index && answered.is_by_lt_ld) {
        table_.former.reset();
        if (answered.was_announcing) {
            withdrawals_.repeat();
        }
    }
    const bool is_awaited =
        answered.is_by_lt_ld && index != wire::kTcpPath && has_failing_active(index);
    return answered.is_news || is_awaited;
}

// Another path than `index` is the active one, and fails.
bool NodePaths::has_failing_active(uint8_t index) const {
    return table_.active && table_.active != index &&
           is_failing(table_.paths[*table_.active].state());
}

// While the active path delivers nothing, any other that comes back is wanted at once.
void NodePaths::on_sent(uint8_t index, TimePoint now) {
    if (table_.active != index || table_.paths[index].state() != PathState::Dead ||
        index == wire::kTcpPath) {
        return;
    }
    table_.any_used([&](uint8_t other) {
        path::NodePath& path = table_.paths[other].node();
        if (path.announcer().due_at() - now > path::kLongestProbeInterval) {
            path.ask_again(now + path::kLongestProbeInterval);
        }
        return false;
    });
}

void NodePaths::complete(Probe& probe, const PathSelector& selector, TimePoint now) const {
    if (probe.announce) {
        probe.announce->number = table_.announcement_number;
        const auto second = probe.announce->active ? selector.second_path(now) : std::nullopt;
        probe.copies = second ? std::optional(copies_frame(*second)) : std::nullopt;
    } else if (probe.asks_tuple() && selector.is_in_doubt(now) &&
               selector.second_path(now) == probe.path) {
        probe.copies = copies_frame(probe.path);
    }
}

wire::Announce NodePaths::copies_frame(uint8_t path) const {
    wire::Announce announce;
    announce.path = path;
    announce.copy_wanted = true;
    announce.number = table_.announcement_number;
    return announce;
}

bool NodePaths::has_withdrawals() const {
    return withdrawals_.has_due() && table_.active &&
           !table_.paths[*table_.active].validation().lt_ld().challenge().is_open();
}

std::optional<Probe> NodePaths::withdrawal() {
    const auto ended = has_withdrawals() ? withdrawals_.next(*table_.active) : std::nullopt;
    if (!ended) {
        return std::nullopt;
    }
    const Tuple& tuple = table_.paths[*table_.active].validation().lt_ld();
    Probe probe{*table_.active, TrafficClass::LtLd, tuple.remote(), tuple.local()};
    probe.announce.emplace();
    probe.announce->path = *ended;
    probe.announce->withdrawn = true;
    probe.announce->number = table_.announcement_number;
    return probe;
}

}  // namespace continuo::routing
