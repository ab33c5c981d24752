// Node: which uplink each SNAPT is reached by.
#include "cnapt/node.hpp"
#include "cnapt/path_facts.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt {

using base::TimePoint;

namespace {

constexpr size_t kKeptHandovers = 32;
constexpr base::Duration kControlInterval = base::seconds(2);
// In the place of interface and address.
constexpr const char* kOverTcp = "tcp";

}  // namespace

void Node::on_network_changed() {
    const TimePoint now = loop_.refresh_now();
    static_cast<void>(uplinks_->set_snapts(snapt_addresses()));
    const Uplinks::Change change = uplinks_->update(monitor_->snapshot());
    if (!change.added.empty()) {
        follow_wireless();
    }
    update_all_paths(change, now);
}

// A route to a SNAPT makes an uplink, too.
void Node::follow_snapt_addresses() {
    if (uplinks_->set_snapts(snapt_addresses())) {
        const Uplinks::Change change = uplinks_->update(monitor_->snapshot());
        if (!change.added.empty() || !change.removed.empty()) {
            follow_wireless();
            update_all_paths(change, loop_.now());
        }
    }
}

std::vector<base::IpAddress> Node::snapt_addresses() const {
    std::vector<base::IpAddress> snapts;
    for (const auto& link : links_) {
        // One by hearsay must not make an uplink of a tunnel by the address that was told.
        if (link->is_learned && !link->session) {
            continue;
        }
        for (const base::IpVersion version : kBothVersions) {
            if (link->addresses.has(version)) {
                snapts.push_back(link->addresses.of(version).address);
            }
        }
    }
    return snapts;
}

NearLinks Node::near_links(uint32_t group) const {
    return cnapt::near_links(monitor_->snapshot(), settings_.uplinks, snapt_addresses(), group);
}

void Node::update_all_paths(const Uplinks::Change& change, TimePoint now) {
    for (const auto& link : links_) {
        for (const uint8_t slot : change.removed) {
            link->path_failures[slot] = {};
        }
        update_paths(*link, change, now);
    }
    note_ways();
    engine_.pump(now);
    events_.on_network_changed();
}

void Node::set_captive(uint8_t slot, bool is_captive, const std::string& portal_url) {
    Uplink* uplink = uplinks_->at(slot);
    if (uplink == nullptr) {
        return;
    }
    uplink->portal_url = portal_url;
    if (std::exchange(uplink->is_captive, is_captive) == is_captive) {
        return;
    }
    const TimePoint now = loop_.refresh_now();
    for (const auto& link : links_) {
        if (is_captive) {
            note_path(*link, slot, FailureKind::Portal, "a captive portal answers in its place");
        } else {
            note_mended(*link, slot, FailureKind::Portal);
        }
        if (link->session) {
            if (!is_captive) {
                link->session->paths().path(slot).ask_again(now);
            }
            choose_uplink(*link, now);
            engine_.touch(*link->session);
        }
        events_.on_path_moved(*link);
    }
    engine_.pump(now);
}

bool Node::works(const Uplink& uplink) const {
    return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
        const bool is_active = link->active_slot() == uplink.slot;
        if (!link->session) {
            return false;
        }
        const uint8_t index = is_active && link->is_on_stream() ? wire::kTcpPath : uplink.slot;
        const session::Path& path = link->session->paths().path(index);
        return path.state() == session::PathState::Usable ||
               (is_active && link->is_control_open && !path.is_failing());
    });
}

bool Node::is_needed(const Uplink& uplink) const {
    const auto is_up = [](const auto& link) { return link->is_up; };
    const auto is_active = [&](const auto& link) { return link->active_slot() == uplink.slot; };
    return std::any_of(links_.begin(), links_.end(), is_active) ||
           std::none_of(links_.begin(), links_.end(), is_up);
}

void Node::ask_all(SnaptLink& link) {
    if (!link.session) {
        return;
    }
    const TimePoint now = loop_.refresh_now();
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (is_known(paths.path(uplink->slot))) {
            paths.path(uplink->slot).ask(now);
            paths.path(uplink->slot).ask_again(now);
        }
    }
    if (link.is_on_stream()) {
        paths.path(wire::kTcpPath).ask(now);
    }
    const auto active = paths.active();
    if (active && paths.path(*active).state() == session::PathState::Challenged) {
        paths.announce_again(now);  // its next announcement may be far off
    }
    engine_.go_on(*link.session, now);
}

// One that died of silence is not new: its own announcements bring it back.
void Node::add_paths(SnaptLink& link, TimePoint now) {
    add_new_paths(link, now);
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry()) {
            continue;
        }
        paths.path(uplink->slot).suspect(uplink->is_weak);
        // What has changed may have brought it back.
        if (link.is_on_stream()) {
            if (is_path(link, *uplink) && link.manager.may_ask_udp(way_facts(link, *uplink))) {
                paths.path(uplink->slot).retry(link.addresses.of(uplink->address.version), now);
            }
        } else {
            paths.path(uplink->slot).ask_again(now);
        }
    }
}

void Node::add_new_paths(SnaptLink& link, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry() || is_known(paths.path(uplink->slot)) || !is_path(link, *uplink)) {
            continue;
        }
        paths.add(uplink->slot, link.addresses.of(uplink->address.version), uplink->mtu, now);
        if (link.is_on_stream() && link.active_slot()) {
            paths.path(uplink->slot).give_up();  // has to answer before it takes over
        }
    }
}

// They shall carry no copies and no share either, in no direction. Behind them another network may
// be when they are back.
void Node::remove_cut_paths(SnaptLink& link) {
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry() && link.active_slot() != uplink->slot) {
            link.session->paths().remove(uplink->slot);
            link.manager.forget(uplink->slot);
        }
    }
}

void Node::update_paths(SnaptLink& link, const Uplinks::Change& change, TimePoint now) {
    if (!link.session) {
        events_.on_path_moved(link);
        return;
    }
    session::PathSet& paths = link.session->paths();
    bool has_lost_way = false;
    for (const uint8_t slot : change.removed) {
        paths.remove(slot);
        if (link.active_slot() == slot) {
            link.moving_since = now;
            has_lost_way = true;
        }
        link.manager.forget(slot);
    }
    add_paths(link, now);
    for (const uint8_t slot : change.resized) {
        if (const Uplink* uplink = uplinks_->at(slot)) {
            paths.set_mtu(slot, uplink->mtu, now);
        }
    }
    for (const uint8_t slot : change.joined) {
        ask_joined(link, slot, now);
    }
    const std::optional<uint8_t> former = link.active_slot();
    choose_uplink(link, now);
    remove_cut_paths(link);
    remove_spare_paths(link);
    const Uplink* active = link.active_slot() ? uplinks_->at(*link.active_slot()) : nullptr;
    const bool has_route =
        active != nullptr && Uplinks::has_route(*active, link.addresses, monitor_->snapshot());
    const bool has_gained_route = !std::exchange(link.has_route, has_route) && has_route;
    if ((has_lost_way && !link.active_slot()) ||
        (has_gained_route && link.active_slot() == former)) {
        // Control may find SNAPT by an address that data does not have, or by the route that came
        // after the uplink's.
        events_.on_path_moved(link);
    }
    const session::PathState state =
        link.active_slot() ? paths.path(*link.active_slot()).state() : session::PathState::Unknown;
    if (state == session::PathState::Challenged && !link.is_on_stream()) {
        paths.announce_again(now);  // a route may have come
    }
    engine_.touch(*link.session);
}

// --- What the path manager decides by, and what it decided

policy::WayFacts Node::way_facts(const SnaptLink& link, const Uplink& uplink) const {
    const Uplinks::Preference preference =
        uplinks_->preference_of(uplink, link.addresses, monitor_->snapshot());
    policy::WayFacts way = cnapt::way_facts(*link.session, uplink.slot);
    way.network = uplink.interface_index;
    way.rank = preference.rank;
    way.behind = static_cast<policy::WaySet>(preference.behind.to_ulong());
    way.has_route = Uplinks::has_route(uplink, link.addresses, monitor_->snapshot());
    way.can_carry = uplink.can_carry();
    way.is_wanted = is_path(link, uplink);
    return way;
}

policy::PathFacts Node::path_facts(const SnaptLink& link) const {
    policy::PathFacts facts =
        cnapt::path_facts(*link.session, link.accept.wire_session_up, link.active_slot());
    for (const Uplink* uplink : uplinks_->list()) {
        if (link.addresses.has(uplink->address.version)) {
            facts.ways.push_back(way_facts(link, *uplink));
        }
    }
    facts.stream.is_open = bool(link.stream);
    facts.stream.slot = link.stream_slot;
    facts.has_control = link.is_control_open;
    facts.udp_ports = link.udp_ports.size();
    return facts;
}

void Node::carry_out(SnaptLink& link, const policy::PathSteps& steps, TimePoint now) {
    for (const policy::PathStep& step : steps) {
        carry_out(link, step, now);
    }
    if (!steps.empty()) {
        engine_.touch(*link.session);
    }
}

void Node::carry_out(SnaptLink& link, const policy::PathStep& step, TimePoint now) {
    using Kind = policy::PathStep::Kind;
    session::PathSet& paths = link.session->paths();
    switch (step.kind) {
    case Kind::Activate:
        activate(link, step, now);
        break;
    case Kind::UseStream:
        use_stream(link, step, now);
        break;
    case Kind::MoveStream:
        use_uplink(link, step.slot);
        base::log(base::LogLevel::Info, "%s: TCP is silent, its next connection is made by %s",
                  link.name.c_str(), interface_of(step.slot));
        break;
    case Kind::RenewStream:
        events_.on_stream_stuck(link);
        break;
    case Kind::Probe:
        paths.path(step.slot).probe(now);
        break;
    case Kind::Retry:
        if (const Uplink* uplink = uplinks_->at(step.slot)) {
            paths.path(step.slot).retry(link.addresses.of(uplink->address.version), now);
        }
        break;
    case Kind::Bury:
        paths.path(step.slot).bury(now);
        break;
    case Kind::NextPort:
        for (const base::IpVersion version : kBothVersions) {
            take_next_port(link, version);
        }
        break;
    case Kind::Redirect:
        take_next_port(link, link.addresses.in_use);
        paths.redirect(link.address(), now);
        break;
    case Kind::Moved:
        events_.on_path_moved(link);
        break;
    case Kind::Lost:
        lose_link(link);
        break;
    }
}

const char* Node::interface_of(uint8_t slot) const {
    const Uplink* uplink = uplinks_->at(slot);
    return uplink == nullptr ? "" : uplink->interface.c_str();
}

void Node::choose_uplink(SnaptLink& link, TimePoint now) {
    policy::PathSteps steps;
    link.manager.choose(path_facts(link), now, steps);
    carry_out(link, steps, now);
}

void Node::manage_paths(SnaptLink& link, TimePoint now) {
    if (!link.session) {
        return;
    }
    policy::PathSteps steps;
    link.manager.on_tick(path_facts(link), now, steps);
    carry_out(link, steps, now);
    set_stream_timer(link);
}

void Node::on_reached_by(SnaptLink& link, uint8_t slot) {
    if (!link.session || link.is_up) {
        return;
    }
    const TimePoint now = loop_.refresh_now();
    policy::PathSteps steps;
    link.manager.take(path_facts(link), slot, now, steps);
    carry_out(link, steps, now);
}

// The interruption of a move begins with the silence that causes it, not when that is believed.
TimePoint Node::silent_since(const SnaptLink& link, const policy::PathStep& step, TimePoint now) {
    if (step.was_on_stream || !step.former) {
        return now;  // TCP has carried since
    }
    const session::Path& path = link.session->paths().path(*step.former);
    return path.is_failing() ? std::min(now, path.silence().since()) : now;
}

void Node::note_move(SnaptLink& link, const policy::PathStep& step, TimePoint now) {
    if (step.was_on_stream) {
        link.moving_from = kOverTcp;
    } else if (const Uplink* former = step.former ? uplinks_->at(*step.former) : nullptr) {
        link.moving_from = former->interface + " " + former->address.to_string();
    }
    if (step.former) {
        link.moving_since = std::min(link.moving_since, silent_since(link, step, now));
    }
}

// Control goes by the address of the same version.
void Node::use_uplink(SnaptLink& link, uint8_t slot) {
    if (const Uplink* uplink = uplinks_->at(slot)) {
        link.addresses.in_use = uplink->address.version;
    }
}

void Node::activate(SnaptLink& link, const policy::PathStep& step, TimePoint now) {
    note_move(link, step, now);
    if (*step.reason != '\0') {
        base::log(base::LogLevel::Info, "%s: %s by %s, data leaves TCP", link.name.c_str(),
                  step.reason, interface_of(step.slot));
    }
    link.control_asked_at = now;  // a move tells control
    use_uplink(link, step.slot);
    link.session->paths().activate(step.slot, now);
}

void Node::on_path_changed(SnaptLink& link, uint8_t path, TimePoint now) {
    if (path == wire::kTcpPath && !link.is_on_stream()) {
        link.manager.on_stream_answered(now);
        consider_stream(link, now);
        return;
    }
    const bool is_first = !link.is_up;
    link.is_up = true;
    note_mended(link, path, link.path_failures[path].kind);
    const Uplink* uplink = uplinks_->at(path);
    const std::string to =
        path == wire::kTcpPath
            ? kOverTcp
            : (uplink == nullptr ? "" : uplink->interface + " " + uplink->address.to_string());
    const bool is_active = link.session->paths().active() == path;
    if (link.moving_since != base::kNever && is_active && !is_first) {
        Handover handover;
        handover.at_utc_s = std::time(nullptr);
        handover.from = link.moving_from;
        handover.to = to;
        handover.gap_ms = static_cast<double>(base::to_us(now - link.moving_since)) / 1000.0;
        if (handovers_.size() >= kKeptHandovers) {
            handovers_.erase(handovers_.begin());
        }
        handovers_.push_back(handover);
        ++handover_count_;
        ++link.handovers;
        log_handover(link, handover, now);
    }
    if (is_active) {
        link.moving_since = base::kNever;
        link.moving_from = to;
    }
    if (is_first) {
        events_.on_link_usable(link);
    }
    choose_uplink(link, now);  // one that had died may be the better one
}

void Node::on_path_silent(SnaptLink& link, uint8_t path, TimePoint now) {
    const session::PathSet& paths = link.session->paths();
    note_path(link, path, FailureKind::Silent,
              path == wire::kTcpPath ? "silent: nothing comes back over TCP"
                                     : "silent: nothing comes back over UDP");
    add_new_paths(link, now);  // the other IP version of that interface
    const session::Path& silent = paths.path(path);
    if (paths.active() == path && silent.state() != session::PathState::Doubtful) {
        link.moving_since = std::min(now, silent.silence().since());
    }
    policy::PathSteps steps;
    link.manager.on_silent(path_facts(link), path, silent.state(), now, steps);
    carry_out(link, steps, now);
}

// A NAT between has forgotten the mappings, or the node has moved: the control link may be dead.
void Node::on_path_challenged(SnaptLink& link, uint8_t path, TimePoint now) {
    if (link.active_slot() == path && now - link.control_asked_at >= kControlInterval) {
        link.control_asked_at = now;
        events_.on_path_moved(link);
    }
}

void Node::lose_link(SnaptLink& link) {
    link.moving_since = base::kNever;
    if (link.is_up) {
        link.is_up = false;
        events_.on_link_lost(link);
    }
}

}  // namespace continuo::cnapt
