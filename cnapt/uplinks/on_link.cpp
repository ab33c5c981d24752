#include "cnapt/uplinks/on_link.hpp"

#include "cnapt/uplinks/near_links.hpp"

#include <algorithm>
#include <utility>

#include <fnmatch.h>

namespace continuo::cnapt::uplinks {

namespace {

using base::IpPrefix;
using base::IpVersion;

// DHCP gives a single address, from which the kernel makes a route.
bool is_own_address(const netlink::NetSnapshot& snapshot, const IpPrefix& prefix) {
    return prefix.length == (prefix.address.is_v4() ? 32 : 128) &&
           std::any_of(
               snapshot.addresses.begin(), snapshot.addresses.end(),
               [&](const netlink::UsableAddress& own) { return own.address == prefix.address; });
}

// Interfaces with a default route, also in parts.
class DefaultRoutes {
  public:
    explicit DefaultRoutes(const netlink::NetSnapshot& snapshot) {
        for (const netlink::RouteEntry& route : snapshot.routes) {
            const IpPrefix& to = route.destination;
            if (to.length <= kLongestPartOfDefault && !is_private(to.address)) {
                found_.emplace_back(route.interface_index, to.address.version);
            }
        }
    }
    bool has(uint32_t interface_index, IpVersion version) const {
        return std::find(found_.begin(), found_.end(), std::pair(interface_index, version)) !=
               found_.end();
    }

  private:
    std::vector<std::pair<uint32_t, IpVersion>> found_;
};

bool is_uplink(const netlink::LinkEntry* link, const UplinkRules& uplinks) {
    return link != nullptr && link->is_up && link->has_carrier && !link->is_loopback &&
           link->name != uplinks.own_device && !is_tunnel(*link) &&
           !is_lan_side(link->name, uplinks);
}

}  // namespace

bool is_lan_sized(const IpPrefix& prefix) {
    return prefix.length >= (prefix.address.is_v4() ? kShortestOnLinkV4 : kShortestOnLinkV6);
}

OnLink on_link_fate(const std::vector<OnLinkRule>& rules,
                    const std::string& interface_name,
                    IpVersion version) {
    const OnLinkRule* longest = nullptr;
    for (const OnLinkRule& rule : rules) {
        if (rule.interfaces == interface_name) {
            return rule.fate;
        }
        const bool fits = fnmatch(rule.interfaces.c_str(), interface_name.c_str(), 0) == 0;
        if (fits && (longest == nullptr || rule.interfaces.size() > longest->interfaces.size())) {
            longest = &rule;
        }
    }
    if (longest != nullptr) {
        return longest->fate;
    }
    return version == IpVersion::V6 ? OnLink::Refuse : OnLink::Tunnel;
}

const OnLinkNetwork* OnLinkNetworks::refusing(const base::IpAddress& address) const {
    const auto at = std::find_if(list.begin(), list.end(), [&](const OnLinkNetwork& network) {
        return network.fate == OnLink::Refuse && network.prefix.contains(address);
    });
    return at == list.end() ? nullptr : &*at;
}

std::vector<IpPrefix> OnLinkNetworks::near() const {
    std::vector<IpPrefix> prefixes;
    for (const OnLinkNetwork& network : list) {
        if (network.fate == OnLink::Near) {
            prefixes.push_back(network.prefix);
        }
    }
    std::sort(prefixes.begin(), prefixes.end());
    prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
    return prefixes;
}

OnLinkNetworks on_link_networks(const netlink::NetSnapshot& snapshot,
                                const UplinkRules& uplinks,
                                const OnLinkPolicy& policy) {
    OnLinkNetworks networks;
    const DefaultRoutes defaults(snapshot);
    for (const netlink::RouteEntry& route : snapshot.routes) {
        const IpPrefix& to = route.destination;
        const IpVersion version = to.address.version;
        if (route.gateway || !is_lan_sized(to) || is_private(to.address) ||
            !defaults.has(route.interface_index, version) || is_own_address(snapshot, to)) {
            continue;
        }
        const netlink::LinkEntry* link = snapshot.link(route.interface_index);
        if (!is_uplink(link, uplinks)) {
            continue;
        }
        OnLinkNetwork network{to, link->name, on_link_fate(policy.rules, link->name, version)};
        if (policy.is_kill_switch && network.fate == OnLink::Near) {
            network.fate = OnLink::Refuse;
        }
        if (std::find(networks.list.begin(), networks.list.end(), network) != networks.list.end()) {
            continue;  // by two addresses
        }
        if (networks.list.size() < kMaxOnLinkNetworks) {
            networks.list.push_back(std::move(network));
        } else {
            ++networks.left_out;
        }
    }
    return networks;
}

}  // namespace continuo::cnapt::uplinks
