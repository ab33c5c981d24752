// Node: which way the data of each SNAPT takes. policy::PathManager decides; this tells it what is
// so, and carries out its plan.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using policy::Candidate;
using policy::PathPlan;
using policy::PathView;
using policy::Transport;
using policy::UplinkFacts;
using session::PathMask;
using session::PathState;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// PathSituation::is_busy.
constexpr base::Duration kBusyFor = base::seconds(1);
// Stands in for interface and address.
constexpr const char* kOverTcp = "tcp";

// The SNAPT does not let the node in: connecting goes on as ControlClient does it.
bool is_refused(const SnaptLink& link) {
    return link.failure.is_now(FailureKind::Ended) || link.failure.is_now(FailureKind::Replaced) ||
           link.failure.is_now(FailureKind::LoginRefused);
}

std::vector<uint8_t> slots_in(PathMask mask) {
    std::vector<uint8_t> slots;
    for (uint8_t slot = 0; slot < wire::kTcpPath; ++slot) {
        if ((mask & session::mask_of(slot)) != 0) {
            slots.push_back(slot);
        }
    }
    return slots;
}

}  // namespace

std::vector<UplinkFacts> Node::facts_of(const SnaptLink& link) const {
    const io::NetSnapshot& network = monitor_->snapshot();
    std::vector<UplinkFacts> all;
    for (const Uplink* uplink : uplinks_->list()) {
        if (!is_path(link, *uplink)) {
            continue;
        }
        UplinkFacts facts;
        facts.slot = uplink->slot;
        facts.local = uplink->address;
        facts.network = uplink->interface_index;
        facts.remote = link.addresses.of(uplink->address.version).address;
        facts.cost = uplinks_->cost_of(*uplink, link.addresses, network);
        facts.has_route = Uplinks::has_route(*uplink, link.addresses, network);
        facts.can_carry = uplink->can_carry();
        facts.must_answer_first = Uplinks::is_last_resort(*uplink, link.addresses, network);
        facts.is_weak = uplink->is_weak;
        all.push_back(facts);
    }
    return all;
}

std::vector<PathView> Node::views_of(const SnaptLink& link) const {
    std::vector<PathView> views;
    for (const Uplink* uplink : uplinks_->list()) {
        if (is_added(link.session->paths().path(uplink->slot))) {
            views.push_back(view_of_udp(*link.session, uplink->slot));
        }
    }
    if (link.stream && link.stream_slot && is_added(link.session->paths().path(wire::kTcpPath))) {
        views.push_back(view_of_tcp(*link.session, *link.stream_slot, link.stream_opened_at));
    }
    return views;
}

bool Node::is_busy(SnaptLink& link, TimePoint now) {
    uint64_t traffic = 0;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        traffic += link.session->class_counters(traffic_class).packets;
    }
    if (std::exchange(link.traffic, traffic) != traffic || link.session->queued_packets() != 0) {
        link.busy_at = now;
    }
    return link.busy_at != TimePoint{} && now - link.busy_at < kBusyFor;
}

// Packets after a pause do not wait for the next tick.
void Node::note_need(SnaptLink& link, TimePoint now) {
    if (now - link.busy_at >= kBusyFor) {
        link.busy_at = now;
        choose(link, now);
    }
}

void Node::choose(SnaptLink& link, TimePoint now) {
    if (!link.session || !monitor_) {
        return;
    }
    add_new_paths(link, now);
    const std::vector<UplinkFacts> facts = facts_of(link);
    const std::vector<PathView> views = views_of(link);
    const uint16_t tcp_port = is_refused(link) ? 0 : std::max<uint16_t>(link.address().port, 1);
    const std::vector<uint8_t> hints = slots_in(std::exchange(link.hints, PathMask{0}));
    const std::optional<Candidate> former = link.choice.active();
    const PathPlan plan = link.choice.decide(
        {facts, views, link.udp_ports, tcp_port, hints, is_busy(link, now)}, now);
    if (former && !link.choice.active()) {
        link.moving_since = std::min(link.moving_since, now);
    }
    if (plan.activate) {
        activate(link, former, *plan.activate, now);
    }
    if (plan.ends_attempts) {
        events_.on_streams_unwanted(link);
    }
    for (const Candidate& candidate : plan.probe) {
        ask(link, candidate, now);
    }
    link.choose_at = plan.next_at;
    set_choice_timer();
    driver_.touch(*link.session);
}

void Node::set_choice_timer() {
    TimePoint at = base::kNever;
    for (const auto& link : links_) {
        at = std::min(at, link->session ? link->choose_at : base::kNever);
    }
    choice_timer_.set(at);
}

void Node::on_choice_due() {
    const TimePoint now = loop_.refresh_now();
    for (const auto& link : links_) {
        if (link->choose_at <= now) {
            choose(*link, now);
        }
    }
    set_choice_timer();
    driver_.pump(now);
}

void Node::ask(SnaptLink& link, const Candidate& candidate, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    if (candidate.transport == Transport::Udp) {
        ask_path(paths, candidate, now);
        return;
    }
    const bool is_open = link.stream && link.stream_slot == candidate.uplink &&
                         is_added(paths.path(wire::kTcpPath)) &&
                         !paths.path(wire::kTcpPath).is_failing();
    if (is_open) {
        paths.ask(wire::kTcpPath, now);
    } else {
        events_.on_stream_wanted(link, candidate.uplink);
    }
}

std::string Node::name_of(const Candidate& candidate) {
    const Uplink* uplink = uplinks_->at(candidate.uplink);
    if (candidate.transport == Transport::Tcp) {
        return kOverTcp;
    }
    return uplink == nullptr ? "" : uplink->interface + " " + uplink->address.to_string();
}

// The interruption of a move counts from the silence that causes it, not from its detection.
TimePoint Node::silent_since(const SnaptLink& link, const Candidate& way, TimePoint now) {
    const session::Path& path = link.session->paths().path(path_of(way));
    return path.is_failing() ? std::min(now, path.unanswered_since) : now;
}

void Node::activate(SnaptLink& link,
                    const std::optional<Candidate>& former,
                    const Candidate& next,
                    TimePoint now) {
    const bool is_known = former && uplinks_->at(former->uplink) != nullptr;
    if (former) {
        link.moving_since = std::min(link.moving_since, silent_since(link, *former, now));
    }
    if (is_known) {
        link.moving_from = name_of(*former);
    }
    const bool was_on_stream = former && former->transport == Transport::Tcp;
    const bool is_elsewhere = !former || former->uplink != next.uplink;
    link.control_asked_at = now;
    if (const Uplink* uplink = uplinks_->at(next.uplink)) {
        link.addresses.in_use = uplink->address.version;
    }
    if (next.transport == Transport::Tcp) {
        enter_stream(link, was_on_stream);
    } else {
        link.addresses.of(next.to.address.version) = next.to;
        if (was_on_stream) {
            leave_stream(link, next.uplink, now);
        }
    }
    move_to(link.session->paths(), next, now);
    if (is_elsewhere) {
        events_.on_path_moved(link);
    }
}

// Paths by UDP carry nothing meanwhile: only an answer to a question brings one back.
void Node::enter_stream(SnaptLink& link, bool was_on_stream) {
    for (const Uplink* uplink : uplinks_->list()) {
        link.session->paths().give_up(uplink->slot);
    }
    if (was_on_stream) {
        base::log(base::LogLevel::Info, "%s: TCP was silent, data goes over TCP by another uplink",
                  link.name.c_str());
        return;
    }
    base::log(base::LogLevel::Info, "%s: %s, data goes over TCP", link.name.c_str(),
              link.choice.tries_tcp() ? "UDP loses much" : "UDP does not get through");
}

// Paths that were given up for TCP are asked like paths that fell silent.
void Node::leave_stream(SnaptLink& link, uint8_t slot, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (uplink->slot != slot && paths.path(uplink->slot).state == PathState::Dead) {
            paths.bury(uplink->slot, now);
        }
    }
    const Uplink* by = uplinks_->at(slot);
    if (by != nullptr && paths.path(slot).state == PathState::Usable) {
        base::log(base::LogLevel::Info, "%s: UDP gets through again by %s, data leaves TCP",
                  link.name.c_str(), by->interface.c_str());
    }
}

}  // namespace continuo::cnapt::node
