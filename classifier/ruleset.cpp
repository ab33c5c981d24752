#include "classifier/ruleset.hpp"

#include "common/base/assert.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fnmatch.h>

namespace continuo::classifier {
namespace {

// The kernel cuts a process name to 15 bytes (TASK_COMM_LEN), so a longer name in a rule matches
// its beginning.
constexpr size_t kMaxCommBytes = 15;

enum class Verdict : uint8_t { No, Unknown, Yes };

size_t slot_of(packet::Protocol protocol) {
    switch (protocol) {
    case packet::Protocol::Tcp:
        return 0;
    case packet::Protocol::Udp:
        return 1;
    default:
        return 2;
    }
}

// Exact names by binary search, globs one by one.
class NameSet {
  public:
    NameSet(const std::vector<std::string>& patterns, bool is_process) {
        for (const std::string& pattern : patterns) {
            if (pattern.find_first_of("*?[") != std::string::npos) {
                globs_.push_back(pattern);
            } else {
                names_.push_back(is_process ? pattern.substr(0, kMaxCommBytes) : pattern);
                names_.push_back(pattern);
            }
        }
        std::sort(names_.begin(), names_.end());
    }

    bool is_empty() const { return names_.empty() && globs_.empty(); }
    bool contains(std::string_view name) const {
        if (std::binary_search(names_.begin(), names_.end(), name)) {
            return true;
        }
        if (globs_.empty()) {
            return false;
        }
        const std::string terminated(name);
        return std::any_of(globs_.begin(), globs_.end(), [&terminated](const std::string& glob) {
            return fnmatch(glob.c_str(), terminated.c_str(), 0) == 0;
        });
    }

  private:
    std::vector<std::string> names_;
    std::vector<std::string> globs_;
};

// Closed ranges, merged and sorted.
template <typename T>
class RangeSet {
  public:
    void add(const T& first, const T& last) { ranges_.emplace_back(first, last); }
    void finish() {
        std::sort(ranges_.begin(), ranges_.end());
        std::vector<std::pair<T, T>> merged;
        for (const auto& range : ranges_) {
            if (!merged.empty() && !(merged.back().second < range.first)) {
                merged.back().second = std::max(merged.back().second, range.second);
            } else {
                merged.push_back(range);
            }
        }
        ranges_ = std::move(merged);
    }
    bool is_empty() const { return ranges_.empty(); }
    bool contains(const T& value) const {
        const auto after =
            std::upper_bound(ranges_.begin(), ranges_.end(), value,
                             [](const T& left, const auto& range) { return left < range.first; });
        return after != ranges_.begin() && !(std::prev(after)->second < value);
    }

  private:
    std::vector<std::pair<T, T>> ranges_;
};

base::IpAddress last_address(const base::IpPrefix& prefix) {
    base::IpAddress last = prefix.address;
    const size_t bits = last.is_v4() ? 32 : 128;
    for (size_t bit = prefix.length; bit < bits; ++bit) {
        last.octets[bit / 8] = static_cast<uint8_t>(last.octets[bit / 8] | (0x80U >> (bit % 8)));
    }
    return last;
}

bool is_same_outcome(const Classification& left, const Classification& right) {
    return left.traffic_class == right.traffic_class && left.app_tag == right.app_tag &&
           left.action == right.action && left.may_compress == right.may_compress &&
           left.min_bits_per_s == right.min_bits_per_s && left.max_delay_ms == right.max_delay_ms &&
           left.mode == right.mode &&
           std::equal(left.snapts.begin(), left.snapts.end(), right.snapts.begin(),
                      right.snapts.end());
}

}  // namespace

struct Ruleset::Compiled {
    explicit Compiled(const RuleMatch& match)
        : processes(match.processes, true)
        , parents(match.parents, true)
        , users(match.user_names, false)
        , user_ids(match.user_ids) {
        const bool is_any = match.protocols.is_empty();
        const bool has_ports = !match.ports.empty();
        protocols = {is_any || match.protocols.tcp, is_any || match.protocols.udp,
                     (is_any || match.protocols.icmp) && !has_ports};
        if (!match.cgroups.empty()) {
            protocols = {};  // packets of other protocols are not captured
        }
        for (const config::PortRange& range : match.ports) {
            ports.add(range.first, range.last);
        }
        ports.finish();
        for (const base::IpPrefix& prefix : match.destinations) {
            destinations.add(prefix.address, last_address(prefix));
        }
        destinations.finish();
        for (const uint8_t code_point : match.dscp) {
            dscp_mask |= uint64_t{1} << code_point;
        }
        std::sort(user_ids.begin(), user_ids.end());
    }

    bool may_have(size_t slot) const {
        return std::array{protocols.tcp, protocols.udp, protocols.icmp}[slot];
    }

    // The protocol is checked by the candidate lists.
    Verdict match(const FlowFacts& facts) const {
        if ((!ports.is_empty() && !ports.contains(facts.tuple.remote_port)) ||
            (dscp_mask != 0 && (dscp_mask >> (facts.dscp & 63U) & 1U) == 0) ||
            (!destinations.is_empty() && !destinations.contains(facts.tuple.remote))) {
            return Verdict::No;
        }
        return std::min(match_user(facts), match_process(facts));
    }

    Verdict match_user(const FlowFacts& facts) const {
        if (user_ids.empty() && users.is_empty()) {
            return Verdict::Yes;
        }
        if (!facts.user) {
            return Verdict::Unknown;
        }
        const bool is_listed =
            std::binary_search(user_ids.begin(), user_ids.end(), facts.user->uid) ||
            (!facts.user->name.empty() && users.contains(facts.user->name));
        return is_listed ? Verdict::Yes : Verdict::No;
    }

    Verdict match_process(const FlowFacts& facts) const {
        if (processes.is_empty() && parents.is_empty()) {
            return Verdict::Yes;
        }
        if (!facts.process) {
            return Verdict::Unknown;
        }
        if (!processes.is_empty() && !processes.contains(*facts.process)) {
            return Verdict::No;
        }
        if (!parents.is_empty() && (!facts.parent || !parents.contains(*facts.parent))) {
            return Verdict::No;
        }
        return Verdict::Yes;
    }

    ProtocolSet protocols;
    RangeSet<uint16_t> ports;
    RangeSet<base::IpAddress> destinations;
    uint64_t dscp_mask = 0;
    NameSet processes;
    NameSet parents;
    NameSet users;
    std::vector<uint32_t> user_ids;
};

Ruleset::Ruleset(PolicyFile file) : file_(std::move(file)), app_names_{""} {
    CTN_ASSERT(file_.rules.size() <= kMaxRules);
    std::unordered_map<std::string_view, uint16_t> tags;
    for (uint32_t index = 0; index < file_.rules.size(); ++index) {
        const Rule& rule = file_.rules[index];
        const auto [entry, is_new] =
            tags.emplace(rule.app, static_cast<uint16_t>(app_names_.size()));
        if (is_new) {
            app_names_.push_back(rule.app);
        }
        app_tags_.push_back(entry->second);
        compiled_.emplace_back(rule.match);
        for (size_t slot = 0; slot < candidates_.size(); ++slot) {
            if (compiled_.back().may_have(slot)) {
                candidates_[slot].push_back(index);
            }
        }
    }
}

Ruleset::~Ruleset() = default;

std::span<const uint32_t> Ruleset::candidates(packet::Protocol protocol) const {
    return candidates_[slot_of(protocol)];
}

Classification Ruleset::default_of(packet::Protocol protocol) const {
    Classification result;
    result.traffic_class =
        std::array{file_.defaults.tcp, file_.defaults.udp, file_.defaults.icmp}[slot_of(protocol)];
    result.mode = file_.defaults.mode;
    return result;
}

size_t RuleMatch::routing_rules() const {
    const auto or_one = [](size_t count) { return std::max<size_t>(count, 1); };
    const size_t named = size_t{protocols.tcp} + size_t{protocols.udp} + size_t{protocols.icmp};
    // Ports without a protocol are those of TCP and UDP.
    const size_t protocols_asked = !ports.empty() && protocols.is_empty() ? 2 : or_one(named);
    return or_one(destinations.size()) * or_one(ports.size()) * protocols_asked *
           or_one(user_names.size() + user_ids.size());
}

Classification Ruleset::result_of(uint32_t rule_index, packet::Protocol protocol) const {
    const Rule& rule = file_.rules[rule_index];
    Classification result = default_of(protocol);
    result.traffic_class = rule.traffic_class.value_or(result.traffic_class);
    result.app = rule.app;
    result.app_tag = app_tags_[rule_index];
    result.rule_index = rule_index;
    result.action = rule.action;
    result.may_compress = rule.may_compress;
    result.min_bits_per_s = rule.min_bits_per_s;
    result.max_delay_ms = rule.max_delay_ms;
    result.snapts = rule.snapts;
    result.mode = rule.mode.value_or(result.mode);
    return result;
}

Classification Ruleset::classify(const FlowFacts& facts) const {
    const packet::Protocol protocol = facts.tuple.protocol;
    for (const uint32_t index : candidates(protocol)) {
        if (compiled_[index].match(facts) == Verdict::Yes) {
            return result_of(index, protocol);
        }
    }
    return default_of(protocol);
}

bool Ruleset::needs_process(const FlowFacts& facts) const {
    const packet::Protocol protocol = facts.tuple.protocol;
    const Classification now = classify(facts);
    for (const uint32_t index : candidates(protocol)) {
        if (index == now.rule_index) {
            return false;
        }
        if (compiled_[index].match(facts) == Verdict::Unknown &&
            !is_same_outcome(now, result_of(index, protocol))) {
            return true;
        }
    }
    return false;
}

std::vector<BypassStep> Ruleset::bypass_steps() const {
    std::vector<BypassStep> steps;
    size_t used = 0;
    for (uint32_t index = 0; index < file_.rules.size(); ++index) {
        const Rule& rule = file_.rules[index];
        if (!rule.match.is_known_to_routing()) {
            continue;
        }
        const bool is_bypassed = rule.action == Action::Bypass;
        steps.push_back({index, &rule.match, is_bypassed});
        used = is_bypassed ? steps.size() : used;
    }
    steps.resize(used);
    return steps;
}

std::vector<std::string> Ruleset::bypassed_cgroups() const {
    std::vector<std::string> cgroups;
    for (const Rule& rule : file_.rules) {
        cgroups.insert(cgroups.end(), rule.match.cgroups.begin(), rule.match.cgroups.end());
    }
    std::sort(cgroups.begin(), cgroups.end());
    cgroups.erase(std::unique(cgroups.begin(), cgroups.end()), cgroups.end());
    return cgroups;
}

std::shared_ptr<const Ruleset> built_in_ruleset() {
    ParsedPolicy parsed = parse_policy(built_in_policy_text(), "built-in policy");
    CTN_ASSERT(parsed.ruleset != nullptr);
    return std::move(parsed.ruleset);
}

}  // namespace continuo::classifier
