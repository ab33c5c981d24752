#include "cnapt/node/tunnel_uplinks.hpp"

#include "cnapt/capture/routes.hpp"
#include "cnapt/capture/rule_place.hpp"
#include "cnapt/capture/source_routes.hpp"
#include "cnapt/node/path_choice.hpp"
#include "common/base/log.hpp"
#include "common/netlink/netlink_route.hpp"

#include <algorithm>

namespace continuo::cnapt::node {

using base::IpPrefix;
using capture::is_source_rule;
using capture::kLowestRulePriority;
using capture::kRulePriorities;
using capture::kUsualRulePriority;
using capture::rule_place;
using capture::takes_all;
using path::PathState;
using uplinks::is_carried_over_ip;
using uplinks::is_host;
using uplinks::is_private;
using uplinks::is_set_by_network;
using uplinks::kBothVersions;
using uplinks::kLongestPartOfDefault;
using uplinks::Uplink;
using uplinks::Uplinks;

namespace {

// True if a rule of others before those of cnapt takes the packets: they are not captured.
bool has_rule_before(netlink::RouteClient& routes, base::IpVersion version) {
    const auto rules = routes.rules(version);
    if (!rules) {
        return false;
    }
    uint32_t first = kUsualRulePriority;
    bool is_there = false;
    for (const netlink::RuleEntry& rule : *rules) {
        if (rule.protocol == netlink::kRouteProtocol && rule.priority >= kLowestRulePriority &&
            rule.priority < kUsualRulePriority + kRulePriorities && !is_source_rule(rule)) {
            is_there = true;
            first = std::min(first, rule.priority);
        }
    }
    first = is_there ? first : rule_place(*rules);
    return std::any_of(rules->begin(), rules->end(), [&](const netlink::RuleEntry& rule) {
        return rule.priority < first && takes_all(rule) && rule.table != netlink::kMainTable;
    });
}

// No answer is outstanding: it may work, as far as is known.
bool may_carry(const SnaptLink& link, const Uplink& uplink, const netlink::NetSnapshot& network) {
    if (!uplink.can_carry() || uplink.is_captive ||
        !Uplinks::has_route(uplink, link.addresses, network)) {
        return false;
    }
    if (!link.session) {
        return true;
    }
    const path::Path& path = link.session->paths().path(uplink.slot);
    const bool is_carrier = link.is_on_stream() && link.active_slot() == uplink.slot;
    return is_carrier ? link.session->paths().path(wire::kTcpPath).state() != PathState::Dead
                      : !is_added(path) || path.state() != PathState::Dead;
}

// Only the session of another SNAPT matters: it is not worth disturbing for this one.
bool carries_any(std::span<const std::unique_ptr<SnaptLink>> links, const Uplink& uplink) {
    return std::any_of(links.begin(), links.end(), [&](const auto& link) {
        if (!link->session || link->active_slot() != uplink.slot) {
            return false;
        }
        const uint8_t path = link->is_on_stream() ? wire::kTcpPath : uplink.slot;
        return link->session->paths().path(path).state() == PathState::Usable;
    });
}

}  // namespace

bool is_resting(const SnaptLink& link,
                const Uplink& uplink,
                std::span<const std::unique_ptr<SnaptLink>> links,
                const Uplinks& uplinks,
                const netlink::NetSnapshot& network) {
    if (link.active_slot() == uplink.slot ||
        !Uplinks::is_last_resort(uplink, link.addresses, network)) {
        return false;
    }
    const auto& list = uplinks.list();
    return std::any_of(list.begin(), list.end(), [&](const Uplink* other) {
        return !Uplinks::is_last_resort(*other, link.addresses, network) &&
               (may_carry(link, *other, network) || carries_any(links, *other));
    });
}

bool is_resting(const Uplink& uplink, const Node& node) {
    return uplink.is_tunnel &&
           std::none_of(node.links().begin(), node.links().end(),
                        [&](const auto& link) { return node.paths().is_path(*link, uplink); });
}

std::vector<IpPrefix> carriers(const netlink::NetSnapshot& network) {
    std::vector<IpPrefix> found;
    for (const netlink::RouteEntry& route : network.routes) {
        const netlink::LinkEntry* link = network.link(route.interface_index);
        if (is_host(route.destination) && route.gateway && !is_set_by_network(route) &&
            link != nullptr && !is_carried_over_ip(*link)) {
            found.push_back(route.destination);
        }
    }
    // Public ones first, so that they are not left out.
    const auto order = [](const IpPrefix& prefix) {
        return std::pair(is_private(prefix.address), prefix);
    };
    std::sort(found.begin(), found.end(),
              [&](const IpPrefix& a, const IpPrefix& b) { return order(a) < order(b); });
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (found.size() > kMaxCarriers) {
        base::log(base::LogLevel::Debug, "%zu hosts have routes of their own: %zu may carry a VPN",
                  found.size(), kMaxCarriers);
        found.resize(kMaxCarriers);
    }
    return found;
}

std::vector<IpPrefix> carriers_in_use(const Node& node) {
    const auto& uplinks = node.uplinks().list();
    const bool is_in_use = std::any_of(uplinks.begin(), uplinks.end(), [&](const Uplink* uplink) {
        return uplink->is_tunnel &&
               std::any_of(node.links().begin(), node.links().end(), [&](const auto& link) {
                   return link->session && is_added(link->session->paths().path(uplink->slot));
               });
    });
    return is_in_use ? carriers(node.network()) : std::vector<IpPrefix>{};
}

std::vector<OtherVpn> vpns_with_default_route(const netlink::NetSnapshot& network,
                                              std::span<const base::IpAddress> snapts,
                                              uint32_t fwmark) {
    std::vector<OtherVpn> vpns;
    const auto add = [&](const netlink::LinkEntry* link, bool is_in_main, bool takes_programs) {
        const bool is_known =
            link == nullptr || std::any_of(vpns.begin(), vpns.end(), [&](const OtherVpn& vpn) {
                return vpn.interface == link->name;
            });
        if (!is_known && is_carried_over_ip(*link)) {
            vpns.push_back({link->name, is_in_main, false, takes_programs});
        }
    };
    for (const netlink::RouteEntry& route : network.routes) {
        if (route.destination.length <= kLongestPartOfDefault &&
            !is_private(route.destination.address)) {
            add(network.link(route.interface_index), true, false);
        }
    }
    auto routes = netlink::RouteClient::open();
    if (!routes) {
        return vpns;
    }
    for (const base::IpAddress& snapt : snapts) {
        if (const auto by = routes->interface_to(snapt, {}, fwmark)) {
            add(network.link(*by), false, has_rule_before(*routes, snapt.version));
        }
    }
    return vpns;
}

std::vector<OtherVpn> other_vpns(const Node& node) {
    std::vector<base::IpAddress> snapts;
    for (const auto& link : node.links()) {
        for (const base::IpVersion version : kBothVersions) {
            if (link->addresses.has(version)) {
                snapts.push_back(link->addresses.of(version).address);
            }
        }
    }
    auto vpns = vpns_with_default_route(node.network(), snapts, node.uplinks().fwmark());
    for (OtherVpn& vpn : vpns) {
        const auto& uplinks = node.uplinks().list();
        vpn.is_used = std::any_of(uplinks.begin(), uplinks.end(), [&](const Uplink* uplink) {
            return uplink->interface == vpn.interface &&
                   std::any_of(node.links().begin(), node.links().end(), [&](const auto& link) {
                       return link->session && link->active_slot() == uplink->slot;
                   });
        });
    }
    return vpns;
}

void write_other_vpns(report::JsonWriter& json, const std::vector<OtherVpn>& vpns) {
    json.begin_array();
    for (const OtherVpn& vpn : vpns) {
        json.begin_object();
        json.field("interface", vpn.interface);
        json.field("in_main", vpn.is_in_main);
        json.field("used", vpn.is_used);
        json.field("takes_programs", vpn.takes_programs);
        json.end_object();
    }
    json.end_array();
}

}  // namespace continuo::cnapt::node
