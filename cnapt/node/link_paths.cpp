#include "cnapt/node/link_paths.hpp"

#include "cnapt/node/path_choice.hpp"
#include "cnapt/node/tunnel_uplinks.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using links::SnaptLink;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

bool answers(const path::Path& path) {
    return path.validation().has_answered() && !is_failing(path.state());
}

// True if both are in one network, like the temporary and the stable address of IPv6 (RFC 8981).
bool is_of_same_prefix(const Uplink& one, const Uplink& other) {
    constexpr size_t kPrefixBytes = 8;
    return one.address.version == base::IpVersion::V6 &&
           other.address.version == base::IpVersion::V6 &&
           std::equal(one.address.octets.begin(), one.address.octets.begin() + kPrefixBytes,
                      other.address.octets.begin());
}

// A different NAT may be behind another access point.
void ask_joined(SnaptLink& link, uint8_t slot, TimePoint now) {
    routing::PathSet& paths = link.session->paths();
    if (link.active_slot() == slot && !link.is_on_stream()) {
        paths.node().announce_again(now);
    } else {
        paths.node().ask(slot, now);
    }
}

}  // namespace

bool LinkPaths::works(const Uplink& uplink) const {
    return std::any_of(links_.begin(), links_.end(), [&](const auto& link) {
        const bool is_active = link->active_slot() == uplink.slot;
        if (!link->session) {
            return false;
        }
        const uint8_t index = is_active && link->is_on_stream() ? wire::kTcpPath : uplink.slot;
        const path::Path& path = link->session->paths().path(index);
        return path.state() == path::PathState::Usable ||
               (is_active && link->is_control_open && !is_failing(path.state()));
    });
}

bool LinkPaths::is_needed(const Uplink& uplink) const {
    const auto is_up = [](const auto& link) { return link->is_up; };
    const auto is_active = [&](const auto& link) { return link->active_slot() == uplink.slot; };
    return std::any_of(links_.begin(), links_.end(), is_active) ||
           std::none_of(links_.begin(), links_.end(), is_up);
}

void LinkPaths::update(SnaptLink& link, const Uplinks::Change& change, TimePoint now) {
    routing::PathSet& paths = link.session->paths();
    for (const uint8_t slot : change.removed) {
        paths.node().remove(slot);
        if (link.active_slot() == slot) {
            link.moving_since = now;
        }
        if (link.stream_slot == slot) {
            link.stream_slot.reset();  // the connection has lost its address
        }
    }
    add(link, now);
    for (const uint8_t slot : change.resized) {
        if (const Uplink* uplink = uplinks_.at(slot)) {
            paths.set_mtu(slot, uplink->mtu, now);
        }
    }
    for (const uint8_t slot : change.joined) {
        ask_joined(link, slot, now);
    }
}

void LinkPaths::add(SnaptLink& link, TimePoint now) {
    add_new(link, now);
    routing::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_.list()) {
        if (!uplink->can_carry()) {
            continue;
        }
        if (is_failing(paths.path(uplink->slot).state())) {
            link.hints |= routing::mask_of(uplink->slot);
        }
    }
}

void LinkPaths::add_new(SnaptLink& link, TimePoint now) {
    routing::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_.list()) {
        if (!uplink->can_carry() || is_added(paths.path(uplink->slot)) || !is_path(link, *uplink)) {
            continue;
        }
        paths.node().add(uplink->slot, link.addresses.of(uplink->address.version), uplink->mtu,
                         now);
        if (link.is_on_stream()) {
            paths.path(uplink->slot).node().give_up();  // must answer before it takes over
        }
    }
}

// Withdraws the paths: they must carry no copies and no share in either direction. When they
// return, another network may be behind them.
void LinkPaths::remove_cut(SnaptLink& link) const {
    for (const Uplink* uplink : uplinks_.list()) {
        if (!uplink->can_carry() && link.active_slot() != uplink->slot) {
            link.session->paths().node().remove(uplink->slot);
        }
    }
}

bool LinkPaths::remove_spare(SnaptLink& link) const {
    bool is_any = false;
    for (const Uplink* uplink : uplinks_.list()) {
        if (is_spare(link, *uplink)) {
            link.session->paths().node().remove(uplink->slot);
            is_any = true;
        }
    }
    return is_any;
}

void LinkPaths::leave(SnaptLink& link, base::IpVersion version, TimePoint now) const {
    for (const Uplink* uplink : uplinks_.list()) {
        if (uplink->address.version != version) {
            continue;
        }
        link.session->paths().node().remove(uplink->slot);
        if (link.active_slot() == uplink->slot) {
            link.moving_since = now;
        }
    }
}

void LinkPaths::ask_all(SnaptLink& link, TimePoint now) const {
    routing::PathSet& paths = link.session->paths();
    for (const Uplink* uplink : uplinks_.list()) {
        if (is_added(paths.path(uplink->slot))) {
            paths.node().ask(uplink->slot, now);
            paths.path(uplink->slot).node().ask_again(now);
        }
    }
    if (link.is_on_stream()) {
        paths.node().ask(wire::kTcpPath, now);
    }
    const auto active = paths.active();
    if (active && paths.path(*active).state() == path::PathState::Challenged) {
        paths.node().announce_again(now);  // its next announcement may be far off
    }
}

// Two paths over one interface would share its capacity and take copies that another interface
// could save. A deprecated address does not keep a new one out.
bool LinkPaths::is_spare(const SnaptLink& link, const Uplink& uplink) const {
    if (is_resting(link, uplink, links_, uplinks_, monitor_.snapshot())) {
        return true;
    }
    if (!link.session || link.active_slot() == uplink.slot) {
        return false;
    }
    const routing::PathSet& paths = link.session->paths();
    const auto& uplinks = uplinks_.list();
    return std::any_of(uplinks.begin(), uplinks.end(), [&](const Uplink* other) {
        if (other->interface_index != uplink.interface_index || other->slot == uplink.slot ||
            !other->can_carry() || !answers(paths.path(other->slot))) {
            return false;
        }
        const bool is_other_version = other->address.version != uplink.address.version;
        const bool may_stand_in =
            is_other_version ||
            (is_of_same_prefix(uplink, *other) && (uplink.is_deprecated || !other->is_deprecated));
        const bool ranks_before = is_other_version ? other->address.version == link.addresses.in_use
                                                   : uplink.is_deprecated != other->is_deprecated ||
                                                         other->slot < uplink.slot;
        return may_stand_in && (link.active_slot() == other->slot || ranks_before ||
                                !answers(paths.path(uplink.slot)));
    });
}

}  // namespace continuo::cnapt::node
