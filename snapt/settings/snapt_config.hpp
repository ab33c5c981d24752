// snapt.toml: its contents, its parser, and its text as `snapt init` writes it. Pure: the caller
// reads files.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/config/class_knobs.hpp"
#include "common/config/debug_section.hpp"
#include "common/config/diagnostic.hpp"
#include "common/config/keys.hpp"
#include "common/config/snapt_entries.hpp"
#include "common/config/values.hpp"
#include "snapt/settings/destinations.hpp"
#include "snapt/settings/self_service.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::settings {

struct AcceptedProtection {
    bool encrypt = true;
    bool authenticate = true;

    bool operator==(const AcceptedProtection&) const = default;
};

struct InnerConfig {
    std::string device = "snapt0";
    std::optional<base::IpPrefix> ipv4;  // leases; the first address is the SNAPT's
    std::optional<base::IpPrefix> ipv6;
    uint16_t mtu = 1500;
    base::Duration lease = base::seconds(604'800);

    bool operator==(const InnerConfig&) const = default;
};

struct RelayConfig {
    std::vector<std::string> egress;           // interfaces; empty: all but the inner device
    std::vector<base::IpAddress> source_pool;  // empty: masquerade
    config::PortRange source_ports = {1024, 65535};
    std::vector<base::IpPrefix> allow;  // taken out of the built-in deny list
    std::vector<base::IpPrefix> deny;   // added to it
    std::vector<SelfService> allow_self;
    bool set_forwarding = true;

    bool operator==(const RelayConfig&) const = default;
};

struct SnaptLimits {  // 0: none
    uint32_t user_sessions = 8;
    uint32_t user_flows = 4096;
    uint64_t user_rate_bits_per_s = 0;
    uint32_t sessions = 10'000;
    uint32_t flows = 65'536;
    uint64_t queue_bytes = 1'048'576;  // per class and session; never 0

    bool operator==(const SnaptLimits&) const = default;
};

struct SessionConfig {  // sent to nodes
    base::Duration rekey = base::seconds(3600);
    uint64_t rekey_datagrams = 4'294'967'296;
    base::Duration keepalive = base::seconds(25);
    base::Duration idle_timeout = base::seconds(86'400);

    bool operator==(const SessionConfig&) const = default;
};

enum class Granularity : uint8_t { Flow, Aggregate };

struct AccountingConfig {
    uint32_t interval_s = 60;  // divides 900
    uint32_t checkpoint_s = 5;
    Granularity granularity = Granularity::Flow;  // Aggregate: one record per session and class
    Destinations destinations = Destinations::None;
    uint32_t retention_days = 400;
    uint32_t live_slots = 131'072;
    uint32_t user_records = 1000;           // in an interval; 0: any number
    uint64_t min_free_bytes = 268'435'456;  // left on the disk; 0: no minimum
    uint32_t price_permille = 1000;         // `price_mult`: of the plan's price

    bool operator==(const AccountingConfig&) const = default;
};

// Most entries of `rest.listen`. A choice, not measured.
inline constexpr size_t kMaxRestListen = 8;

struct RestConfig {
    std::vector<std::string> listen;  // paths of Unix sockets, loopback addresses; empty: none

    bool operator==(const RestConfig&) const = default;
};

inline constexpr size_t kMaxOtherSnapts = 63;

struct SnaptConfig {
    std::string name;
    std::string realm = "continuo";
    // Nodes encrypt their identity with it; none: they send it in clear.
    std::optional<config::Key> identity_key;
    std::vector<base::Endpoint> listen;
    std::vector<config::HostPort> public_addresses;  // `public`
    std::vector<config::SnaptEntry> snapts;          // others of the realm, listed for nodes
    AcceptedProtection protection;
    uint32_t workers = 1;
    uint32_t spin_us = 100;  // io::EventLoop::set_spin
    InnerConfig inner;
    RelayConfig relay;
    SnaptLimits limits;
    SessionConfig session;
    config::ClassKnobTable classes = config::default_class_knobs();
    config::DebugConfig debug;
    AccountingConfig accounting;
    RestConfig rest;

    bool operator==(const SnaptConfig&) const = default;
};

// All defaults, where one exists: listening on every address, the leases of the sample.
SnaptConfig default_snapt_config();

struct ParsedSnaptConfig {
    std::optional<SnaptConfig> config;  // none when there is an error; warnings do not count
    std::vector<config::Diagnostic> diagnostics;
};
ParsedSnaptConfig parse_snapt_config(std::string_view text, const std::string& filename);

// The file that `snapt init` writes: complete, commented, listening on the ports of
// `public_addresses`.
std::string render_snapt_config(std::string_view name,
                                std::span<const config::HostPort> public_addresses,
                                const std::optional<config::Key>& identity_key,
                                std::string_view realm = "continuo");

struct ConfigChanges {
    std::vector<std::string> applied;
    std::vector<std::string> needs_restart;
};
ConfigChanges changes_between(const SnaptConfig& running, const SnaptConfig& fresh);

}  // namespace continuo::snapt::settings
