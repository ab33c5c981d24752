#include "cnapt/capture/forward_links.hpp"

#include "cnapt/uplinks/interface_name.hpp"
#include "cnapt/uplinks/near_links.hpp"

#include <algorithm>

namespace continuo::cnapt::capture {

namespace {

bool has_default_route(const netlink::LinkEntry& link, const netlink::NetSnapshot& snapshot) {
    return std::any_of(snapshot.routes.begin(), snapshot.routes.end(),
                       [&](const netlink::RouteEntry& route) {
                           return route.interface_index == link.index &&
                                  route.destination.length <= uplinks::kLongestPartOfDefault &&
                                  !uplinks::is_private(route.destination.address);
                       });
}

}  // namespace

ForwardLinks forward_links(const netlink::NetSnapshot& snapshot,
                           const std::vector<std::string>& in_use,
                           const std::string& own_device) {
    ForwardLinks found;
    for (const netlink::LinkEntry& link : snapshot.links) {
        if (link.is_loopback || link.name == own_device) {
            continue;
        }
        const bool is_uplink = has_default_route(link, snapshot) ||
                               std::find(in_use.begin(), in_use.end(), link.name) != in_use.end();
        if (!is_uplink && link.kind != "bridge") {
            continue;
        }
        auto& list = is_uplink ? found.uplinks : found.bridges;
        if (list.size() < kMaxForwardLinks && uplinks::is_safe_interface_name(link.name)) {
            list.push_back(link.name);
        } else {
            ++found.left_out;
        }
    }
    return found;
}

}  // namespace continuo::cnapt::capture
