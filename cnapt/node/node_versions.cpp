// Node: SNAPTs with addresses of both IP versions. An uplink uses the address of its own version.
// On an interface that has both, the version in use is a path; the other becomes one when nothing
// comes back over the first (docs/DECISIONS.md).
#include "cnapt/node/node.hpp"
#include "cnapt/node/tunnel_uplinks.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::TimePoint;
using uplinks::kBothVersions;
using uplinks::Uplink;

namespace {

bool is_udp_port(const SnaptLink& link, uint16_t port) {
    return std::find(link.udp_ports.begin(), link.udp_ports.end(), port) != link.udp_ports.end();
}

bool answers(const session::Path& path) {
    return path.has_answered && !path.is_failing();
}

// True if both are in one network, like the temporary and the stable address of IPv6 (RFC 8981).
bool is_of_same_prefix(const Uplink& one, const Uplink& other) {
    constexpr size_t kPrefixBytes = 8;
    return one.address.version == base::IpVersion::V6 &&
           other.address.version == base::IpVersion::V6 &&
           std::equal(one.address.octets.begin(), one.address.octets.begin() + kPrefixBytes,
                      other.address.octets.begin());
}

}  // namespace

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

bool Node::lacks_ipv4() const {
    const auto& uplinks = uplinks_->list();
    return std::any_of(uplinks.begin(), uplinks.end(), [&](const Uplink* one) {
        return !one->address.is_v4() &&
               std::none_of(uplinks.begin(), uplinks.end(), [&](const Uplink* other) {
                   return other->address.is_v4() && other->interface_index == one->interface_index;
               });
    });
}

// The SNAPT has another address of that version now, or none.
void Node::leave_paths(SnaptLink& link, base::IpVersion version) {
    if (!link.session) {
        return;
    }
    const TimePoint now = loop_.now();
    for (const Uplink* uplink : uplinks_->list()) {
        if (uplink->address.version != version) {
            continue;
        }
        link.session->paths().remove(uplink->slot);
        if (link.active_slot() == uplink->slot) {
            link.moving_since = now;
        }
    }
    update_paths(link, {}, now);
}

// Two paths over one interface would share its capacity and take copies that another interface
// could save. A deprecated address does not keep a new one out.
bool Node::is_spare(const SnaptLink& link, const Uplink& uplink) const {
    if (is_resting(link, uplink, links_, *uplinks_, monitor_->snapshot())) {
        return true;
    }
    if (!link.session || link.active_slot() == uplink.slot) {
        return false;
    }
    const session::PathSet& paths = link.session->paths();
    const auto& uplinks = uplinks_->list();
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

// A connection outlives its path: the next one may have the longer headers of IPv6.
uint16_t Node::largest_segment(const SnaptLink& link, const flow::Flow& flow, TimePoint now) {
    auto destination =
        link.session->paths().destination(flow.traffic_class, now).value_or(session::Destination{});
    if (link.addresses.has(base::IpVersion::V6)) {
        destination.to = link.addresses.v6;
    }
    return session::largest_segment(destination, flow.paths.mode);
}

void Node::remove_spare_paths(SnaptLink& link) {
    if (!link.session) {
        return;
    }
    for (const Uplink* uplink : uplinks_->list()) {
        if (is_spare(link, *uplink)) {
            link.session->paths().remove(uplink->slot);
            driver_.touch(*link.session);
        }
    }
}

}  // namespace continuo::cnapt::node
