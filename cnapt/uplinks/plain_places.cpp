#include "cnapt/uplinks/plain_places.hpp"

#include "cnapt/uplinks/near_links.hpp"

#include <algorithm>

namespace continuo::cnapt::uplinks {

using base::IpPrefix;

namespace {

bool is_inside_private(const IpPrefix& prefix) {
    return is_covered(private_prefixes(), prefix);
}

}  // namespace

bool is_covered(std::span<const IpPrefix> outer, const IpPrefix& inner) {
    return std::any_of(outer.begin(), outer.end(), [&](const IpPrefix& one) {
        return inner.length >= one.length && one.contains(inner.address);
    });
}

std::vector<std::string> private_ranges(std::span<const IpPrefix> prefixes) {
    std::vector<std::string> names;
    for (const IpPrefix& range : private_prefixes()) {
        const bool is_whole = is_covered(prefixes, range);
        const bool has_part =
            std::any_of(prefixes.begin(), prefixes.end(), [&](const IpPrefix& one) {
                return is_covered({&range, 1}, one);
            });
        if (is_whole || has_part) {
            names.push_back((is_whole ? "" : "parts of ") + range.to_string());
        }
    }
    return names;
}

std::vector<IpPrefix> denied_by_all(std::span<const std::vector<IpPrefix>* const> lists) {
    if (lists.empty()) {
        return {};
    }
    std::vector<IpPrefix> common = *lists.front();
    for (const std::vector<IpPrefix>* list : lists.subspan(1)) {
        // Two prefixes are disjoint, or one contains the other: both deny the smaller one.
        std::vector<IpPrefix> rest;
        for (const IpPrefix& one : common) {
            for (const IpPrefix& other : *list) {
                if (one.length <= other.length && one.contains(other.address)) {
                    rest.push_back(other);
                } else if (other.length < one.length && other.contains(one.address)) {
                    rest.push_back(one);
                }
            }
        }
        std::sort(rest.begin(), rest.end());
        rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
        common = std::move(rest);
    }
    std::erase_if(common, [](const IpPrefix& prefix) { return !is_inside_private(prefix); });
    std::sort(common.begin(), common.end());
    common.erase(std::unique(common.begin(), common.end()), common.end());
    return common;
}

void add_near_prefixes(const netlink::NetSnapshot& snapshot, std::vector<IpPrefix>& to) {
    for (const netlink::RouteEntry& route : snapshot.routes) {
        if (is_inside_private(route.destination)) {
            to.push_back(route.destination);
        }
    }
}

NetworkMarks network_marks(const netlink::NetSnapshot& snapshot) {
    NetworkMarks marks;
    for (const netlink::RouteEntry& route : snapshot.routes) {
        if (route.destination.length <= kLongestPartOfDefault &&
            !is_inside_private(route.destination)) {
            const base::IpAddress none = base::IpAddress::any(route.destination.address.version);
            marks.gateways.emplace_back(route.interface_index, route.gateway.value_or(none));
        }
    }
    std::sort(marks.gateways.begin(), marks.gateways.end());
    for (const netlink::UsableAddress& address : snapshot.addresses) {
        const bool is_of_uplink =
            std::any_of(marks.gateways.begin(), marks.gateways.end(), [&](const auto& gateway) {
                return gateway.first == address.interface_index;
            });
        if (is_of_uplink) {
            marks.addresses.emplace_back(address.interface_index, address.address);
        }
    }
    std::sort(marks.addresses.begin(), marks.addresses.end());
    return marks;
}

bool is_in(std::span<const IpPrefix> prefixes, const base::IpAddress& address) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const IpPrefix& prefix) { return prefix.contains(address); });
}

}  // namespace continuo::cnapt::uplinks
