#include "cnapt/node/link_choice.hpp"

#include "cnapt/node/path_choice.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using path::PathState;
using policy::Candidate;
using policy::PathPlan;
using policy::PathView;
using policy::Transport;
using policy::UplinkFacts;
using routing::PathMask;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// PathSituation::is_busy.
constexpr base::Duration kBusyFor = base::seconds(1);
// Stands in for interface and address.
constexpr const char* kOverTcp = "tcp";

// The SNAPT does not let the node in: connecting goes on as ControlClient does it.
bool is_refused(const SnaptLink& link) {
    return link.failure.is_now(links::FailureKind::Ended) ||
           link.failure.is_now(links::FailureKind::Replaced) ||
           link.failure.is_now(links::FailureKind::LoginRefused);
}

std::vector<uint8_t> slots_in(PathMask mask) {
    std::vector<uint8_t> slots;
    for (uint8_t slot = 0; slot < wire::kTcpPath; ++slot) {
        if ((mask & routing::mask_of(slot)) != 0) {
            slots.push_back(slot);
        }
    }
    return slots;
}

}  // namespace

LinkChoice::LinkChoice(const ChoiceParts& parts)
    : parts_(parts), timer_(parts.loop, [this] { on_due(); }) {}

std::vector<UplinkFacts> LinkChoice::facts_of(const SnaptLink& link) const {
    const netlink::NetSnapshot& network = parts_.monitor.snapshot();
    std::vector<UplinkFacts> all;
    for (const Uplink* uplink : parts_.uplinks.list()) {
        if (!parts_.paths.is_path(link, *uplink)) {
            continue;
        }
        UplinkFacts facts;
        facts.slot = uplink->slot;
        facts.local = uplink->address;
        facts.network = uplink->interface_index;
        facts.remote = link.addresses.of(uplink->address.version).address;
        facts.cost = parts_.uplinks.cost_of(*uplink, link.addresses, network);
        facts.has_route = Uplinks::has_route(*uplink, link.addresses, network);
        facts.can_carry = uplink->can_carry();
        facts.must_answer_first = Uplinks::is_last_resort(*uplink, link.addresses, network);
        facts.is_weak = uplink->is_weak;
        all.push_back(facts);
    }
    return all;
}

std::vector<PathView> LinkChoice::views_of(const SnaptLink& link) const {
    std::vector<PathView> views;
    for (const Uplink* uplink : parts_.uplinks.list()) {
        if (is_added(link.session->paths().path(uplink->slot))) {
            views.push_back(view_of_udp(*link.session, uplink->slot));
        }
    }
    if (link.stream && link.stream_slot && is_added(link.session->paths().path(wire::kTcpPath))) {
        views.push_back(view_of_tcp(*link.session, *link.stream_slot, link.stream_opened_at,
                                    link.is_stream_stuck));
    }
    return views;
}

bool LinkChoice::is_busy(SnaptLink& link, TimePoint now) {
    uint64_t traffic = link.session->queues().packets();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const auto& counters = link.session->queues().counters(traffic_class);
        traffic += counters.packets + counters.queue_drops;
    }
    if (std::exchange(link.traffic, traffic) != traffic) {
        link.busy_at = now;
    }
    return link.busy_at != TimePoint{} && now - link.busy_at < kBusyFor;
}

// Flows have other paths than the active one, and one of these carries packets.
bool LinkChoice::is_spread(const SnaptLink& link, TimePoint now) const {
    const routing::PathSet& paths = link.session->paths();
    const auto all = parts_.uplinks.list();
    return link.session->flow_table().uses_several_paths() &&
           std::any_of(all.begin(), all.end(), [&](const Uplink* uplink) {
               return uplink->slot != link.active_slot() &&
                      now - paths.path(uplink->slot).traffic().packets_sent_at() < kBusyFor;
           });
}

void LinkChoice::note_need(SnaptLink& link, TimePoint now) {
    if (now - link.busy_at >= kBusyFor) {
        link.busy_at = now;
        choose(link, now);
    }
}

void LinkChoice::choose(SnaptLink& link, TimePoint now) {
    if (!link.session) {
        return;
    }
    parts_.paths.add_new(link, now);
    const std::vector<UplinkFacts> facts = facts_of(link);
    const std::vector<PathView> views = views_of(link);
    const uint16_t tcp_port = is_refused(link) ? 0 : std::max<uint16_t>(link.address().port, 1);
    const std::vector<uint8_t> hints = slots_in(std::exchange(link.hints, PathMask{0}));
    const std::optional<Candidate> former = link.choice.active();
    const PathPlan plan =
        link.choice.decide({facts, views, link.udp_ports, tcp_port, hints, is_busy(link, now),
                            is_spread(link, now), link.address().port},
                           now);
    if (former && !link.choice.active()) {
        link.moving_since = std::min(link.moving_since, now);
    }
    if (plan.activate) {
        activate(link, former, *plan.activate, now);
    }
    if (plan.ends_attempts) {
        parts_.events.on_streams_unwanted(link);
        ask_dead_paths(link, now);
    }
    for (const Candidate& candidate : plan.probe) {
        ask(link, candidate, now);
    }
    link.choose_at = plan.next_at;
    set_timer();
    parts_.engine.touch(*link.session);
}

void LinkChoice::set_timer() {
    TimePoint at = base::kNever;
    for (const auto& link : parts_.links) {
        at = std::min(at, link->session ? link->choose_at : base::kNever);
    }
    timer_.set(at);
}

void LinkChoice::on_due() {
    const TimePoint now = parts_.loop.refresh_now();
    for (const auto& link : parts_.links) {
        if (link->choose_at <= now) {
            choose(*link, now);
        }
    }
    set_timer();
    parts_.engine.pump(now);
}

void LinkChoice::ask(SnaptLink& link, const Candidate& candidate, TimePoint now) {
    routing::PathSet& paths = link.session->paths();
    if (candidate.transport == Transport::Udp) {
        ask_path(paths, candidate, now);
        return;
    }
    const bool is_open = link.stream && link.stream_slot == candidate.uplink &&
                         is_added(paths.path(wire::kTcpPath)) && !link.is_stream_stuck &&
                         !is_failing(paths.path(wire::kTcpPath).state());
    if (is_open) {
        paths.node().ask(wire::kTcpPath, now);
    } else {
        parts_.events.on_stream_wanted(link, candidate.uplink);
    }
}

std::string LinkChoice::name_of(const Candidate& candidate) {
    const Uplink* uplink = parts_.uplinks.at(candidate.uplink);
    if (candidate.transport == Transport::Tcp) {
        return kOverTcp;
    }
    return uplink == nullptr ? "" : uplink->interface + " " + uplink->address.to_string();
}

// The interruption of a move counts from the silence that causes it, not from its detection.
TimePoint LinkChoice::silent_since(const SnaptLink& link, const Candidate& way, TimePoint now) {
    const path::Path& path = link.session->paths().path(path_of(way));
    const bool is_stuck = way.transport == Transport::Tcp && link.is_stream_stuck;
    return is_failing(path.state()) || is_stuck ? std::min(now, path.liveness().silent_since())
                                                : now;
}

void LinkChoice::activate(SnaptLink& link,
                          const std::optional<Candidate>& former,
                          const Candidate& next,
                          TimePoint now) {
    const bool is_known = former && parts_.uplinks.at(former->uplink) != nullptr;
    if (former) {
        link.moving_since = std::min(link.moving_since, silent_since(link, *former, now));
    }
    if (is_known) {
        link.moving_from = name_of(*former);
    }
    const bool was_on_stream = former && former->transport == Transport::Tcp;
    const bool is_elsewhere = !former || former->uplink != next.uplink;
    link.control_asked_at = now;
    if (const Uplink* uplink = parts_.uplinks.at(next.uplink)) {
        link.addresses.in_use = uplink->address.version;
    }
    if (next.transport == Transport::Tcp) {
        enter_stream(link, was_on_stream);
    } else {
        link.addresses.of(next.to.address.version) = next.to;
        if (was_on_stream) {
            leave_stream(link, next.uplink);
        }
    }
    move_to(link.session->paths(), next, now);
    if (is_elsewhere) {
        parts_.events.on_path_moved(link);
    }
}

// Paths by UDP carry nothing meanwhile: only an answer to a question brings one back.
void LinkChoice::enter_stream(SnaptLink& link, bool was_on_stream) {
    for (const Uplink* uplink : parts_.uplinks.list()) {
        link.session->paths().path(uplink->slot).node().give_up();
    }
    if (was_on_stream) {
        base::log(base::LogLevel::Info, "%s: data goes over TCP by another uplink",
                  link.name.c_str());
        return;
    }
    base::log(base::LogLevel::Info, "%s: %s, data goes over TCP", link.name.c_str(),
              link.choice.tries_tcp() ? "UDP loses much" : "UDP does not get through");
}

// A race, and data over TCP, ask each dead path in turn. After that they are asked like any path
// that fell silent.
void LinkChoice::ask_dead_paths(SnaptLink& link, TimePoint now) {
    routing::PathSet& paths = link.session->paths();
    if (link.is_on_stream()) {
        return;
    }
    for (const Uplink* uplink : parts_.uplinks.list()) {
        const path::Path& path = paths.path(uplink->slot);
        if (uplink->slot != link.active_slot() && path.state() == PathState::Dead &&
            !path.node().announcer().is_running()) {
            paths.path(uplink->slot).node().mark_dead(now);
        }
    }
}

void LinkChoice::leave_stream(SnaptLink& link, uint8_t slot) {
    const routing::PathSet& paths = link.session->paths();
    const Uplink* by = parts_.uplinks.at(slot);
    if (by != nullptr && paths.path(slot).state() == PathState::Usable) {
        base::log(base::LogLevel::Info, "%s: UDP gets through again by %s, data leaves TCP",
                  link.name.c_str(), by->interface.c_str());
    }
}

}  // namespace continuo::cnapt::node
