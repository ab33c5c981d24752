// The content of policy.toml as data: rules, defaults, promotion, admission. Made by parse_policy,
// read by Ruleset and by the policy layer.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/path_mode.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/config/values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace continuo::classifier {

inline constexpr size_t kMaxRules = 4096;
// Limit of all rules up to the last one that bypasses; each is examined for every connection.
inline constexpr size_t kMaxBypassMatches = 1024;
// Each takes a file descriptor.
inline constexpr size_t kMaxBypassedCgroups = 64;

enum class Action : uint8_t { Serve, Deny, Bypass };
using base::PathMode;
enum class WhenUnmet : uint8_t { Serve, Degrade, Refuse };

std::string_view to_string(Action action);

// Icmp stands for ICMPv6 too.
struct ProtocolSet {
    bool tcp = false;
    bool udp = false;
    bool icmp = false;

    bool is_empty() const { return !tcp && !udp && !icmp; }
    bool operator==(const ProtocolSet&) const = default;
};

// The conditions of a rule; an empty list matches every flow.
struct RuleMatch {
    std::vector<std::string> processes;  // names or globs, case-sensitive
    std::vector<std::string> parents;    // the parent process's, likewise
    std::vector<std::string> user_names;
    std::vector<uint32_t> user_ids;
    ProtocolSet protocols;
    std::vector<config::PortRange> ports;  // remote; only TCP and UDP have them
    std::vector<base::IpPrefix> destinations;
    std::vector<uint8_t> dscp;
    // As in /proc/PID/cgroup; alone, and in bypass rules only: flows are not classified by it.
    std::vector<std::string> cgroups;

    bool has_user() const { return !user_names.empty() || !user_ids.empty(); }
    // Known only when the owner of the flow is looked up.
    bool has_process() const { return !processes.empty() || !parents.empty(); }
    // Whether routing rules can ask all of it, so that the kernel knows before there is a packet.
    bool is_known_to_routing() const { return !has_process() && dscp.empty(); }
    // How many routing rules that takes: one for each combination of what is listed.
    size_t routing_rules() const;
    bool operator==(const RuleMatch&) const = default;
};

struct Rule {
    std::string app;
    RuleMatch match;
    std::optional<base::TrafficClass> traffic_class;  // none: the default of the protocol
    Action action = Action::Serve;
    bool may_compress = true;
    std::optional<uint64_t> min_bits_per_s;
    std::optional<uint32_t> max_delay_ms;
    std::vector<std::string> snapts;  // preference, in order
    std::optional<PathMode> mode;

    bool operator==(const Rule&) const = default;
};

struct DefaultClasses {
    base::TrafficClass tcp = base::TrafficClass::LtHd;
    base::TrafficClass udp = base::TrafficClass::HtLd;
    base::TrafficClass icmp = base::TrafficClass::LtLd;
    PathMode mode = PathMode::Handover;

    bool operator==(const DefaultClasses&) const = default;
};

struct Promotion {
    bool is_enabled = false;
    uint64_t above_bits_per_s = 64'000;
    base::Duration sustained = base::seconds(2);

    bool operator==(const Promotion&) const = default;
};

struct Admission {
    WhenUnmet when_unmet = WhenUnmet::Serve;

    bool operator==(const Admission&) const = default;
};

struct PolicyFile {
    DefaultClasses defaults;
    Promotion promotion;
    Admission admission;
    std::vector<Rule> rules;
};

}  // namespace continuo::classifier
