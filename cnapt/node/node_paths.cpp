// Node: the choice of the uplink for each SNAPT.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using session::Session;
using uplinks::kBothVersions;
using uplinks::NearLinks;
using uplinks::on_link_networks;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

constexpr size_t kKeptHandovers = 32;
constexpr base::Duration kControlInterval = base::seconds(2);
}  // namespace

void Node::on_network_changed() {
    const TimePoint now = loop_.refresh_now();
    on_link_ = on_link_networks(monitor_->snapshot(), settings_.uplinks, settings_.on_link);
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
        // A SNAPT known from hearsay must not make a tunnel an uplink by its address.
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
    return uplinks::near_links(monitor_->snapshot(), settings_.uplinks, snapt_addresses(), group);
}

void Node::update_all_paths(const Uplinks::Change& change, TimePoint now) {
    for (const auto& link : links_) {
        for (const uint8_t slot : change.removed) {
            link->path_failures[slot] = {};
        }
        update_paths(*link, change, now);
    }
    note_ways();
    driver_.pump(now);
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
        if (!is_captive) {
            link->hints |= session::mask_of(slot);
        }
        choose(*link, now);
        events_.on_path_moved(*link);
    }
    driver_.pump(now);
}

bool Node::works(const Uplink& uplink) const {
    return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
        const bool is_active = link->active_slot() == uplink.slot;
        if (!link->session) {
            return false;
        }
        const uint8_t index = is_active && link->is_on_stream() ? wire::kTcpPath : uplink.slot;
        const session::Path& path = link->session->paths().path(index);
        return path.state == session::PathState::Usable ||
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
        if (is_added(paths.path(uplink->slot))) {
            paths.ask(uplink->slot, now);
            paths.ask_again(uplink->slot, now);
        }
    }
    if (link.is_on_stream()) {
        paths.ask(wire::kTcpPath, now);
    }
    const auto active = paths.active();
    if (active && paths.path(*active).state == session::PathState::Challenged) {
        paths.announce_again(now);  // its next announcement may be far off
    }
    driver_.touch(*link.session);
    driver_.pump(now);
}

// The change of the network may have restored a path.
void Node::add_paths(SnaptLink& link, TimePoint now) {
    add_new_paths(link, now);
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry()) {
            continue;
        }
        paths.suspect(uplink->slot, uplink->is_weak);
        if (paths.path(uplink->slot).is_failing()) {
            link.hints |= session::mask_of(uplink->slot);
        }
    }
}

void Node::add_new_paths(SnaptLink& link, TimePoint now) {
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry() || is_added(paths.path(uplink->slot)) || !is_path(link, *uplink)) {
            continue;
        }
        paths.add(uplink->slot, link.addresses.of(uplink->address.version), uplink->mtu, now);
        if (link.is_on_stream()) {
            paths.give_up(uplink->slot);  // must answer before it takes over
        }
    }
}

// Withdraws the paths: they must carry no copies and no share in either direction. When they
// return, another network may be behind them.
void Node::remove_cut_paths(SnaptLink& link) {
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry() && link.active_slot() != uplink->slot) {
            link.session->paths().remove(uplink->slot);
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
        if (link.stream_slot == slot) {
            link.stream_slot.reset();  // the connection has lost its address
        }
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
    choose(link, now);
    remove_cut_paths(link);
    remove_spare_paths(link);
    const Uplink* active = link.active_slot() ? uplinks_->at(*link.active_slot()) : nullptr;
    const bool has_route =
        active != nullptr && Uplinks::has_route(*active, link.addresses, monitor_->snapshot());
    const bool has_gained_route = !std::exchange(link.has_route, has_route) && has_route;
    if ((has_lost_way && !link.active_slot()) ||
        (has_gained_route && link.active_slot() == former)) {
        // Control may reach SNAPT by an address that data does not use, or by a route that came
        // after the uplink's.
        events_.on_path_moved(link);
    }
    const session::PathState state =
        link.active_slot() ? paths.path(*link.active_slot()).state : session::PathState::Unknown;
    if (state == session::PathState::Challenged && !link.is_on_stream()) {
        paths.announce_again(now);  // a route may have come
    }
    driver_.touch(*link.session);
}

void Node::on_path_changed(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    if (path == wire::kTcpPath && !link->is_on_stream()) {
        choose(*link, now);
        return;
    }
    const bool is_first = !link->is_up;
    link->is_up = true;
    note_mended(*link, path, link->path_failures[path].kind);
    const auto transport = path == wire::kTcpPath ? policy::Transport::Tcp : policy::Transport::Udp;
    const std::string to = name_of({path, {}, transport});
    const bool is_active = session.paths().active() == path;
    if (link->moving_since != base::kNever && is_active && !is_first) {
        Handover handover;
        handover.at_utc_s = std::time(nullptr);
        handover.from = link->moving_from;
        handover.to = to;
        handover.gap_ms = static_cast<double>(base::to_us(now - link->moving_since)) / 1000.0;
        if (handovers_.size() >= kKeptHandovers) {
            handovers_.erase(handovers_.begin());
        }
        handovers_.push_back(handover);
        ++handover_count_;
        ++link->handovers;
        log_handover(*link, handover, now);
    }
    if (is_active) {
        link->moving_since = base::kNever;
        link->moving_from = to;
    }
    if (is_first) {
        events_.on_link_usable(*link);
    }
    choose(*link, now);  // one that had died may be the better one
}

void Node::on_path_silent(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    note_path(*link, path, FailureKind::Silent,
              path == wire::kTcpPath ? "silent: nothing comes back over TCP"
                                     : "silent: nothing comes back over UDP");
    choose(*link, now);
    if (session.paths().active() != path ||
        session.paths().path(path).state != session::PathState::Dead) {
        return;
    }
    link->moving_since = std::min(now, session.paths().path(path).unanswered_since);
    if (path == wire::kTcpPath) {
        events_.on_path_moved(*link);  // its connection may be dead
    }
    lose_link(*link);
}

// A NAT on the way has lost the mappings, or the node has moved: the control link may be dead.
void Node::on_path_challenged(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    if (link->active_slot() == path && now - link->control_asked_at >= kControlInterval) {
        link->control_asked_at = now;
        events_.on_path_moved(*link);
    }
}

void Node::lose_link(SnaptLink& link) {
    link.moving_since = base::kNever;
    if (link.is_up) {
        link.is_up = false;
        events_.on_link_lost(link);
    }
}

}  // namespace continuo::cnapt::node
