// cnapt.toml: its contents, its parser, and its text as `snapt user add` prints it. Pure: the
// caller reads files, the host name and the key file.
#pragma once

#include "cnapt/uplinks/fwmark.hpp"
#include "cnapt/uplinks/on_link.hpp"
#include "common/base/ip_address.hpp"
#include "common/config/class_knobs.hpp"
#include "common/config/debug_section.hpp"
#include "common/config/diagnostic.hpp"
#include "common/config/keys.hpp"
#include "common/config/snapt_entries.hpp"
#include "common/config/values.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::settings {

enum class Protection : uint8_t { Encrypt, Authenticate };

struct Identity {
    std::string user;
    std::string key_id;
    std::optional<config::Key> key;  // else in `key_file`
    std::string key_file;

    // PSK identity: "alice/k1".
    std::string psk_identity() const { return user + "/" + key_id; }
    bool operator==(const Identity&) const = default;
};

using SnaptEntry = config::SnaptEntry;

struct CaptureConfig {
    std::string device = "cnapt0";
    bool ipv4 = true;
    bool ipv6 = true;
    uint32_t routing_table = 9347;
    uint32_t fwmark = uplinks::kDefaultFwmark;
    std::vector<base::IpPrefix> exclude;
    std::vector<base::IpPrefix> near;  // public ones that stay beside the tunnel where routed so
    std::vector<uplinks::OnLinkRule> on_link;  // public addresses in the network of an uplink
    std::vector<std::string> gateway_interfaces;
    bool kill_switch = false;

    bool operator==(const CaptureConfig&) const = default;
};

struct UplinkConfig {
    std::vector<std::string> allow = {"*"};
    std::vector<std::string> deny = {"docker*", "virbr*"};

    // Interface globs; deny wins.
    bool allows(const std::string& interface_name) const;
    bool operator==(const UplinkConfig&) const = default;
};

// The C library asks no more servers than this.
inline constexpr size_t kMaxNameServers = 3;

struct DnsConfig {
    std::vector<base::IpAddress> servers;  // of the host, through the tunnel; none: left alone

    bool operator==(const DnsConfig&) const = default;
};

struct NodeLimits {
    uint32_t flows = 65'536;
    uint64_t queue_bytes = 1'048'576;  // per class and session

    bool operator==(const NodeLimits&) const = default;
};

struct NodeConfig {
    std::string node;  // empty: the host name
    std::string realm = "continuo";
    Protection protection = Protection::Encrypt;
    uint8_t tag_bytes = 16;
    std::string policy = "/etc/continuo/policy.toml";
    uint32_t spin_us = 100;  // io::EventLoop::set_spin
    Identity identity;
    std::vector<SnaptEntry> snapts;
    CaptureConfig capture;
    UplinkConfig uplinks;
    DnsConfig dns;
    config::ClassKnobTable classes = config::default_class_knobs();
    config::DebugConfig debug;
    NodeLimits limits;

    bool operator==(const NodeConfig&) const = default;
};

struct ParsedNodeConfig {
    std::optional<NodeConfig> config;  // none when there is an error
    std::vector<config::Diagnostic> diagnostics;
};
ParsedNodeConfig parse_node_config(std::string_view text, const std::string& filename);

// Check of a file for `cnapt check`: cnapt.toml or policy.toml, told apart by their tables.
std::vector<config::Diagnostic> check_node_text(std::string_view text, const std::string& filename);

// A complete commented cnapt.toml, with the key. An empty node name means the host name.
std::string render_node_config(const NodeConfig& config);

// Changes that a reload applies at once, and those that need a restart.
struct ConfigChanges {
    std::vector<std::string> applied;
    std::vector<std::string> needs_restart;
};
ConfigChanges changes_between(const NodeConfig& running, const NodeConfig& fresh);

}  // namespace continuo::cnapt::settings
