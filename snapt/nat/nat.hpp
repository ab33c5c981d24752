// The relay's nftables text and sysctls, built from the configuration as values. Pure; app.cpp
// applies them through common/netfilter. The kernel's NAT keeps its bindings when the table is
// replaced.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/host/sysctl.hpp"
#include "snapt/settings/self_service.hpp"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::nat {

struct PortRange {
    uint16_t first = 1024;
    uint16_t last = 65535;

    bool operator==(const PortRange&) const = default;
};

struct RelayOptions {
    std::string device = "snapt0";
    std::optional<base::IpPrefix> lease_ipv4;  // absent: that version is not relayed
    std::optional<base::IpPrefix> lease_ipv6;
    std::vector<std::string> egress;  // empty: all but the device
    std::vector<base::IpAddress>
        source_pool;  // empty: masquerade; otherwise SNAT, one address per lease
    // Parts of the port range that NAT uses: a source port in one of them is translated into that
    // part, others into the first. None: new connections are dropped. nat_ports.hpp.
    std::vector<PortRange> source_ports = {PortRange{}};
    std::vector<base::IpPrefix> allow;
    std::vector<base::IpPrefix> deny;
    std::vector<settings::SelfService> allow_self;  // this host's; nodes reach nothing else on it
};

// Destinations that nodes may not reach unless allowed: this host, loopback, link-local, RFC 1918,
// RFC 6598, ULA, benchmarks, reserved ones, multicast, metadata services, and IPv6 prefixes that
// others translate to IPv4. Documentation ranges are not included.
std::span<const base::IpPrefix> built_in_deny_list();

// The built-in list without `allow`, plus `deny`, sorted, without overlaps: the content of the
// rules and of `snapt status`. Contains an address of 64:ff9b::/96 if it contains the embedded IPv4
// address.
std::vector<base::IpPrefix> effective_deny_list(std::span<const base::IpPrefix> allow,
                                                std::span<const base::IpPrefix> deny);
// The part of that list in private prefixes (RFC 1918, RFC 6598, ULA), for nodes; at most `limit`.
// Leaves out the vicinity of `leases`, of 16 bits, where this host itself is reached.
std::vector<base::IpPrefix>
denied_private(std::span<const base::IpPrefix> allow,
               std::span<const base::IpPrefix> deny,
               std::initializer_list<std::optional<base::IpPrefix>> leases,
               size_t limit);

// One nftables transaction that replaces the table. Interface names must be safe (1 to 15 of
// [A-Za-z0-9_.@:-]).
std::string build_relay_ruleset(const RelayOptions& options);

// One transaction that replaces only the source translation of the table.
std::string build_nat_ruleset(const RelayOptions& options);

// "inet continuo_snapt_<device>", characters outside [A-Za-z0-9_] as '_'.
std::string relay_table(std::string_view device);
// nftables text that matches packets that leave the host: two comparisons, which cost less than a
// look-up in a set. Rules that every packet meets compare addresses first, which seldom match.
std::string leaves_host(std::string_view device);

// Forwarding, and the timeouts of conntrack (dataplane::conntrack_timeouts). The named interfaces
// keep accepting router advertisements while IPv6 forwarding is on
// (host::interfaces_with_router_advertisements).
std::vector<host::SysctlSetting>
relay_sysctls(const RelayOptions& options,
              bool set_forwarding,
              std::span<const std::string> router_advertisement_interfaces);

// For the device alone: before it is set up, nothing to restore.
std::vector<host::SysctlSetting> relay_device_sysctls(std::string_view device);

// Named counters of the table. kLeakCounter must read zero.
inline constexpr std::string_view kLeakCounter = "leak";
inline constexpr std::string_view kSpoofedCounter = "spoofed";
inline constexpr std::string_view kDeniedCounter = "denied";
inline constexpr std::string_view kClientToClientCounter = "client_to_client";
inline constexpr std::string_view kToSelfCounter = "to_self";
inline constexpr std::string_view kInvalidCounter = "invalid";
inline constexpr std::string_view kUnsolicitedCounter = "unsolicited";
inline constexpr std::string_view kNoEgressCounter = "no_egress";
inline constexpr std::string_view kNoPortCounter = "no_port";

}  // namespace continuo::snapt::nat
