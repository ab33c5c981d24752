#include "classifier/ruleset.hpp"
#include "classifier/unreachable.hpp"
#include "common/config/prefixes.hpp"
#include "common/config/section.hpp"
#include "common/config/units.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace continuo::classifier {
namespace {

using base::TrafficClass;
using config::Choice;
using config::Node;
using config::NodeKind;
using config::Section;

constexpr uint64_t kMaxBitsPerS = 1'000'000'000'000;
constexpr uint32_t kMaxDelayMs = 3'600'000;
constexpr std::array<Choice<TrafficClass>, base::kTrafficClasses> kClasses = {
    {{"lt-ld", TrafficClass::LtLd},
     {"ht-ld", TrafficClass::HtLd},
     {"lt-hd", TrafficClass::LtHd},
     {"ht-hd", TrafficClass::HtHd}}};
constexpr std::array<Choice<Action>, 3> kActions = {
    {{"serve", Action::Serve}, {"deny", Action::Deny}, {"bypass", Action::Bypass}}};
constexpr std::array<Choice<PathMode>, 4> kModes = {{{"handover", PathMode::Handover},
                                                     {"redundant", PathMode::Redundant},
                                                     {"flow", PathMode::Flow},
                                                     {"packet", PathMode::Packet}}};
constexpr std::array<Choice<WhenUnmet>, 3> kWhenUnmet = {
    {{"serve", WhenUnmet::Serve}, {"degrade", WhenUnmet::Degrade}, {"refuse", WhenUnmet::Refuse}}};

template <typename T, size_t N>
std::optional<T>
optional_choice(Section& section, std::string_view key, const std::array<Choice<T>, N>& choices) {
    const bool is_there = section.has(key);
    const T value =
        section.choice<T>(key, choices.front().value, std::span<const Choice<T>>(choices));
    return is_there ? std::optional<T>(value) : std::nullopt;
}

std::optional<config::PortRange> port_of(const Node& node) {
    if (node.kind == NodeKind::Text) {
        return config::PortRange::parse(node.text);
    }
    if (node.kind == NodeKind::Integer && node.integer >= 1 && node.integer <= UINT16_MAX) {
        const auto port = static_cast<uint16_t>(node.integer);
        return config::PortRange{port, port};
    }
    return std::nullopt;
}

void read_protocols(Section& section, RuleMatch& match) {
    for (const Node* item : section.items("proto")) {
        if (item->text == "tcp") {
            match.protocols.tcp = true;
        } else if (item->text == "udp") {
            match.protocols.udp = true;
        } else if (item->text == "icmp") {
            match.protocols.icmp = true;
        } else {
            section.reject_item("proto", *item, R"("tcp", "udp" or "icmp")");
        }
    }
}

void read_users(Section& section, RuleMatch& match) {
    for (const Node* item : section.items("user")) {
        std::optional<uint64_t> number;
        if (item->kind == NodeKind::Integer && item->integer >= 0) {
            number = static_cast<uint64_t>(item->integer);
        } else if (item->kind == NodeKind::Text) {
            number = config::parse_unsigned(item->text, UINT32_MAX);
        }
        if (number && *number <= UINT32_MAX) {
            match.user_ids.push_back(static_cast<uint32_t>(*number));
        } else if (item->kind == NodeKind::Text && !config::check_name(item->text)) {
            match.user_names.push_back(item->text);
        } else {
            section.reject_item("user", *item, "a user name or a user id");
        }
    }
}

void read_ports(Section& section, RuleMatch& match) {
    for (const Node* item : section.items("dport")) {
        if (const auto range = port_of(*item)) {
            match.ports.push_back(*range);
        } else {
            section.reject_item("dport", *item, "a port from 1 to 65535 or a range \"A-B\"");
        }
    }
    if (match.protocols.icmp && !match.ports.empty()) {
        section.error("dport", R"("dport" with "icmp", which has no ports)",
                      R"(proto = "tcp" or "udp" with "dport")");
    }
}

void read_dscp(Section& section, RuleMatch& match) {
    for (const Node* item : section.items("dscp")) {
        std::optional<uint8_t> code_point;
        if (item->kind == NodeKind::Text) {
            code_point = config::parse_dscp(item->text);
        } else if (item->kind == NodeKind::Integer && item->integer >= 0 && item->integer <= 63) {
            code_point = static_cast<uint8_t>(item->integer);
        }
        if (code_point) {
            match.dscp.push_back(*code_point);
        } else {
            section.reject_item("dscp", *item, R"(a name such as "ef" or 0 to 63)");
        }
    }
}

std::optional<std::string_view> check_cgroup(std::string_view path) {
    const std::string inside = "/" + std::string(path) + "/";
    const bool is_path = path.find_first_not_of('/') != std::string_view::npos &&
                         inside.find("/../") == std::string::npos &&
                         path.find('\0') == std::string_view::npos;
    return is_path ? std::nullopt
                   : std::optional<std::string_view>(R"(a path such as "bypass.slice")");
}

// An empty list matches nothing to a reader but everything to the matcher: an error.
void refuse_empty_lists(Section& section) {
    for (const std::string_view key :
         {"process", "parent", "user", "proto", "dport", "dst", "dscp", "cgroup"}) {
        if (section.has(key) && section.items(key).empty()) {
            section.error(key, config::quote(key) + " is an empty list", "at least one value");
        }
    }
}

RuleMatch read_match(Section& rule) {
    RuleMatch match;
    if (!rule.has("match")) {
        (void)rule.find("match");
        rule.missing("match", "match = { process, parent, user, proto, dport, dst or dscp }");
        return match;
    }
    Section section = rule.child("match");
    match.processes = section.texts("process", config::check_not_empty);
    match.parents = section.texts("parent", config::check_not_empty);
    read_users(section, match);
    read_protocols(section, match);
    read_ports(section, match);
    match.destinations = config::read_prefixes(section, "dst");
    read_dscp(section, match);
    match.cgroups = section.texts("cgroup", check_cgroup);
    refuse_empty_lists(section);
    section.finish();
    return match;
}

void check_action(Section& section, const Rule& rule) {
    if (rule.action == Action::Serve) {
        return;
    }
    for (const std::string_view key :
         {"class", "compression", "min_bits_per_s", "max_delay_ms", "snapt", "mode"}) {
        if (section.has(key)) {
            section.error(key,
                          config::quote(key) +
                              " in a rule with action = " + config::quote(to_string(rule.action)),
                          "action = \"serve\" with it");
        }
    }
    if (rule.action == Action::Bypass) {
        Section match = section.child("match");
        for (const std::string_view key : {"process", "parent", "dscp"}) {
            if (match.has(key)) {
                match.error(key, config::quote(key) + " with action = \"bypass\"",
                            "only what routing rules can match: user, proto, dport, dst");
            }
        }
    }
}

// A socket is marked before it has a destination.
void check_cgroup_rule(Section& section, const Rule& rule) {
    if (rule.match.cgroups.empty()) {
        return;
    }
    Section match = section.child("match");
    if (rule.action != Action::Bypass) {
        match.error("cgroup", "\"cgroup\" with action = " + config::quote(to_string(rule.action)),
                    "action = \"bypass\" with it");
    }
    for (const std::string_view key : {"user", "proto", "dport", "dst"}) {
        if (match.has(key)) {
            match.error(key, config::quote(key) + " beside \"cgroup\"", "\"cgroup\" alone");
        }
    }
}

Rule read_rule(Section& section) {
    Rule rule;
    rule.app = section.required_text("app", "a name for reports", config::check_name);
    rule.match = read_match(section);
    rule.traffic_class = optional_choice(section, "class", kClasses);
    rule.action = section.choice<Action>("action", Action::Serve, kActions);
    rule.may_compress = section.boolean("compression", true);
    if (section.has("min_bits_per_s")) {
        rule.min_bits_per_s = section.rate_bits_per_s("min_bits_per_s", 0, kMaxBitsPerS);
    }
    if (section.has("max_delay_ms")) {
        rule.max_delay_ms = section.integer<uint32_t>("max_delay_ms", 1, 1, kMaxDelayMs);
    }
    // So that finish() knows them when they are absent.
    (void)section.find("min_bits_per_s");
    (void)section.find("max_delay_ms");
    rule.snapts = section.texts("snapt", config::check_name);
    rule.mode = optional_choice(section, "mode", kModes);
    check_action(section, rule);
    check_cgroup_rule(section, rule);
    section.finish();
    return rule;
}

void read_defaults(Section& root, DefaultClasses& defaults) {
    Section section = root.child("default");
    defaults.tcp = section.choice<TrafficClass>("tcp", defaults.tcp, kClasses);
    defaults.udp = section.choice<TrafficClass>("udp", defaults.udp, kClasses);
    defaults.icmp = section.choice<TrafficClass>("icmp", defaults.icmp, kClasses);
    defaults.mode = section.choice<PathMode>("mode", defaults.mode, kModes);
    section.finish();
}

void read_promotion(Section& root, Promotion& promotion) {
    Section section = root.child("promotion");
    promotion.is_enabled = section.boolean("enabled", section.is_present());
    promotion.above_bits_per_s =
        section.rate_bits_per_s("above_bits_per_s", promotion.above_bits_per_s, kMaxBitsPerS);
    promotion.sustained = section.duration("for_ms", promotion.sustained, base::milliseconds(1),
                                           base::milliseconds(100), base::milliseconds(600'000));
    section.finish();
}

PolicyFile read_policy(Section& root) {
    PolicyFile file;
    (void)root.integer<int>("version", 1, 1, 1);
    read_defaults(root, file.defaults);
    read_promotion(root, file.promotion);
    Section admission = root.child("admission");
    file.admission.when_unmet =
        admission.choice<WhenUnmet>("when_unmet", WhenUnmet::Serve, kWhenUnmet);
    admission.finish();
    std::vector<Section> rules = root.tables("rule");
    if (rules.size() > kMaxRules) {
        root.error("rule", std::to_string(rules.size()) + " rules",
                   "at most " + std::to_string(kMaxRules));
        rules.clear();
    }
    for (Section& rule : rules) {
        file.rules.push_back(read_rule(rule));
    }
    root.finish();
    return file;
}

void warn_of_unreachable(Section& root, std::span<const Rule> file_rules) {
    std::vector<Section> rules = root.tables("rule");
    for (const Unreachable& found : unreachable_rules(file_rules)) {
        const Rule& other = file_rules[found.because_of];
        const bool is_bypass = other.action == Action::Bypass;
        rules[found.rule].warning(
            "app",
            "rule " + config::quote(file_rules[found.rule].app) + " never matches: rule " +
                config::quote(other.app) + " of line " +
                std::to_string(rules[found.because_of].place().line) +
                (is_bypass ? " bypasses" : " takes") + " all that it would" +
                (found.is_bypassed_first
                     ? ", which is decided before process, parent and DSCP are known"
                     : ""),
            found.is_bypassed_first ? "a narrower rule with action = \"bypass\""
                                    : "the narrower rule first");
    }
}

// A rule that routing cannot apply must not be taken for a bypass.
void limit_bypass(Section& root, const Ruleset& ruleset) {
    size_t matches = 0;
    for (const BypassStep& step : ruleset.bypass_steps()) {
        matches += step.match->routing_rules();
        if (matches > kMaxBypassMatches) {
            root.tables("rule")[step.rule_index].error(
                "app",
                "more than " + std::to_string(kMaxBypassMatches) +
                    " combinations of user, proto, dport and dst in the rules up to the last with "
                    "action = \"bypass\"",
                "bypass rules first, with wider prefixes and port ranges");
            return;
        }
    }
}

// Their sockets have one mark, so they have one position among the rules.
void limit_cgroups(Section& root, const Ruleset& ruleset) {
    const std::vector<BypassStep> steps = ruleset.bypass_steps();
    size_t last = steps.size();
    for (size_t i = 0; i < steps.size(); ++i) {
        if (steps[i].match->cgroups.empty()) {
            continue;
        }
        if (last != steps.size() && last + 1 != i) {
            root.tables("rule")[steps[i].rule_index].error(
                "app", "a rule by cgroup, and others between it and the one before",
                "such rules one after the other");
        }
        last = i;
    }
    if (const size_t count = ruleset.bypassed_cgroups().size(); count > kMaxBypassedCgroups) {
        root.error("rule", std::to_string(count) + " cgroups",
                   "at most " + std::to_string(kMaxBypassedCgroups));
    }
}

}  // namespace

std::string_view to_string(Action action) {
    return kActions[static_cast<size_t>(action)].name;
}

ParsedPolicy parse_policy(std::string_view text, const std::string& filename) {
    ParsedPolicy parsed;
    config::DiagnosticSink sink(filename);
    if (const auto tree = config::parse_toml(text, sink)) {
        Section root(*tree, "", sink);
        PolicyFile file = read_policy(root);
        if (!sink.has_errors()) {
            warn_of_unreachable(root, file.rules);
            const auto ruleset = std::make_shared<const Ruleset>(std::move(file));
            limit_bypass(root, *ruleset);
            limit_cgroups(root, *ruleset);
            parsed.ruleset = sink.has_errors() ? nullptr : ruleset;
        }
    }
    parsed.diagnostics = sink.take();
    return parsed;
}

}  // namespace continuo::classifier
