#include "cnapt/uplinks/borrowed_addresses.hpp"

#include "cnapt/uplinks/near_links.hpp"
#include "cnapt/uplinks/node_addresses.hpp"
#include "common/io/socket_address.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>

namespace continuo::cnapt::uplinks {

namespace {

using base::IpAddress;
using base::IpVersion;
using netlink::NetSnapshot;
using netlink::RouteEntry;
using netlink::UsableAddress;

// Facts about the host that are checked for each bare link.
struct Host {
    const NetSnapshot& snapshot;
    const netlink::LinkEntry* own_link;  // cnapt0
};

bool has_address(const NetSnapshot& snapshot, uint32_t interface_index, IpVersion version) {
    return std::any_of(
        snapshot.addresses.begin(), snapshot.addresses.end(), [&](const UsableAddress& one) {
            return one.interface_index == interface_index && one.address.version == version;
        });
}

bool has_default_route(const NetSnapshot& snapshot, uint32_t interface_index, IpVersion version) {
    return std::any_of(
        snapshot.routes.begin(), snapshot.routes.end(), [&](const RouteEntry& route) {
            const base::IpPrefix& to = route.destination;
            return route.interface_index == interface_index && to.address.version == version &&
                   to.length <= kLongestPartOfDefault && !is_private(to.address);
        });
}

// The preferred source of the link's route to its SNAPT.
std::optional<IpAddress> named_source(const NetSnapshot& snapshot, const BareLink& bare) {
    for (const RouteEntry& route : snapshot.routes) {
        if (route.interface_index == bare.interface_index && route.preferred_source &&
            route.destination.contains(bare.snapt)) {
            return route.preferred_source;
        }
    }
    return std::nullopt;
}

bool fits_scope(const IpAddress& address, const IpAddress& snapt) {
    return !is_private(address) || is_private(snapt);
}

// Whether an address of another interface may be borrowed. A private IPv4 address may be: a NAT is
// usual there.
bool may_lend(const Host& host, const BareLink& bare, const UsableAddress& one) {
    const IpAddress& address = one.address;
    const netlink::LinkEntry* link = host.snapshot.link(one.interface_index);
    if (link == nullptr || link == host.own_link || address.version != bare.snapt.version ||
        address.is_loopback()) {
        return false;
    }
    if (const auto named = named_source(host.snapshot, bare)) {
        return *named == address;
    }
    return !is_tunnel(*link) && (address.is_v4() || fits_scope(address, bare.snapt)) &&
           !has_default_route(host.snapshot, one.interface_index, address.version);
}

// Lower ranks are preferred.
unsigned rank_of(const UsableAddress& one, const IpAddress& snapt) {
    return (fits_scope(one.address, snapt) ? 0U : 2U) + (one.deprecated ? 1U : 0U);
}

bool keeps(const Host& host, const BareLink& bare, const IpAddress& source) {
    return std::any_of(host.snapshot.addresses.begin(), host.snapshot.addresses.end(),
                       [&](const UsableAddress& one) {
                           return one.address == source && !one.deprecated &&
                                  may_lend(host, bare, one);
                       });
}

std::optional<IpAddress> new_source(const Host& host, const BareLink& bare, const AskSource& ask) {
    const auto source = ask(bare.interface_index, bare.snapt);
    if (!source) {
        return std::nullopt;
    }
    bool is_own = false;
    const UsableAddress* other = nullptr;
    for (const UsableAddress& one : host.snapshot.addresses) {
        const bool lends = may_lend(host, bare, one);
        if (lends && one.address == *source) {
            return source;
        }
        is_own = is_own || (one.address == *source && host.own_link != nullptr &&
                            host.own_link->index == one.interface_index);
        if (lends && (other == nullptr || rank_of(one, bare.snapt) < rank_of(*other, bare.snapt))) {
            other = &one;
        }
    }
    return is_own && other != nullptr ? std::optional(other->address) : std::nullopt;
}

// Interfaces with a route to a SNAPT, each with its first SNAPT of each version.
std::vector<BareLink> ways_to(const NetSnapshot& snapshot,
                              const std::vector<IpAddress>& snapts,
                              const std::vector<UsableAddress>& in_use) {
    std::vector<BareLink> ways;
    const auto add = [&](uint32_t interface_index, const IpAddress& snapt) {
        const bool is_known = std::any_of(ways.begin(), ways.end(), [&](const BareLink& known) {
            return known.interface_index == interface_index && known.snapt.version == snapt.version;
        });
        if (!is_known && !has_address(snapshot, interface_index, snapt.version)) {
            ways.push_back({interface_index, snapt, std::nullopt});
        }
    };
    for (const IpAddress& snapt : snapts) {
        for (const RouteEntry& route : snapshot.routes) {
            if (route.destination.contains(snapt)) {
                add(route.interface_index, snapt);
            }
        }
        for (const UsableAddress& used : in_use) {
            if (used.address.version == snapt.version) {
                add(used.interface_index, snapt);
            }
        }
    }
    return ways;
}

}  // namespace

void bind_beside(int fd, const IpAddress& to, uint32_t fwmark) {
    auto client = netlink::RouteClient::open();
    if (fd < 0 || !client) {
        return;
    }
    const auto way = client->way_to(to, fwmark);
    if (!way || (way->source != default_node_ipv4() && way->source != default_node_ipv6())) {
        return;
    }
    const auto links = client->links();
    const auto addresses = client->addresses();
    if (!links || !addresses) {
        return;
    }
    NetSnapshot snapshot;
    snapshot.links = *links;
    const netlink::LinkEntry* own_link = nullptr;
    for (const netlink::AddressEntry& entry : *addresses) {
        if (entry.scope == 0) {
            snapshot.addresses.push_back({entry.interface_index, entry.address});
        }
        if (entry.address == way->source) {
            own_link = snapshot.link(entry.interface_index);
        }
    }
    const auto source = new_source({snapshot, own_link}, {way->interface_index, to, std::nullopt},
                                   [&](uint32_t, const IpAddress&) { return way->source; });
    if (source) {
        const io::SocketAddress name(base::Endpoint{*source, 0});
        static_cast<void>(::bind(fd, name.data(), name.size()));
    }
}

AskSource ask_kernel(uint32_t fwmark) {
    return [fwmark](uint32_t interface_index, const IpAddress& to) -> std::optional<IpAddress> {
        auto client = netlink::RouteClient::open();
        const auto addresses = client ? client->addresses() : client.error();
        if (!addresses) {
            return std::nullopt;
        }
        // Not usable yet: duplicate address detection is running.
        const bool has_own = std::any_of(
            addresses->begin(), addresses->end(), [&](const netlink::AddressEntry& entry) {
                return entry.interface_index == interface_index && entry.scope == 0 &&
                       entry.address.version == to.version;
            });
        const auto way = client->way_to(to, fwmark, interface_index);
        return way && !has_own ? std::optional(way->source) : std::nullopt;
    };
}

netlink::UsableAddress BareLink::borrowed() const {
    constexpr uint8_t kHostV4 = 32;
    constexpr uint8_t kHostV6 = 128;
    UsableAddress address;
    address.interface_index = interface_index;
    address.address = *source;
    address.prefix_length = source->is_v4() ? kHostV4 : kHostV6;
    return address;
}

std::vector<BareLink> bare_links(const NetSnapshot& snapshot,
                                 const std::vector<IpAddress>& snapts,
                                 std::string_view own_device,
                                 const std::vector<UsableAddress>& in_use,
                                 const AskSource& ask) {
    std::vector<BareLink> links;
    const Host host{snapshot, snapshot.link(own_device)};
    for (BareLink& bare : ways_to(snapshot, snapts, in_use)) {
        const netlink::LinkEntry* link = snapshot.link(bare.interface_index);
        if (link == nullptr || !link->is_up || link->is_loopback || link == host.own_link) {
            continue;
        }
        for (const UsableAddress& used : in_use) {
            if (used.interface_index == bare.interface_index &&
                used.address.version == bare.snapt.version && keeps(host, bare, used.address)) {
                bare.source = used.address;
            }
        }
        if (!bare.source && snapshot.has_route(link->index, bare.snapt)) {
            bare.source = new_source(host, bare, ask);
        }
        links.push_back(bare);
    }
    return links;
}

}  // namespace continuo::cnapt::uplinks
