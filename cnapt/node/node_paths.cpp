// Node: addresses of SNAPTs, of both IP versions, and the uplinks that lead there.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"

#include <algorithm>
#include <ctime>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;
using tunnel::Session;
using uplinks::kBothVersions;
using uplinks::NearLinks;
using uplinks::on_link_networks;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

constexpr base::Duration kControlInterval = base::seconds(2);

bool is_udp_port(const SnaptLink& link, uint16_t port) {
    return std::find(link.udp_ports.begin(), link.udp_ports.end(), port) != link.udp_ports.end();
}

}  // namespace

void Node::on_network_changed() {
    const TimePoint now = loop_.refresh_now();
    admission_.set_on_link(
        on_link_networks(monitor_->snapshot(), settings_.uplinks, settings_.on_link));
    static_cast<void>(uplinks_->set_snapts(snapt_addresses(links_)));
    const Uplinks::Change change = uplinks_->update(monitor_->snapshot());
    if (!change.added.empty()) {
        wireless_->follow();
    }
    update_all_paths(change, now);
}

// A route to a SNAPT makes an uplink, too.
void Node::follow_snapt_addresses() {
    if (uplinks_->set_snapts(snapt_addresses(links_))) {
        const Uplinks::Change change = uplinks_->update(monitor_->snapshot());
        if (!change.added.empty() || !change.removed.empty()) {
            wireless_->follow();
            update_all_paths(change, loop_.now());
        }
    }
}

NearLinks Node::near_links(uint32_t group) const {
    return uplinks::near_links(monitor_->snapshot(), settings_.uplinks, snapt_addresses(links_),
                               group);
}

void Node::update_all_paths(const Uplinks::Change& change, TimePoint now) {
    for (const auto& link : links_) {
        for (const uint8_t slot : change.removed) {
            link->failure.forget_path(slot);
        }
        update_paths(*link, change, now);
    }
    note_ways();
    engine_.pump(now);
    events_.on_network_changed();
}

void Node::note_ways() {
    for (const auto& link : links_) {
        for (const Uplink* uplink : uplinks_->list()) {
            link->failure.note_network(*uplink, link->addresses, monitor_->snapshot());
        }
    }
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
            link->failure.note_path(slot, FailureKind::Portal,
                                    "a captive portal answers in its place");
        } else {
            link->failure.note_mended(slot, FailureKind::Portal);
        }
        if (!is_captive) {
            link->hints |= routing::mask_of(slot);
        }
        choice_->choose(*link, now);
        events_.on_path_moved(*link);
    }
    engine_.pump(now);
}

void Node::offer_addresses(SnaptLink& link, const std::vector<base::Endpoint>& addresses) {
    if (!link.session && !addresses.empty()) {
        link.addresses.in_use = addresses.front().address.version;
    }
    for (const base::IpVersion version : kBothVersions) {
        const base::Endpoint& known = link.addresses.of(version);
        const auto first =
            std::find_if(addresses.begin(), addresses.end(),
                         [&](const base::Endpoint& one) { return one.address.version == version; });
        const bool is_known =
            std::any_of(addresses.begin(), addresses.end(), [&](const base::Endpoint& one) {
                return known.port != 0 && one.address == known.address;
            });
        // Data leaves the address in use when control has reached another.
        const bool is_in_use = link.session && link.addresses.in_use == version && known.port != 0;
        if (first != addresses.end() && !is_known && !is_in_use) {
            set_address(link, *first);
        }
    }
    link.offered = addresses;
    watch_routes(link);
    follow_snapt_addresses();  // control begins by the uplinks that lead there
    note_ways();
}

void Node::on_reached(SnaptLink& link,
                      const base::Endpoint& address,
                      const control::Accept& accept) {
    link.udp_ports = accept.udp_ports;
    if (link.udp_ports.empty()) {
        link.udp_ports = {address.port};
    }
    // A new association starts where control got through.
    if (!link.active_slot() || !accept.continued) {
        link.addresses.in_use = address.address.version;
    }
    for (const base::IpVersion version : kBothVersions) {
        const base::Endpoint known = link.addresses.of(version);
        const bool is_reached = address.address.version == version;
        const bool is_same = !is_reached || known.address == address.address;
        if (is_reached || known.port != 0) {
            if (!is_same || !is_udp_port(link, known.port)) {
                set_address(link, is_reached ? address : known);
            }
        }
    }
}

// Those that data goes to, which control may know no more, and those that control tries.
void Node::watch_routes(const SnaptLink& link) {
    std::vector<base::IpAddress> watched;
    for (const base::IpVersion version : kBothVersions) {
        if (link.addresses.has(version)) {
            watched.push_back(link.addresses.of(version).address);
        }
    }
    for (const base::Endpoint& one : link.offered) {
        watched.push_back(one.address);
    }
    monitor_->watch(&link, std::move(watched));
}

// Uses the control port unless the SNAPT has named others for UDP.
void Node::set_address(SnaptLink& link, base::Endpoint address) {
    if (!link.udp_ports.empty() && !is_udp_port(link, address.port)) {
        address.port = link.udp_ports.front();
    }
    const base::IpVersion version = address.address.version;
    link.addresses.of(version) = address;
    watch_routes(link);
    leave_paths(link, version);
}

void Node::forget_address(SnaptLink& link, base::IpVersion version) {
    link.addresses.of(version) = {};
    const base::IpVersion other =
        version == base::IpVersion::V4 ? base::IpVersion::V6 : base::IpVersion::V4;
    if (link.addresses.in_use == version && link.addresses.has(other)) {
        link.addresses.in_use = other;
    }
    leave_paths(link, version);
}

// The SNAPT has another address of that version now, or none.
void Node::leave_paths(SnaptLink& link, base::IpVersion version) {
    if (link.session) {
        const TimePoint now = loop_.now();
        paths_->leave(link, version, now);
        update_paths(link, {}, now);
    }
}

void Node::ask_all(SnaptLink& link) {
    if (link.session) {
        const TimePoint now = loop_.refresh_now();
        paths_->ask_all(link, now);
        engine_.touch(*link.session);
        engine_.pump(now);
    }
}

void Node::update_paths(SnaptLink& link, const Uplinks::Change& change, TimePoint now) {
    if (!link.session) {
        events_.on_path_moved(link);
        return;
    }
    const bool has_lost_way = std::any_of(change.removed.begin(), change.removed.end(),
                                          [&](uint8_t slot) { return link.active_slot() == slot; });
    paths_->update(link, change, now);
    const std::optional<uint8_t> former = link.active_slot();
    choice_->choose(link, now);
    paths_->remove_cut(link);
    paths_->remove_spare(link);
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
    routing::PathSet& paths = link.session->paths();
    const path::PathState state =
        link.active_slot() ? paths.path(*link.active_slot()).state() : path::PathState::Unknown;
    if (state == path::PathState::Challenged && !link.is_on_stream()) {
        paths.node().announce_again(now);  // a route may have come
    }
    engine_.touch(*link.session);
}

void Node::on_pause(base::Duration pause) {
    const TimePoint now = loop_.now();
    if (std::any_of(links_.begin(), links_.end(),
                    [](const auto& link) { return link->session != nullptr; })) {
        base::log(base::LogLevel::Info, "did not run for %lld ms: asking all paths",
                  static_cast<long long>(base::to_ms(pause)));
    }
    for (const auto& link : links_) {
        if (!link->session) {
            continue;
        }
        link->session->paths().node().on_pause(now);
        if (!link->active_slot()) {
            link->moving_since = now;
        }
        for (const Uplink* uplink : uplinks_->list()) {
            link->hints |= routing::mask_of(uplink->slot);
        }
        if (monitor_) {
            update_paths(*link, {}, now);
        }
        link->control_asked_at = now;
        events_.on_path_moved(*link);
    }
    events_.on_network_changed();  // it may have woken up in another place
    // The wake-up has just begun: sending comes at its end.
    loop_.post([this] { engine_.pump(); });
}

void Node::on_path_changed(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    if (path == wire::kTcpPath && !link->is_on_stream()) {
        choice_->choose(*link, now);
        return;
    }
    const bool is_first = !link->is_up;
    link->is_up = true;
    link->failure.note_mended(path);
    const auto transport = path == wire::kTcpPath ? policy::Transport::Tcp : policy::Transport::Udp;
    const std::string to = choice_->name_of({path, {}, transport});
    const bool is_active = session.paths().active() == path;
    if (link->moving_since != base::kNever && is_active && !is_first) {
        const auto gap_us = static_cast<double>(base::to_us(now - link->moving_since));
        handovers_.add(link->name, {std::time(nullptr), link->moving_from, to, gap_us / 1000.0},
                       now);
        ++link->handovers;
    }
    if (is_active) {
        link->moving_since = base::kNever;
        link->moving_from = to;
    }
    if (is_first) {
        events_.on_link_usable(*link);
    }
    choice_->choose(*link, now);  // one that had died may be the better one
}

void Node::on_path_silent(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    link->failure.note_path(path, FailureKind::Silent,
                            path == wire::kTcpPath ? "silent: nothing comes back over TCP"
                                                   : "silent: nothing comes back over UDP");
    choice_->choose(*link, now);
    if (session.paths().active() != path ||
        session.paths().path(path).state() != path::PathState::Dead) {
        return;
    }
    link->moving_since = std::min(now, session.paths().path(path).liveness().silent_since());
    if (path == wire::kTcpPath) {
        events_.on_path_moved(*link);  // its connection may be dead
    }
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
