// Checks of `snapt doctor`: where nodes come in, and where their packets go out.
#include "common/daemon/remedy.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/library_lookup.hpp"
#include "common/host/sysctl.hpp"
#include "common/io/udp_socket.hpp"
#include "common/netfilter/nft.hpp"
#include "common/netlink/net_monitor.hpp"
#include "common/process/socket_listeners.hpp"
#include "snapt/commands/doctor_context.hpp"
#include "snapt/links/control_listener.hpp"
#include "snapt/nat/nat.hpp"
#include "snapt/nat/relay_check.hpp"

#include <algorithm>

#include <unistd.h>

namespace continuo::snapt::commands {

namespace {

using nat::ForwardingPath;

// Longest wait for names, and most `public` addresses checked. Choices, not measured.
constexpr base::Duration kNameTime = base::seconds(8);
constexpr size_t kMaxPublic = 32;
// The least MTU of IPv6 (RFC 8200 section 5).
constexpr uint32_t kSmallestMtu = 1280;

// --- Where nodes come in

// Tries the port while no daemon runs: binds it briefly, as the daemon would.
void try_listen(SnaptDoctor& doctor, const base::Endpoint& endpoint) {
    const std::string check = "listen " + endpoint.to_string();
    io::EventLoop loop;
    links::ControlListener listener(loop, [](io::UniqueFd, const base::Endpoint&) {});
    const auto tcp = listener.open(std::span(&endpoint, 1));
    io::UdpSocketOptions options;
    options.local = endpoint;
    options.packet_info = true;
    const auto udp = io::UdpSocket::open(options);
    if (tcp && udp) {
        doctor.findings.ok(check, "TCP and UDP are free");
        return;
    }
    const base::Error error = tcp ? udp.error() : tcp.error();
    doctor.findings.fail(check, daemon::describe(error), std::string(daemon::remedy(error)));
}

void look_at_listeners(SnaptDoctor& doctor) {
    const auto listeners = process::listening_ports();
    for (const base::Endpoint& endpoint : doctor.config->listen) {
        const std::string check = "listen " + endpoint.to_string();
        const auto has = [&](bool is_tcp) {
            return listeners && std::binary_search(listeners->begin(), listeners->end(),
                                                   process::ListeningPort{is_tcp, endpoint.port});
        };
        if (!listeners) {
            doctor.findings.skip(check, "cannot list sockets", "a kernel with sock_diag");
        } else if (has(true) && has(false)) {
            doctor.findings.ok(check, "TCP and UDP are open");
        } else {
            doctor.findings.fail(check,
                                 has(true) ? "nobody listens for UDP" : "nobody listens for TCP",
                                 "restart snapt: `listen` was changed since its start");
        }
    }
}

base::Result<netlink::NetSnapshot> look_at_network() {
    io::EventLoop loop;
    const auto monitor = netlink::NetMonitor::start(loop, [](const netlink::NetEvent&) {});
    return monitor ? base::Result<netlink::NetSnapshot>((*monitor)->snapshot())
                   : base::Result<netlink::NetSnapshot>(monitor.error());
}

void say_public(SnaptDoctor& doctor,
                const std::string& check,
                const std::vector<base::IpAddress>& addresses,
                const netlink::NetSnapshot& network) {
    std::string own;
    std::string others;
    for (const base::IpAddress& address : addresses) {
        const auto found = std::find_if(network.addresses.begin(), network.addresses.end(),
                                        [&](const auto& one) { return one.address == address; });
        std::string& list = found != network.addresses.end() ? own : others;
        list += (list.empty() ? "" : ", ") + address.to_string();
    }
    if (others.empty()) {
        doctor.findings.ok(check, own + " is this host's; `cnapt doctor` of a node tells whether "
                                        "it is reached");
    } else {
        doctor.findings.warn(
            check, "no interface of this host has " + others,
            "fine behind a NAT that leads TCP and UDP of that port here; otherwise "
            "correct `public`");
    }
}

// --- Where packets go out

struct WayOut {
    base::IpVersion version = base::IpVersion::V4;
    const char* name = "IPv4";
    bool is_wanted = false;
};

std::string way_remedy(const std::string& why, base::IpVersion version) {
    if (why.ends_with("carrier")) {
        return "connect it, or correct the default route";
    }
    if (why.ends_with("relay.egress")) {
        return "add it to relay.egress, or correct the route";
    }
    return version == base::IpVersion::V4 ? "set one, or inner.ipv4 = \"\""
                                          : "set one, or inner.ipv6 = false";
}

// The same look as the daemon's: a router with all networks needs no default route.
void check_way_out(SnaptDoctor& doctor, const WayOut& way, const netlink::NetSnapshot& network) {
    const std::string check = std::string("way out ") + way.name;
    const std::string why = nat::no_way_out(*doctor.config, way.version);
    if (!why.empty()) {
        const std::string found = why == "no default route" ? "this host has " + why : why;
        const std::string remedy = way_remedy(why, way.version);
        if (way.version == base::IpVersion::V6) {
            doctor.findings.warn(check, found + ": IPv6 of nodes leads nowhere", remedy);
        } else if (nat::serves_private(*doctor.config, way.version)) {
            doctor.findings.warn(check, found + ": nodes reach only private networks", remedy);
        } else {
            doctor.findings.fail(check, found, remedy);
        }
        return;
    }
    const auto route =
        std::find_if(network.routes.begin(), network.routes.end(), [&](const auto& one) {
            return one.destination.length == 0 && one.destination.address.version == way.version;
        });
    const netlink::LinkEntry* link =
        route != network.routes.end() ? network.link(route->interface_index) : nullptr;
    if (link == nullptr) {
        doctor.findings.ok(check, "routes of this host lead there");
    } else if (link->mtu < kSmallestMtu) {
        doctor.findings.fail(check, link->name + " has MTU " + std::to_string(link->mtu),
                             "ip link set " + link->name + " mtu 1500");
    } else {
        doctor.findings.ok(check, "by " + link->name + ", MTU " + std::to_string(link->mtu));
    }
}

// Checks each version that leases have. Without a running daemon its device has the defaults.
std::vector<ForwardingPath> paths_of(const settings::SnaptConfig& config) {
    std::vector<ForwardingPath> paths;
    if (config.inner.ipv4) {
        paths.push_back(nat::path_of(config, base::IpVersion::V4));
    }
    if (config.inner.ipv6) {
        paths.push_back(nat::path_of(config, base::IpVersion::V6));
    }
    return paths;
}

}  // namespace

void check_listen(SnaptDoctor& doctor) {
    if (!doctor.needs_config("listen")) {
        return;
    }
    if (doctor.runs()) {
        look_at_listeners(doctor);
    } else if (doctor.is_absent()) {
        for (const base::Endpoint& endpoint : doctor.config->listen) {
            try_listen(doctor, endpoint);
        }
    } else {
        doctor.findings.skip("listen", "a daemon may have the ports, and does not answer",
                             "see \"daemon\" above");
    }
}

void check_public(SnaptDoctor& doctor) {
    if (!doctor.config) {
        return;  // "listen" has said why
    }
    const auto network = look_at_network();
    if (!network) {
        doctor.findings.fail("public", daemon::describe(network.error()),
                             "a kernel with rtnetlink");
        return;
    }
    std::vector<config::HostPort> places = doctor.config->public_addresses;
    places.resize(std::min(places.size(), kMaxPublic));
    std::vector<std::function<std::vector<base::IpAddress>()>> works;
    for (const config::HostPort& place : places) {
        const auto endpoint = place.endpoint();
        works.emplace_back([host = place.host, endpoint] {
            return endpoint ? std::vector{endpoint->address} : host::look_up_by_library(host);
        });
    }
    const auto addresses = daemon::within(doctor.deadline.time_for(kNameTime), works);
    for (size_t i = 0; i < places.size(); ++i) {
        const std::string check = "public " + places[i].to_string();
        if (addresses[i] && !addresses[i]->empty()) {
            say_public(doctor, check, *addresses[i], *network);
        } else {
            doctor.findings.fail(check, "the name has no address here",
                                 "correct `public`, or the name servers of this host");
        }
    }
}

// Finds leases that are also addresses of a network of this host: packets would be sent there.
void check_inner(SnaptDoctor& doctor) {
    if (!doctor.config) {
        return;
    }
    const auto network = look_at_network();
    const settings::InnerConfig& inner = doctor.config->inner;
    for (const auto& prefix : {inner.ipv4, inner.ipv6}) {
        if (!prefix || !network) {
            continue;
        }
        const std::string check = "inner " + prefix->to_string();
        const auto other = std::find_if(
            network->addresses.begin(), network->addresses.end(), [&](const auto& one) {
                const netlink::LinkEntry* link = network->link(one.interface_index);
                return prefix->contains(one.address) && link != nullptr &&
                       link->name != inner.device;
            });
        if (other == network->addresses.end()) {
            doctor.findings.ok(check, "overlaps no network of this host");
        } else {
            doctor.findings.fail(check,
                                 network->link(other->interface_index)->name + " has " +
                                     other->address.to_string() + " in the prefix of the leases",
                                 "choose another prefix in [inner] and restart");
        }
    }
}

void check_ways_out(SnaptDoctor& doctor) {
    if (!doctor.config) {
        return;
    }
    const auto network = look_at_network();
    const WayOut ways[] = {{base::IpVersion::V4, "IPv4", doctor.config->inner.ipv4.has_value()},
                           {base::IpVersion::V6, "IPv6", doctor.config->inner.ipv6.has_value()}};
    for (const WayOut& way : ways) {
        if (way.is_wanted && network) {
            check_way_out(doctor, way, *network);
        }
    }
}

void check_forwarding(SnaptDoctor& doctor) {
    if (!doctor.config) {
        return;
    }
    const bool sets_it = doctor.config->relay.set_forwarding;
    std::string off;
    bool is_writable = true;
    for (const ForwardingPath& path : paths_of(*doctor.config)) {
        for (const std::string& key : nat::forwarding_off(path)) {
            std::string name = key;
            std::replace(name.begin(), name.end(), '/', '.');
            off += (off.empty() ? "" : " ") + name + "=1";
            is_writable = is_writable && ::access(("/proc/sys/" + key).c_str(), W_OK) == 0;
        }
    }
    const std::string check = "forwarding";
    if (off.empty()) {
        doctor.findings.ok(check, "on");
    } else if (sets_it && !doctor.runs() && (is_writable || !doctor.is_root)) {
        doctor.findings.ok(check, "off, and switched on by snapt at its start");
    } else {
        doctor.findings.fail(check, "is off: packets of nodes do not get through",
                             "sysctl -w " + off);
    }
}

void check_nat(SnaptDoctor& doctor) {
    const std::string check = "nat";
    if (!doctor.runs()) {
        doctor.findings.skip(check, "needs a running daemon", "start it, see \"daemon\" above");
        return;
    }
    if (!doctor.needs_root(check) || !doctor.needs_config(check)) {
        return;
    }
    netfilter::Nft nft;
    const std::string table = nat::relay_table(doctor.config->inner.device);
    const auto has = nft.has_chain(table, "nat");
    if (!has || !*has) {
        doctor.findings.fail(check, "the table " + table + " is not there: somebody removed it",
                             "restart snapt; `nft flush ruleset` takes the rules of all programs");
        return;
    }
    const auto leak = nft.counter(table, nat::kLeakCounter);
    const auto no_port = nft.counter(table, nat::kNoPortCounter);
    if (leak && leak->packets != 0) {
        doctor.findings.warn(check,
                             std::to_string(leak->packets) +
                                 " packets were about to leave with a lease's address",
                             "find out what changes the nftables rules of this host");
    } else if (no_port && no_port->packets != 0) {
        doctor.findings.warn(check,
                             std::to_string(no_port->packets) +
                                 " connections got no port: all of source_ports are in use",
                             "widen relay.source_ports");
    } else {
        doctor.findings.ok(check, "the rules are in place");
    }
}

}  // namespace continuo::snapt::commands
