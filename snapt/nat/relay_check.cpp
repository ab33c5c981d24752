#include "snapt/nat/relay_check.hpp"

#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"
#include "common/netlink/netlink_route.hpp"
#include "snapt/nat/nat_guard.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

#include <net/if.h>

namespace continuo::snapt::nat {

namespace {

using settings::SnaptConfig;

// Internet addresses that nobody has (RFC 5737, RFC 3849): their route is the default one.
constexpr const char* kSomewhere4 = "203.0.113.1";
constexpr const char* kSomewhere6 = "2001:db8::1";

// Root name servers a and k (the root hints of IANA): a default route leads to them, and so do the
// routes of a router that has all networks of the Internet and no default route.
constexpr std::array<const char*, 2> kFarAway4 = {"198.41.0.4", "193.0.14.129"};
constexpr std::array<const char*, 2> kFarAway6 = {"2001:503:ba3e::2:30", "2001:7fd::1"};

bool is_there(const std::string& interface) {
    return ::if_nametoindex(interface.c_str()) != 0;
}

// An address that a node may have: the SNAPT itself has the first one.
base::IpAddress some_lease(const base::IpPrefix& leases) {
    base::IpAddress address = leases.address;
    address.octets[address.bytes().size() - 1] |= 2U;
    return address;
}

// The interface by which this host sends what a node sends there.
base::Result<std::string> way_of_nodes(const SnaptConfig& config, base::IpAddress destination) {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    netlink::RouteClient::ForwardedPacket packet;
    packet.destination = destination;
    const auto& leases = destination.is_v4() ? config.inner.ipv4 : config.inner.ipv6;
    packet.input_interface = ::if_nametoindex(config.inner.device.c_str());
    if (packet.input_interface == 0 || !leases) {
        return routes.interface_to(packet.destination);
    }
    packet.source = some_lease(*leases);
    packet.mark = kPassMark;
    return routes.interface_to(packet);
}

base::Result<std::string> default_way(const SnaptConfig& config, base::IpVersion version) {
    const bool is_v4 = version == base::IpVersion::V4;
    return way_of_nodes(config, *base::IpAddress::parse(is_v4 ? kSomewhere4 : kSomewhere6));
}

// Errors of the kernel for a packet without a route, and for routes of the kinds unreachable and
// prohibit.
bool is_no_route(const base::Error& error) {
    return error.code == base::Errc::NotFound || error.sys_errno == ENETUNREACH ||
           error.sys_errno == EHOSTUNREACH || error.sys_errno == EACCES;
}

bool has_carrier(const std::string& interface) {
    auto routes = netlink::RouteClient::open();
    const auto link = routes ? routes->link(::if_nametoindex(interface.c_str()))
                             : base::Result<netlink::LinkEntry>(routes.error());
    return !link || link->has_carrier;
}

std::string no_way_to(const SnaptConfig& config, const base::IpAddress& destination) {
    const auto way = way_of_nodes(config, destination);
    if (!way) {
        return is_no_route(way.error()) ? "no default route" : "";
    }
    const auto& egress = config.relay.egress;
    if (!egress.empty() && std::find(egress.begin(), egress.end(), *way) == egress.end()) {
        return "the default route leads by " + *way + ", which is not in relay.egress";
    }
    return has_carrier(*way) ? "" : *way + " has no carrier";
}

std::vector<daemon::ForwardWay> ways_of(const std::string& device,
                                        const std::vector<std::string>& egress) {
    std::vector<daemon::ForwardWay> ways;
    for (const std::string& name : egress) {
        ways.push_back({device, name});
    }
    if (ways.empty()) {
        ways.push_back({device, ""});
    }
    return ways;
}

}  // namespace

ForwardingPath path_of(const SnaptConfig& config, base::IpVersion version) {
    ForwardingPath path{version, config.inner.device, config.relay.egress};
    if (!is_there(path.device)) {
        path.device = "default";
    }
    std::erase_if(path.egress, [](const std::string& name) { return !is_there(name); });
    if (config.relay.egress.empty()) {
        if (auto way = default_way(config, version)) {
            path.egress.push_back(std::move(*way));
        }
    }
    return path;
}

std::string no_way_out(const SnaptConfig& config, base::IpVersion version) {
    std::string why;
    for (const char* address : version == base::IpVersion::V4 ? kFarAway4 : kFarAway6) {
        const std::string found = no_way_to(config, *base::IpAddress::parse(address));
        if (found.empty()) {
            return "";
        }
        why = why.empty() ? found : why;
    }
    return why;
}

bool serves_private(const SnaptConfig& config, base::IpVersion version) {
    const auto& allow = config.relay.allow;
    return std::any_of(allow.begin(), allow.end(), [&](const base::IpPrefix& prefix) {
        return prefix.address.version == version;
    });
}

std::string closing_chain(const ForwardingPath& path) {
    const auto blocking = daemon::blocking_chains(ways_of(path.device, path.egress));
    if (!blocking) {
        return "";
    }
    const std::string other = path.version == base::IpVersion::V4 ? "ip6" : "ip";
    for (const daemon::BlockingChain& found : blocking->found) {
        if (found.passage == daemon::Passage::No && found.chain.family != other) {
            return "chain " + found.chain.to_string() + " drops what is forwarded by " +
                   path.device;
        }
    }
    return "";
}

void check_relay(const SnaptConfig& config, report::Findings& findings) {
    daemon::check_links("egress ", config.relay.egress, "relay.egress", findings);
    std::string names = config.inner.device;
    for (const std::string& name : config.relay.egress) {
        names += " and " + name;
    }
    std::vector<std::string> egress = config.relay.egress;
    if (egress.empty() && config.inner.ipv4) {
        egress = path_of(config, base::IpVersion::V4).egress;
    }
    daemon::check_forward_rules(ways_of(config.inner.device, egress), names, findings);
}

}  // namespace continuo::snapt::nat
