#include "common/netlink/route_set.hpp"

#include <algorithm>
#include <utility>

namespace continuo::netlink {

using base::IpAddress;
using base::IpPrefix;

namespace {

// The kernel reports routes that it creates itself (linux/rtnetlink.h).
constexpr uint8_t kKernelProtocol = 2;

auto route_order(const RouteEntry& route) {
    return std::tuple(route.destination.length, route.destination.address, route.interface_index,
                      route.metric, route.gateway.value_or(IpAddress()),
                      route.preferred_source.value_or(IpAddress()), route.type, route.protocol,
                      route.is_on_link);
}

}  // namespace

bool is_route_before(const RouteEntry& a, const RouteEntry& b) {
    return route_order(a) < route_order(b);
}

bool RouteSet::Before::operator()(const Kept& a, const Kept& b) const {
    const auto left = route_order(a.entry);
    const auto right = route_order(b.entry);
    return left != right ? left < right : a.type_of_service < b.type_of_service;
}

bool RouteSet::decides(const IpPrefix& destination) const {
    return destination.length <= kLongestPartOfDefault ||
           std::any_of(interest_.destinations.begin(), interest_.destinations.end(),
                       [&](const IpAddress& address) { return destination.contains(address); });
}

RouteSet::Kind RouteSet::kind_of(const RouteEntry& entry) const {
    const uint8_t told = interest_.kind != nullptr ? interest_.kind(entry) : uint8_t{0};
    return {entry.interface_index, entry.destination.address.version, entry.protocol, told};
}

void RouteSet::leave_out(const Kept& route) {
    if (route.is_deciding) {
        ++unseen_deciding_;
    } else {
        ++left_out_;
        kinds_[kind_of(route.entry)].has_more = true;
    }
}

void RouteSet::insert(Kept route) {
    route.is_deciding = decides(route.entry.destination);
    if (const auto known = routes_.find(route); known != routes_.end()) {
        known->is_one_of_several = route.is_one_of_several;
        return;
    }
    if (route.is_deciding) {
        if (deciding_ >= kMaxDecidingRoutes) {
            leave_out(route);
            return;
        }
        ++deciding_;
        touched_.is_deciding = true;
    } else {
        const bool is_full = routes_.size() - deciding_ >= kMaxOtherRoutes;
        const auto known = kinds_.find(kind_of(route.entry));
        if (is_full && known == kinds_.end()) {
            ++left_out_;
            has_unseen_kinds_ = true;
            return;
        }
        if (is_full || (known != kinds_.end() && known->second.kept >= kRoutesOfKind)) {
            leave_out(route);
            return;
        }
        ++kinds_[kind_of(route.entry)].kept;
        touched_.is_other = true;
    }
    routes_.insert(std::move(route));
}

RouteSet::Routes::iterator RouteSet::erase(Routes::iterator at) {
    if (at->is_deciding) {
        --deciding_;
        touched_.is_deciding = true;
        needs_list_ = needs_list_ || std::exchange(unseen_deciding_, 0) != 0;
        return routes_.erase(at);
    }
    const auto kind = kinds_.find(kind_of(at->entry));
    touched_.is_other = true;
    needs_list_ = needs_list_ || std::exchange(has_unseen_kinds_, false);
    --kind->second.kept;
    needs_list_ = needs_list_ || (kind->second.has_more && kind->second.kept < kFewestOfKind);
    if (kind->second.kept == 0) {
        kinds_.erase(kind);
    }
    return routes_.erase(at);
}

void RouteSet::remove(const Kept& route) {
    const auto at = routes_.find(route);
    if (at != routes_.end()) {
        erase(at);
    } else if (decides(route.entry.destination)) {
        unseen_deciding_ -= std::min<uint64_t>(unseen_deciding_, 1);
    } else {
        left_out_ -= std::min<uint64_t>(left_out_, 1);
    }
}

// The kernel replaces one. If several match, only a list tells which.
void RouteSet::remove_replaced(const RouteEntry& by, uint8_t type_of_service) {
    Kept first;
    first.entry.destination = by.destination;
    first.entry.protocol = 0;
    size_t found = 0;
    bool is_one_route = true;
    for (auto at = routes_.lower_bound(first);
         at != routes_.end() && at->entry.destination == by.destination;) {
        if (at->entry.metric != by.metric || at->type_of_service != type_of_service) {
            ++at;
            continue;
        }
        is_one_route = is_one_route && at->is_one_of_several;
        at = erase(at);
        ++found;
    }
    needs_list_ = needs_list_ || (found > 1 && !is_one_route);
    if (found == 0 && !decides(by.destination)) {
        left_out_ -= std::min<uint64_t>(left_out_, 1);
    }
}

void RouteSet::apply(const RouteChange& change) {
    if (change.replaces && !change.is_removal && !change.hops.empty()) {
        remove_replaced(change.hops.front(), change.type_of_service);
    }
    for (const RouteEntry& hop : change.hops) {
        if (hop.type != RouteType::Unicast) {
            continue;
        }
        Kept route;
        route.entry = hop;
        route.type_of_service = change.type_of_service;
        route.is_one_of_several = change.hops.size() > 1;
        if (change.is_removal) {
            remove(route);
        } else {
            insert(std::move(route));
        }
    }
}

void RouteSet::remove_of_link(uint32_t interface_index) {
    for (auto at = routes_.begin(); at != routes_.end();) {
        if (at->entry.interface_index != interface_index) {
            ++at;
        } else if (at->is_one_of_several) {
            needs_list_ = true;  // it stays while it has another next hop
            ++at;
        } else {
            at = erase(at);
        }
    }
}

void RouteSet::doubt_routes_of(uint32_t interface_index, const IpAddress& address) {
    const auto is_doubtful = [&](const Kept& route) {
        const bool is_of_interface = address.is_v4() && route.entry.destination.address.is_v4() &&
                                     route.entry.interface_index == interface_index;
        return route.entry.protocol != kKernelProtocol &&
               (is_of_interface || route.entry.preferred_source == address);
    };
    needs_list_ = needs_list_ || std::any_of(routes_.begin(), routes_.end(), is_doubtful);
}

void RouteSet::set_destinations(std::vector<IpAddress> destinations) {
    const bool has_new =
        std::any_of(destinations.begin(), destinations.end(), [&](const IpAddress& address) {
            const auto& old = interest_.destinations;
            return std::find(old.begin(), old.end(), address) == old.end();
        });
    interest_.destinations = std::move(destinations);
    const bool is_whole = left_out_ == 0 && unseen_deciding_ == 0;
    needs_list_ = needs_list_ || (has_new && !is_whole);
    const Routes former = std::exchange(routes_, {});
    for (auto& [kind, of_kind] : kinds_) {
        of_kind.kept = 0;
    }
    deciding_ = 0;
    const Touched touched = touched_;
    for (const Kept& route : former) {
        insert(route);
    }
    touched_ = touched;
    std::erase_if(
        kinds_, [](const auto& entry) { return entry.second.kept == 0 && !entry.second.has_more; });
}

std::vector<RouteEntry> RouteSet::list() const {
    std::vector<RouteEntry> list;
    list.reserve(routes_.size());
    for (const Kept& route : routes_) {
        if (list.empty() || list.back() != route.entry) {
            list.push_back(route.entry);
        }
    }
    return list;
}

RouteSet::Touched RouteSet::take_touched() {
    return std::exchange(touched_, {});
}

}  // namespace continuo::netlink
