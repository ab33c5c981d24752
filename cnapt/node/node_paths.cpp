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
// A path heard this recently takes over without being asked.
constexpr base::Duration kProofLifetime = base::seconds(2);
constexpr base::Duration kControlInterval = base::seconds(2);
// Stands in for interface and address.
constexpr const char* kOverTcp = "tcp";

bool is_known(const session::Path& path) {
    return path.tuples[base::index_of(base::TrafficClass::LtLd)].is_known;
}

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
                link->session->paths().ask_again(slot, now);
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
        const bool is_active = link->active_slot == uplink.slot;
        if (!link->session) {
            return false;
        }
        const uint8_t index = is_active && link->is_on_stream ? wire::kTcpPath : uplink.slot;
        const session::Path& path = link->session->paths().path(index);
        return path.state == session::PathState::Usable ||
               (is_active && link->is_control_open && !path.is_failing());
    });
}

bool Node::is_needed(const Uplink& uplink) const {
    const auto is_up = [](const auto& link) { return link->is_up; };
    const auto is_active = [&](const auto& link) { return link->active_slot == uplink.slot; };
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
            paths.ask(uplink->slot, now);
            paths.ask_again(uplink->slot, now);
        }
    }
    if (link.is_on_stream) {
        paths.ask(wire::kTcpPath, now);
    }
    const auto active = paths.active();
    if (active && paths.path(*active).state == session::PathState::Challenged) {
        paths.announce_again(now);  // its next announcement may be far off
    }
    engine_.touch(*link.session);
    engine_.pump(now);
}

// A path that died of silence is not new: its own announcements revive it.
void Node::add_paths(SnaptLink& link, TimePoint now) {
    add_new_paths(link, now);
    session::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry()) {
            continue;
        }
        // The change of the network may have restored the path.
        if (link.is_on_stream) {
            if (may_ask_udp(link, *uplink)) {
                paths.retry(uplink->slot, link.addresses.of(uplink->address.version), now);
            }
        } else {
            paths.ask_again(uplink->slot, now);
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
        if (link.is_on_stream && link.active_slot) {
            paths.give_up(uplink->slot);  // must answer before it takes over
        }
    }
}

// Withdraws the paths: they must carry no copies and no share in either direction. When they
// return, another network may be behind them.
void Node::remove_cut_paths(SnaptLink& link) {
    for (const Uplink* uplink : uplinks_->list()) {
        if (!uplink->can_carry() && link.active_slot != uplink->slot) {
            link.session->paths().remove(uplink->slot);
            link.bars[uplink->slot] = {};
            link.throttled &= static_cast<session::PathMask>(~session::mask_of(uplink->slot));
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
        link.bars[slot] = {};
        link.throttled &= static_cast<session::PathMask>(~session::mask_of(slot));
        if (link.active_slot == slot) {
            if (link.is_on_stream) {
                link.fallback.on_stream_ended(now);  // the connection has lost its address
            }
            link.active_slot.reset();
            link.moving_since = now;
            has_lost_way = true;
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
    const std::optional<uint8_t> former = link.active_slot;
    choose_uplink(link, now);
    remove_cut_paths(link);
    remove_spare_paths(link);
    const Uplink* active = link.active_slot ? uplinks_->at(*link.active_slot) : nullptr;
    const bool has_route =
        active != nullptr && Uplinks::has_route(*active, link.addresses, monitor_->snapshot());
    const bool has_gained_route = !std::exchange(link.has_route, has_route) && has_route;
    if ((has_lost_way && !link.active_slot) || (has_gained_route && link.active_slot == former)) {
        // Control may reach SNAPT by an address that data does not use, or by a route that came
        // after the uplink's.
        events_.on_path_moved(link);
    }
    const session::PathState state =
        link.active_slot ? paths.path(*link.active_slot).state : session::PathState::Unknown;
    if (state == session::PathState::Challenged && !link.is_on_stream) {
        paths.announce_again(now);  // a route may have come
    }
    engine_.touch(*link.session);
}

template <typename Predicate>
Uplinks::SlotSet Node::slots_where(const SnaptLink& link, Predicate predicate) {
    Uplinks::SlotSet slots;
    for (size_t slot = 0; slot < slots.size(); ++slot) {
        const auto index = static_cast<uint8_t>(slot);
        slots.set(slot, predicate(index, link.session->paths().path(index)));
    }
    return slots;
}

Uplink* Node::best_uplink(const SnaptLink& link, Uplinks::SlotSet excluded) {
    const Uplinks::SlotSet none =
        slots_where(link, [](uint8_t, const session::Path& path) { return !is_known(path); });
    return uplinks_->best_for(link.addresses, monitor_->snapshot(), excluded | none);
}

// The uplink of the best route. While the active one carries, or may do so again, another must
// answer before it takes its place.
void Node::choose_uplink(SnaptLink& link, TimePoint now) {
    using session::PathState;
    const netlink::NetSnapshot& network = monitor_->snapshot();
    if (link.is_on_stream && link.active_slot) {
        const Uplink* answers =
            best_uplink(link, slots_where(link, [this](uint8_t slot, const session::Path& path) {
                            return path.state != PathState::Usable || is_cut(slot);
                        }));
        if (answers != nullptr) {
            const bool is_other = link.active_slot != answers->slot;
            base::log(base::LogLevel::Info, "%s: UDP gets through again by %s, data leaves TCP",
                      link.name.c_str(), answers->interface.c_str());
            activate(link, answers->slot, now);
            if (is_other) {
                events_.on_path_moved(link);
            }
        }
        return;
    }
    session::PathSet& paths = link.session->paths();
    const auto has_route = [&](const Uplink* uplink) {
        return uplink != nullptr && Uplinks::has_route(*uplink, link.addresses, network);
    };
    const auto best_without = [&](auto predicate) {
        const Uplink* best = best_uplink(link, slots_where(link, predicate));
        return has_route(best) || !link.active_slot ? best : nullptr;
    };
    const auto is_unproven = [&](uint8_t slot, const session::Path& path) {
        return link.active_slot != slot &&
               (path.state != PathState::Usable || now - path.heard_at > kProofLifetime);
    };
    const Uplink* best = best_without([&](uint8_t slot, const session::Path& path) {
        return path.is_failing() || is_cut(slot) || link.bars[slot].until > now;
    });
    if (best == nullptr) {
        best = best_without([this](uint8_t slot, const session::Path& path) {
            return path.is_failing() || is_cut(slot);
        });
    }
    // One that is dead is asked as often as the others, and may come back first.
    const bool may_carry = link.active_slot && !is_cut(*link.active_slot) &&
                           has_route(uplinks_->at(*link.active_slot));
    const auto is_last_resort = [&](uint8_t slot) {
        const Uplink* uplink = uplinks_->at(slot);
        return uplink != nullptr && Uplinks::is_last_resort(*uplink, link.addresses, network);
    };
    // A tunnel may be carried by this very session: it must answer first.
    if (best != nullptr && (may_carry || is_last_resort(best->slot)) &&
        is_unproven(best->slot, paths.path(best->slot))) {
        paths.probe(best->slot, now);
        best = best_without([&](uint8_t slot, const session::Path& path) {
            return path.is_failing() || is_cut(slot) || is_unproven(slot, path);
        });
    }
    if (best == nullptr && (!link.active_slot || is_cut(*link.active_slot))) {
        // UDP may be blocked there, and TCP may pass.
        best = best_without([&](uint8_t slot, const session::Path& path) {
            return is_cut(slot) || (is_last_resort(slot) && is_unproven(slot, path));
        });
    }
    if (best != nullptr && link.active_slot != best->slot) {
        activate(link, best->slot, now);
        events_.on_path_moved(link);
    }
}

void Node::on_reached_by(SnaptLink& link, uint8_t slot) {
    const bool is_wanted = link.session && !link.is_up && link.active_slot != slot;
    if (!is_wanted || is_cut(slot) || !is_known(link.session->paths().path(slot))) {
        return;
    }
    activate(link, slot, loop_.refresh_now());
    engine_.touch(*link.session);
}

void Node::activate(SnaptLink& link, uint8_t slot, TimePoint now) {
    if (link.moving_since == base::kNever && link.active_slot) {
        link.moving_since = silent_since(link, now);
    }
    if (link.is_on_stream) {
        link.moving_from = kOverTcp;
    } else if (link.active_slot) {
        bar_if_failing(link, *link.active_slot, slot, now);
        if (const Uplink* former = uplinks_->at(*link.active_slot)) {
            link.moving_from = former->interface + " " + former->address.to_string();
        }
    }
    link.control_asked_at = now;  // who activates tells that the path has moved
    if (std::exchange(link.is_on_stream, false)) {
        leave_stream(link, slot, now);
    }
    link.active_slot = slot;
    if (const Uplink* uplink = uplinks_->at(slot)) {
        link.addresses.in_use = uplink->address.version;
    }
    link.session->paths().activate(slot, now);
}

// Also bars the other addresses of the interface, if another interface takes over.
void Node::bar_if_failing(SnaptLink& link, uint8_t slot, uint8_t next, TimePoint now) {
    if (!link.session->paths().path(slot).is_failing()) {
        return;
    }
    bar_uplink(link, slot, kFirstBar, kLongestBar, now);
    const session::PathMask beside = slots_beside(slot);
    for (uint8_t other = 0; other < wire::kTcpPath; ++other) {
        if ((beside & session::mask_of(other)) != 0 && (beside & session::mask_of(next)) == 0 &&
            link.bars[other].until < link.bars[slot].until) {
            link.bars[other] = link.bars[slot];
        }
    }
}

void Node::bar_uplink(
    SnaptLink& link, uint8_t slot, base::Duration first, base::Duration longest, TimePoint now) {
    SnaptLink::Bar& bar = link.bars[slot];
    const bool is_again = bar.longest == longest && now - bar.until < kLongestBar;
    bar.longest = longest;
    bar.span = is_again ? std::min<base::Duration>(bar.span * 2, longest) : first;
    bar.until = now + bar.span;
    link.bar_ends_at = std::min(link.bar_ends_at, bar.until);
}

// Uplinks that were barred may be used again now.
void Node::end_bars(SnaptLink& link, TimePoint now) {
    if (link.bar_ends_at > now) {
        return;
    }
    link.bar_ends_at = base::kNever;
    for (const SnaptLink::Bar& bar : link.bars) {
        if (bar.until > now) {
            link.bar_ends_at = std::min(link.bar_ends_at, bar.until);
        }
    }
    if (link.session) {
        choose_uplink(link, now);
        engine_.touch(*link.session);
        engine_.pump(now);
    }
}

void Node::on_path_changed(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    if (path == wire::kTcpPath && !link->is_on_stream) {
        link->fallback.on_stream_answered(now);
        consider_stream(*link, now);
        return;
    }
    const bool is_first = !link->is_up;
    link->is_up = true;
    note_mended(*link, path, link->path_failures[path].kind);
    const Uplink* uplink = uplinks_->at(path);
    const std::string to =
        path == wire::kTcpPath
            ? kOverTcp
            : (uplink == nullptr ? "" : uplink->interface + " " + uplink->address.to_string());
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
    choose_uplink(*link, now);  // one that had died may be the better one
}

void Node::on_path_silent(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    note_path(*link, path, FailureKind::Silent,
              path == wire::kTcpPath ? "silent: nothing comes back over TCP"
                                     : "silent: nothing comes back over UDP");
    add_new_paths(*link, now);  // the other IP version of that interface
    if (session.paths().active() != path) {
        if (session.paths().path(path).state == session::PathState::Doubtful) {
            choose_uplink(*link, now);  // it was asked to take over, perhaps
        }
        return;
    }
    if (session.paths().path(path).state == session::PathState::Doubtful) {
        probe_others(*link, path, now);  // one takes its place when it answers
        return;
    }
    link->moving_since = std::min(now, session.paths().path(path).liveness.silent_since());
    if (path == wire::kTcpPath) {
        events_.on_path_moved(*link);  // its connection may be dead
        return;
    }
    choose_uplink(*link, now);
}

// A NAT on the way has lost the mappings, or the node has moved: the control link may be dead.
void Node::on_path_challenged(Session& session, uint8_t path, TimePoint now) {
    SnaptLink* link = link_of(session);
    if (link->active_slot == path && now - link->control_asked_at >= kControlInterval) {
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
