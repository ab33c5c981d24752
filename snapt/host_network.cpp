#include "snapt/host_network.hpp"

#include "common/base/log.hpp"
#include "common/io/netlink_route.hpp"
#include "common/io/tun_device.hpp"
#include "snapt/nat.hpp"

namespace continuo::snapt {

namespace {

constexpr uint32_t kTransmitQueueLength = 1000;

RelayOptions nat_options(const SnaptConfig& config) {
    RelayOptions options;
    options.device = config.inner.device;
    options.lease_ipv4 = config.inner.ipv4;
    options.lease_ipv6 = config.inner.ipv6;
    options.egress = config.relay.egress;
    options.source_pool = config.relay.source_pool;
    options.source_ports = {config.relay.source_ports.first, config.relay.source_ports.last};
    options.allow = config.relay.allow;
    options.deny = config.relay.deny;
    return options;
}

}  // namespace

HostNetwork::HostNetwork(const SnaptConfig& config, std::string state)
    : config_(config), state_(std::move(state)) {}

base::Result<void> HostNetwork::open(std::string& failure) {
    failure = "cannot keep kernel parameters in " + state_;
    sysctls_ =
        std::make_unique<io::SysctlGuard>(CTN_TRY(io::SysctlGuard::open(state_ + "/sysctl.json")));
    return {};
}

base::Result<void> HostNetwork::set_up_device(const LeaseStore& leases) {
    auto routes = CTN_TRY(io::RouteClient::open());
    const uint32_t index = CTN_TRY(routes.interface_index(config_.inner.device));
    for (const io::SysctlSetting& setting : relay_device_sysctls(config_.inner.device)) {
        (void)io::write_sysctl(setting.key, setting.value);
    }
    if (const auto own = leases.own_ipv4(); own && config_.inner.ipv4) {
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv4->length));
    }
    if (const auto own = leases.own_ipv6(); own && config_.inner.ipv6) {
        CTN_TRY(routes.add_address(index, *own, config_.inner.ipv6->length));
    }
    io::LinkSettings link;
    link.up = true;
    link.mtu = config_.inner.mtu;
    link.transmit_queue_length = kTransmitQueueLength;
    return routes.set_link(index, link);
}

base::Result<void> HostNetwork::set_up(const LeaseStore& leases, std::string& failure) {
    failure = "cannot configure " + config_.inner.device;
    CTN_TRY(set_up_device(leases));
    const RelayOptions nat = nat_options(config_);
    failure = "cannot apply nftables rules";
    if (const auto applied = nft_.apply(build_relay_ruleset(nat)); !applied) {
        failure += " (" + nft_.error_text() + ")";
        return applied.error();
    }
    for (const io::SysctlSetting& setting : relay_sysctls(
             nat, config_.relay.set_forwarding, io::interfaces_with_router_advertisements())) {
        failure = "cannot set kernel parameter " + setting.key + " to " + setting.value;
        const auto set = sysctls_->set(setting);
        // Nothing works without forwarding; the rest may be read-only, as in most containers.
        const bool is_needed =
            setting.key.ends_with("forward") || setting.key.ends_with("forwarding");
        if (!set && is_needed) {
            return set.error();
        }
        if (!set) {
            base::log(base::LogLevel::Warning, "%s", failure.c_str());
        }
    }
    return {};
}

void HostNetwork::tear_down() {
    if (!sysctls_) {
        return;  // not opened: what is there is another daemon's
    }
    (void)nft_.remove_table(relay_table(config_.inner.device));
    (void)sysctls_->restore();
    (void)io::TunDevice::remove(config_.inner.device);
}

}  // namespace continuo::snapt
