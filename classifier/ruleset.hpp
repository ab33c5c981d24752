// Ruleset: an immutable policy, compiled for matching. Shared by pointer, replaced as a whole on
// reload; safe to use from several threads.
#pragma once

#include "classifier/rule.hpp"
#include "common/config/diagnostic.hpp"
#include "common/packet/five_tuple.hpp"

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::classifier {

struct FlowUser {
    uint32_t uid = 0;
    std::string_view name;  // empty: not in the user database
};

// Facts known about a flow. `process` and `parent` are names as in /proc/PID/comm. A flow whose
// owner is not found, or that is forwarded, has no process and no user.
struct FlowFacts {
    packet::FiveTuple tuple;
    uint8_t dscp = 0;
    std::optional<std::string_view> process;
    std::optional<std::string_view> parent;
    std::optional<FlowUser> user;
};

// Views lie in the Ruleset.
struct Classification {
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    std::string_view app;                // empty: no rule matched
    uint16_t app_tag = 0;                // index in app_names(); 0: none
    std::optional<uint32_t> rule_index;  // in rules()
    Action action = Action::Serve;
    bool may_compress = true;
    std::optional<uint64_t> min_bits_per_s;
    std::optional<uint32_t> max_delay_ms;
    std::span<const std::string> snapts;  // preference, in order
    PathMode mode = PathMode::Handover;
};

// One step of the kernel's decision before routing: first match wins. Rules that need more than it
// knows then, a process or DSCP, are left out: bypassed packets never reach them.
struct BypassStep {
    uint32_t rule_index = 0;  // in rules()
    const RuleMatch* match = nullptr;
    bool is_bypassed = false;  // else captured
};

class Ruleset {
  public:
    explicit Ruleset(PolicyFile file);
    ~Ruleset();
    Ruleset(const Ruleset&) = delete;
    Ruleset& operator=(const Ruleset&) = delete;
    Ruleset(Ruleset&&) = delete;
    Ruleset& operator=(Ruleset&&) = delete;

    // First match wins; a rule with a condition that `facts` cannot answer does not match.
    Classification classify(const FlowFacts& facts) const;
    // Whether knowing process and user could change the result of classify().
    bool needs_process(const FlowFacts& facts) const;
    // The rules up to the last bypass rule, for routing. Empty when nothing is bypassed; together
    // they take kMaxBypassMatches routing rules at most.
    std::vector<BypassStep> bypass_steps() const;
    // Traffic of members of these cgroups is bypassed; in order, at most kMaxBypassedCgroups.
    std::vector<std::string> bypassed_cgroups() const;

    const std::vector<Rule>& rules() const { return file_.rules; }
    const Promotion& promotion() const { return file_.promotion; }
    const Admission& admission() const { return file_.admission; }
    const DefaultClasses& defaults() const { return file_.defaults; }
    // Names of application tags; [0] is empty.
    const std::vector<std::string>& app_names() const { return app_names_; }

  private:
    struct Compiled;

    Classification result_of(uint32_t rule_index, packet::Protocol protocol) const;
    Classification default_of(packet::Protocol protocol) const;
    std::span<const uint32_t> candidates(packet::Protocol protocol) const;

    PolicyFile file_;
    std::vector<std::string> app_names_;
    std::vector<uint16_t> app_tags_;                   // by rule
    std::vector<Compiled> compiled_;                   // by rule
    std::array<std::vector<uint32_t>, 3> candidates_;  // rule indexes for TCP, UDP, ICMP, ascending
};

struct ParsedPolicy {
    std::shared_ptr<const Ruleset> ruleset;  // null when there is an error
    std::vector<config::Diagnostic> diagnostics;
};

// Parses policy.toml; `filename` is for the diagnostics.
ParsedPolicy parse_policy(std::string_view text, const std::string& filename);

// The policy that is used when there is no file; the text is that of packaging/policy.toml.
std::string_view built_in_policy_text();
std::shared_ptr<const Ruleset> built_in_ruleset();

}  // namespace continuo::classifier
