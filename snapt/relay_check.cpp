#include "snapt/relay_check.hpp"

#include "common/daemon/forward_rules.hpp"
#include "common/daemon/host_links.hpp"
#include "common/io/netlink_route.hpp"
#include "snapt/nat_guard.hpp"

#include <net/if.h>

namespace continuo::snapt {

namespace {

// Internet addresses that nobody has (RFC 5737, RFC 3849): their route is the default one.
constexpr const char* kSomewhere4 = "203.0.113.1";
constexpr const char* kSomewhere6 = "2001:db8::1";

bool is_there(const std::string& interface) {
    return ::if_nametoindex(interface.c_str()) != 0;
}

// An address that a node may have: the SNAPT itself has the first one.
base::IpAddress some_lease(const base::IpPrefix& leases) {
    base::IpAddress address = leases.address;
    address.octets[address.bytes().size() - 1] |= 2U;
    return address;
}

base::Result<std::string> default_way(const SnaptConfig& config, base::IpVersion version) {
    const bool is_v4 = version == base::IpVersion::V4;
    auto routes = CTN_TRY(io::RouteClient::open());
    io::RouteClient::ForwardedPacket packet;
    packet.destination = *base::IpAddress::parse(is_v4 ? kSomewhere4 : kSomewhere6);
    const auto& leases = is_v4 ? config.inner.ipv4 : config.inner.ipv6;
    packet.input_interface = ::if_nametoindex(config.inner.device.c_str());
    if (packet.input_interface == 0 || !leases) {
        return routes.interface_to(packet.destination);
    }
    packet.source = some_lease(*leases);
    packet.mark = kPassMark;
    return routes.interface_to(packet);
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

}  // namespace continuo::snapt
