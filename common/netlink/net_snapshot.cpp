#include "common/netlink/net_monitor.hpp"

#include <algorithm>

namespace continuo::netlink {

using base::IpAddress;

namespace {

bool is_same_link(const LinkEntry& a, const LinkEntry& b) {
    return a.index == b.index;
}

bool is_same_address(const UsableAddress& a, const UsableAddress& b) {
    return a.interface_index == b.interface_index && a.address == b.address &&
           a.prefix_length == b.prefix_length;
}

template <typename T, typename Same>
const T* find_same(const std::vector<T>& list, const T& wanted, Same same) {
    const auto at =
        std::find_if(list.begin(), list.end(), [&](const T& entry) { return same(entry, wanted); });
    return at == list.end() ? nullptr : &*at;
}

NetEvent link_event(NetEvent::Kind kind, const LinkEntry& link) {
    return NetEvent{kind, &link, nullptr, nullptr};
}
NetEvent address_event(NetEvent::Kind kind, const UsableAddress& address) {
    return NetEvent{kind, nullptr, &address, nullptr};
}
NetEvent route_event(NetEvent::Kind kind, const RouteEntry& route) {
    return NetEvent{kind, nullptr, nullptr, &route};
}

// Both lists are sorted, and compared in one pass.
void each_missing(const std::vector<RouteEntry>& from,
                  const std::vector<RouteEntry>& in,
                  const std::function<void(const RouteEntry&)>& each) {
    auto other = in.begin();
    for (const RouteEntry& route : from) {
        while (other != in.end() && is_route_before(*other, route)) {
            ++other;
        }
        if (other == in.end() || is_route_before(route, *other)) {
            each(route);
        }
    }
}

}  // namespace

const LinkEntry* NetSnapshot::link(uint32_t interface_index) const {
    const auto at = std::find_if(links.begin(), links.end(), [&](const LinkEntry& entry) {
        return entry.index == interface_index;
    });
    return at == links.end() ? nullptr : &*at;
}

const LinkEntry* NetSnapshot::link(std::string_view name) const {
    const auto at = std::find_if(links.begin(), links.end(),
                                 [&](const LinkEntry& entry) { return entry.name == name; });
    return at == links.end() ? nullptr : &*at;
}

bool NetSnapshot::has_route(uint32_t interface_index, const IpAddress& address) const {
    return std::any_of(routes.begin(), routes.end(), [&](const RouteEntry& route) {
        return route.interface_index == interface_index && route.destination.contains(address);
    });
}

void compare(const NetSnapshot& before,
             const NetSnapshot& after,
             const std::function<void(const NetEvent&)>& each) {
    using Kind = NetEvent::Kind;
    each_missing(before.routes, after.routes,
                 [&](const RouteEntry& route) { each(route_event(Kind::RouteRemoved, route)); });
    for (const UsableAddress& address : before.addresses) {
        if (find_same(after.addresses, address, is_same_address) == nullptr) {
            each(address_event(Kind::AddressRemoved, address));
        }
    }
    for (const LinkEntry& link : before.links) {
        if (find_same(after.links, link, is_same_link) == nullptr) {
            each(link_event(Kind::LinkRemoved, link));
        }
    }
    for (const LinkEntry& link : after.links) {
        const LinkEntry* old = find_same(before.links, link, is_same_link);
        if (old == nullptr || *old != link) {
            each(link_event(old == nullptr ? Kind::LinkAdded : Kind::LinkChanged, link));
        }
    }
    for (const UsableAddress& address : after.addresses) {
        const UsableAddress* old = find_same(before.addresses, address, is_same_address);
        if (old == nullptr || *old != address) {
            each(
                address_event(old == nullptr ? Kind::AddressAdded : Kind::AddressChanged, address));
        }
    }
    each_missing(after.routes, before.routes,
                 [&](const RouteEntry& route) { each(route_event(Kind::RouteAdded, route)); });
}

}  // namespace continuo::netlink
