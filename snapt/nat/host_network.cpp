#include "snapt/nat/host_network.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/tun_device.hpp"
#include "snapt/nat/nat.hpp"
#include "snapt/nat/nat_guard.hpp"
#include "snapt/nat/nat_limit.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include <netinet/in.h>

namespace continuo::snapt::nat {

using base::log;
using base::LogLevel;
using daemon::describe;
using settings::SnaptConfig;
using store::LeaseStore;

RelayOptions nat_options(const SnaptConfig& config) {
    RelayOptions options;
    options.device = config.inner.device;
    options.lease_ipv4 = config.inner.ipv4;
    options.lease_ipv6 = config.inner.ipv6;
    options.egress = config.relay.egress;
    options.source_pool = config.relay.source_pool;
    options.allow = config.relay.allow;
    options.deny = config.relay.deny;
    options.allow_self = config.relay.allow_self;
    return options;
}

namespace {

constexpr uint32_t kTransmitQueueLength = 1000;

// Includes the ports of `public`: a rule of this host, or a router in front of it, redirects them
// to those of `listen`.
std::vector<uint16_t> own_ports(const SnaptConfig& config) {
    std::vector<uint16_t> ports;
    for (const base::Endpoint& endpoint : config.listen) {
        ports.push_back(endpoint.port);
    }
    for (const config::HostPort& address : config.public_addresses) {
        ports.push_back(address.port);
    }
    return ports;
}

// `listeners` are sorted.
bool has_port_of(const std::vector<process::ListeningPort>& listeners,
                 const netfilter::TrackedConnection& connection) {
    const bool is_tcp = connection.protocol == IPPROTO_TCP;
    return (is_tcp || connection.protocol == IPPROTO_UDP) &&
           std::binary_search(listeners.begin(), listeners.end(),
                              process::ListeningPort{is_tcp, connection.translated_port});
}

PortRange source_ports(const SnaptConfig& config) {
    return {config.relay.source_ports.first, config.relay.source_ports.last};
}

PortRange ephemeral_ports() {
    PortRange range{32768, 60999};  // the kernel's default
    if (const auto text = host::read_sysctl("net/ipv4/ip_local_port_range")) {
        std::istringstream(*text) >> range.first >> range.last;
    }
    return range;
}

}  // namespace

base::Result<void> forget_connections_of(const store::Lease& lease) {
    auto client = CTN_TRY(netfilter::NetfilterClient::open());
    for (const auto& address : {lease.ipv4, lease.ipv6}) {
        if (address) {
            CTN_TRY(client.forget_from(*address));
        }
    }
    return {};
}

base::Result<void> forget_flows(std::span<const packet::FiveTuple> flows) {
    auto client = CTN_TRY(netfilter::NetfilterClient::open());
    CTN_TRY(client.forget(flows));
    return {};
}

std::optional<ConnectionTable> connection_table() {
    const auto number = [](const char* name) {
        size_t value = 0;
        if (const auto text = host::read_sysctl("net/netfilter/" + std::string(name))) {
            std::istringstream(*text) >> value;
        }
        return value;
    };
    const ConnectionTable table{number("nf_conntrack_max"), number("nf_conntrack_count")};
    return table.places != 0 ? std::optional(table) : std::nullopt;
}

HostNetwork::HostNetwork(const SnaptConfig& config, std::string state)
    : config_(config)
    , state_(std::move(state))
    , has_ipv6_(config.inner.ipv6 && host::ipv6_switched_off(config.inner.device).empty())
    , taken_ports_(own_ports(config)) {}

base::Result<void> HostNetwork::open(std::string& failure) {
    failure = "cannot keep kernel parameters in " + state_;
    sysctls_ = std::make_unique<host::SysctlGuard>(
        CTN_TRY(host::SysctlGuard::open(state_ + "/sysctl.json")));
    return {};
}

base::Result<void> HostNetwork::set_up_device(const LeaseStore& leases) {
    auto routes = CTN_TRY(netlink::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.inner.device));
    for (const host::SysctlSetting& setting : relay_device_sysctls(config_.inner.device)) {
        (void)host::write_sysctl(setting.key, setting.value);
    }
    if (const auto own = leases.own_ipv4(); own && config_.inner.ipv4) {
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv4->length));
    }
    if (has_ipv6_) {
        CTN_TRY(set_ipv6_address(routes, leases));
    }
    netlink::LinkSettings link;
    link.up = true;
    link.mtu = config_.inner.mtu;
    link.transmit_queue_length = kTransmitQueueLength;
    return routes.set_link(index, link);
}

base::Result<void> HostNetwork::set_ipv6_address(netlink::RouteClient& routes,
                                                 const LeaseStore& leases) const {
    const uint32_t index = CTN_TRY(routes.interface_index(config_.inner.device));
    if (const auto own = leases.own_ipv6(); own && config_.inner.ipv6) {
        (void)host::switch_ipv6(config_.inner.device, true);
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv6->length));
    }
    return {};
}

base::Result<void> HostNetwork::set_up(LeaseStore& leases, std::string& failure) {
    const std::lock_guard lock(mutex_);
    failure = "cannot configure " + config_.inner.device;
    CTN_TRY(set_up_device(leases));
    nat_ = nat_options(config_);
    auto taken = look_at_listeners(true);
    if (!taken) {
        taken = taken_ports_.look({}, ephemeral_ports(), true);
    }
    taken_ = std::move(taken->lasting);
    nat_.source_ports = ports_left(source_ports(config_), taken->ports);
    failure = "cannot apply nftables rules";
    if (const auto applied = write_relay(); !applied) {
        failure += " (" + nft_.error_text() + ")";
        return applied.error();
    }
    if (const auto limited = write_limit(config_.limits.user_flows, true); !limited) {
        failure = "cannot limit the connections of a lease (" + nft_.error_text() +
                  "): the kernel needs nft_connlimit, or set limits.user_flows = 0";
        return limited.error();
    }
    is_set_up_ = true;
    remember_parameters();
    set_guard();
    CTN_TRY(forget_left_connections(leases));
    return set_parameters(Versions::All, failure);
}

base::Result<void> HostNetwork::set_parameters(Versions versions, std::string& failure) {
    RelayOptions options = nat_;
    if (!has_ipv6_) {
        options.lease_ipv6.reset();
    }
    for (const host::SysctlSetting& setting :
         relay_sysctls(options, config_.relay.set_forwarding,
                       host::interfaces_with_router_advertisements())) {
        if (versions == Versions::Six && !setting.key.starts_with("net/ipv6/")) {
            continue;
        }
        failure = "cannot set kernel parameter " + setting.key + " to " + setting.value;
        const auto set = sysctls_->set(setting);
        // Forwarding is indispensable; the others may be read-only, as in most containers.
        const bool is_needed =
            setting.key.ends_with("forward") || setting.key.ends_with("forwarding");
        if (!set && is_needed) {
            return set.error();
        }
        if (!set) {
            log(LogLevel::Warning, "%s", failure.c_str());
        }
    }
    (void)open_paths();
    return {};
}

// The kernel removes the address and with it the route to the leases; rules stay.
base::Result<void>
HostNetwork::restore_ipv6(const LeaseStore& leases, bool had_it, std::string& failure) {
    const auto own = leases.own_ipv6();
    failure = "cannot configure " + config_.inner.device + " for IPv6";
    auto routes = CTN_TRY(netlink::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.inner.device));
    const auto addresses = CTN_TRY(routes.addresses());
    const bool is_there =
        std::any_of(addresses.begin(), addresses.end(), [&](const netlink::AddressEntry& entry) {
            return entry.interface_index == index && entry.address == own;
        });
    if (!is_there) {
        CTN_TRY(set_ipv6_address(routes, leases));
    }
    return had_it ? base::Result<void>{} : set_parameters(Versions::Six, failure);
}

void HostNetwork::follow_ipv6(const LeaseStore& leases) {
    const std::lock_guard lock(mutex_);
    const std::string& device = config_.inner.device;
    if (!is_set_up_ || !config_.inner.ipv6) {
        return;
    }
    const bool is_as_usual = has_ipv6_ && host::has_ipv6(device) && host::has_ipv6("all");
    const std::string why = is_as_usual ? "" : host::ipv6_switched_off(device);
    if (!why.empty() && !config_.inner.ipv4) {
        return;  // there is nothing else to give
    }
    const bool had_it = has_ipv6_.exchange(why.empty());
    if (!has_ipv6_) {
        if (had_it) {
            (void)host::switch_ipv6(device, false);
            log(LogLevel::Warning, "IPv6 was switched off on this host (%s): leases have IPv4 only",
                why.c_str());
        }
        return;
    }
    std::string failure;
    const auto restored = restore_ipv6(leases, had_it, failure);
    if (!restored && can_have_ipv6_) {
        log(LogLevel::Warning, "%s: %s", failure.c_str(), describe(restored.error()).c_str());
    }
    can_have_ipv6_ = restored.has_value();
    if (!had_it) {
        log(LogLevel::Info, "IPv6 is switched on again on this host: leases have it, too");
    }
}

// Connections of an earlier run: at ports that nobody listened on then, and of leases that the
// database has lost.
base::Result<void> HostNetwork::forget_left_connections(LeaseStore& leases) {
    std::set<base::IpAddress> leased;
    for (const store::Lease& lease : CTN_TRY(leases.list())) {
        for (const auto& address : {lease.ipv4, lease.ipv6}) {
            if (address) {
                leased.insert(*address);
            }
        }
    }
    const bool are_forgotten =
        forget_connections([&](const netfilter::TrackedConnection& connection) {
            return has_port_of(taken_, connection) || !leased.contains(connection.source);
        });
    if (!are_forgotten) {
        taken_.clear();  // they are looked for again
    }
    return {};
}

void HostNetwork::set_user_flows(uint32_t user_flows) {
    const std::lock_guard lock(mutex_);
    if (!is_set_up_) {
        return;
    }
    if (!write_limit(user_flows, true)) {
        log(LogLevel::Warning, "cannot limit connections: %s", nft_.error_text().c_str());
    }
}

std::optional<uint64_t> HostNetwork::refused_connections() const {
    const std::string table = limit_table(config_.inner.device);
    auto client = netfilter::NetfilterClient::open();
    const auto packets =
        client ? client->counted_packets(table.substr(table.find(' ') + 1), kConnectionLimitCounter)
               : base::Result<uint64_t>(client.error());
    return packets ? std::optional(*packets) : std::nullopt;
}

std::optional<TakenPorts::Taken> HostNetwork::look_at_listeners(bool wants_all) {
    const auto listeners = process::listening_ports();
    if (!listeners && can_list_) {
        log(LogLevel::Warning,
            "cannot see who listens at this host (%s): NAT may hand out a port of another program; "
            "keep them out of source_ports",
            describe(listeners.error()).c_str());
    }
    can_list_ = listeners.has_value();
    return listeners ? std::optional(taken_ports_.look(*listeners, ephemeral_ports(), wants_all))
                     : std::nullopt;
}

void HostNetwork::renew_ports(bool wants_all) {
    const std::lock_guard lock(mutex_);
    if (!is_set_up_) {
        return;
    }
    auto taken = look_at_listeners(wants_all);
    if (!taken) {
        return;  // ports that were taken may be so still
    }
    RelayOptions nat = nat_;
    nat.source_ports = ports_left(source_ports(config_), taken->ports);
    if (nat.source_ports != nat_.source_ports) {
        const auto changed = change_nat(nat);
        if (changed && !*changed) {
            return;  // with the next look: somebody has changed it, and it is put back first
        }
        if (!changed) {
            log(LogLevel::Warning, "cannot change which ports NAT hands out: %s",
                nft_.error_text().c_str());
            return;  // with the next look
        }
        if (nat.source_ports.empty()) {
            log(LogLevel::Error, "every port of source_ports is in use at this host");
        }
        nat_ = std::move(nat);
    }
    std::vector<process::ListeningPort> fresh;
    std::set_difference(taken->lasting.begin(), taken->lasting.end(), taken_.begin(), taken_.end(),
                        std::back_inserter(fresh));
    // Packets from the other side to the listener would go to the lease.
    const auto is_at_one = [&fresh](const netfilter::TrackedConnection& connection) {
        return has_port_of(fresh, connection);
    };
    if (fresh.empty() || forget_connections(is_at_one)) {
        taken_ = std::move(taken->lasting);
    }
}

// Only considers connections that begin in the lease prefixes.
bool HostNetwork::forget_connections(
    const std::function<bool(const netfilter::TrackedConnection&)>& is_unwanted) {
    bool are_forgotten = true;
    for (const auto& prefix : {nat_.lease_ipv4, nat_.lease_ipv6}) {
        if (!prefix) {
            continue;
        }
        const auto is_unwanted_there = [&](const netfilter::TrackedConnection& connection) {
            return prefix->contains(connection.source) && is_unwanted(connection);
        };
        auto client = netfilter::NetfilterClient::open();
        const auto forgotten = client
                                   ? client->forget_if(prefix->address.version, is_unwanted_there)
                                   : base::Result<size_t>(client.error());
        if (!forgotten) {
            log(LogLevel::Warning, "cannot forget connections: %s",
                describe(forgotten.error()).c_str());
            are_forgotten = false;
        }
    }
    return are_forgotten;
}

void HostNetwork::tear_down() {
    const std::lock_guard lock(mutex_);
    is_set_up_ = false;
    if (!sysctls_) {
        return;  // not opened: anything there belongs to another daemon
    }
    // They would occupy ports of this host, and bring answers to the next holder of the lease.
    forget_connections([](const netfilter::TrackedConnection& /*any*/) { return true; });
    (void)nft_.remove_table(relay_table(config_.inner.device));
    (void)nft_.remove_table(limit_table(config_.inner.device));
    guard_.remove();
    if (auto routes = netlink::RouteClient::open()) {
        for (const netlink::RuleEntry& rule : guard_rules(config_.inner.device)) {
            (void)routes->remove_rule(rule);
        }
    }
    (void)sysctls_->restore();
    (void)host::TunDevice::remove(config_.inner.device);
}

}  // namespace continuo::snapt::nat
