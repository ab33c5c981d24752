#include "common/daemon/forward_rules.hpp"

#include "common/base/log.hpp"
#include "common/daemon/startup.hpp"
#include "common/host/preflight.hpp"
#include "common/io/file.hpp"
#include "common/netfilter/nft.hpp"

#include <algorithm>
#include <optional>

namespace continuo::daemon {
namespace {

using report::JsonValue;

constexpr size_t kMaxDepth = 16;  // the kernel's own limit of jumps
// Most rules that are followed. Rules of a chain that is reached in several ways count each time. A
// choice, not measured.
constexpr size_t kMaxSteps = 1'000'000;
constexpr std::string_view kOwnTables = "continuo_";
constexpr const char* kLegacyTables = "/proc/net/ip_tables_names";
// Longest list of iptables-legacy tables that is read. A choice, not measured.
constexpr size_t kMaxLegacyBytes = 4096;

// How much of the traffic in question a rule applies to.
enum class Reach : uint8_t {
    None,
    Some,  // its conditions are not evaluated
    All,
};

bool is_named(std::string_view name, std::string_view interface) {
    return name == interface ||
           (name.ends_with('*') && interface.starts_with(name.substr(0, name.size() - 1)));
}

// The names on the right side of a match; nothing: a named set or a map.
std::optional<std::vector<std::string>> names_of(const JsonValue& right) {
    std::vector<std::string> names;
    const auto take = [&](const JsonValue& one) {
        const auto text = one.string();
        if (text && !text->starts_with('@')) {
            names.emplace_back(*text);
        }
        return text && !text->starts_with('@');
    };
    const JsonValue& list = right.has("set") ? right["set"] : right;
    if (!list.is_array()) {
        return take(list) ? std::optional(names) : std::nullopt;
    }
    for (const JsonValue& one : list.items()) {
        if (!take(one)) {
            return std::nullopt;
        }
    }
    return names;
}

Reach reach_of_interface(const JsonValue& match, std::string_view interface) {
    const auto names = names_of(match["right"]);
    if (!names || interface.empty()) {
        return Reach::Some;
    }
    const bool has_it = std::any_of(names->begin(), names->end(), [&](const std::string& name) {
        return is_named(name, interface);
    });
    return has_it == (match.text("op") != "!=") ? Reach::All : Reach::None;
}

// For new connections: a rule for established ones does not help them.
Reach reach_of_state(const JsonValue& match) {
    const auto states = names_of(match["right"]);
    if (!states) {
        return Reach::Some;
    }
    const bool has_new = std::find(states->begin(), states->end(), "new") != states->end();
    return has_new == (match.text("op") != "!=") ? Reach::All : Reach::None;
}

Reach reach_of_match(const JsonValue& match, const ForwardWay& way) {
    const JsonValue& left = match["left"];
    const std::string key = left["meta"].text("key");
    if (key == "iifname" || key == "iif") {
        return reach_of_interface(match, way.in);
    }
    if (key == "oifname" || key == "oif") {
        return reach_of_interface(match, way.out);
    }
    return left["ct"].text("key") == "state" ? reach_of_state(match) : Reach::Some;
}

// Statements after which evaluation continues. Others are unknown: they may accept.
bool goes_on(std::string_view statement) {
    static constexpr std::string_view kNames[] = {"counter", "log", "comment", "mangle"};
    return std::find(std::begin(kNames), std::end(kNames), statement) != std::end(kNames);
}

// Extensions that iptables-nft adds to a rule; only their names are visible.
bool is_comment(const JsonValue& extension) {
    return extension.text("name") == "comment";
}

struct RuleParts {
    Reach reach = Reach::All;
    std::string verdict;  // "accept", "drop", "reject", "jump", "goto", "return"; empty: none
    std::string target;
    bool may_accept = false;  // by an unknown statement
};

RuleParts parts_of(const JsonValue& rule, const ForwardWay& way) {
    RuleParts parts;
    const auto narrow = [&](Reach reach) { parts.reach = std::min(parts.reach, reach); };
    for (const JsonValue& expression : rule["expr"].items()) {
        for (const auto& [key, value] : expression.members()) {
            if (key == "match") {
                narrow(reach_of_match(value, way));
            } else if (key == "xt") {
                narrow(is_comment(value) ? Reach::All : Reach::Some);
                parts.may_accept = parts.may_accept || value.text("type") != "match";
            } else if (key == "accept" || key == "drop" || key == "reject" || key == "return") {
                parts.verdict = key;
            } else if (key == "jump" || key == "goto") {
                parts.verdict = key;
                parts.target = value.text("target");
            } else if (key == "limit" || key == "quota") {
                narrow(Reach::Some);
            } else if (!goes_on(key)) {
                narrow(Reach::Some);
                parts.may_accept = true;  // a map of verdicts, a queue
            }
        }
    }
    return parts;
}

// Follows the rules of one table in their order.
class Walk {
  public:
    Walk(const JsonValue& table, const ForwardWay& way) : table_(table), way_(way) {}

    // True when the chain accepts the packets, false when it drops them, nothing when they reach
    // its end.
    std::optional<bool> follow(const std::string& chain, size_t depth) {
        for (const JsonValue& item : table_["nftables"].items()) {
            if (++steps_ > kMaxSteps) {
                may_pass_ = true;
                return std::nullopt;
            }
            const JsonValue& rule = item["rule"];
            if (!rule.is_object() || rule.text("chain") != chain) {
                continue;
            }
            const RuleParts parts = parts_of(rule, way_);
            if (parts.reach == Reach::None) {
                continue;
            }
            const bool is_sure = parts.reach == Reach::All;
            std::optional<bool> end;
            if (parts.verdict == "accept") {
                end = true;
            } else if (parts.verdict == "drop" || parts.verdict == "reject") {
                end = false;
            } else if (!parts.target.empty() && depth < kMaxDepth) {
                end = follow(parts.target, depth + 1);
            } else if (!parts.target.empty()) {
                may_pass_ = true;
            }
            may_pass_ = may_pass_ || parts.may_accept || (end && *end);
            const bool leaves = parts.verdict == "return" || parts.verdict == "goto";
            if (is_sure && (end || leaves)) {
                return end;
            }
        }
        return std::nullopt;
    }
    // A rule on the way might have accepted.
    bool may_pass() const { return may_pass_; }

  private:
    const JsonValue& table_;
    const ForwardWay& way_;
    bool may_pass_ = false;
    size_t steps_ = 0;
};

base::Result<JsonValue> parsed(base::Result<std::string> text) {
    return text ? JsonValue::parse(*text) : base::Result<JsonValue>(text.error());
}

}  // namespace

std::vector<ForwardChain> forward_chains(const JsonValue& chains) {
    std::vector<ForwardChain> found;
    for (const JsonValue& item : chains["nftables"].items()) {
        const JsonValue& chain = item["chain"];
        const std::string family = chain.text("family");
        const bool is_ip = family == "ip" || family == "ip6" || family == "inet";
        if (is_ip && chain.text("hook") == "forward" && chain.text("type") == "filter" &&
            !chain.text("table").starts_with(kOwnTables)) {
            found.push_back(
                {family, chain.text("table"), chain.text("name"), chain.text("policy") == "drop"});
        }
    }
    return found;
}

Passage passage(const JsonValue& table, const ForwardChain& chain, const ForwardWay& way) {
    Walk walk(table, way);
    if (walk.follow(chain.name, 0).value_or(!chain.drops)) {
        return Passage::Yes;
    }
    return walk.may_pass() ? Passage::Perhaps : Passage::No;
}

Passage
passage(const JsonValue& table, const ForwardChain& chain, std::span<const ForwardWay> ways) {
    std::optional<Passage> together;
    for (const ForwardWay& way : ways) {
        const Passage one = passage(table, chain, way);
        together = together.value_or(one) == one ? one : Passage::Perhaps;
    }
    return together.value_or(Passage::Yes);
}

base::Result<BlockingChains> blocking_chains(std::span<const ForwardWay> ways) {
    netfilter::Nft nft;
    const JsonValue listed = CTN_TRY(parsed(nft.list_chains_json()));
    BlockingChains blocking;
    const std::vector<ForwardChain> chains = forward_chains(listed);
    for (size_t i = 0; i < std::min(chains.size(), kMaxForwardChains); ++i) {
        const ForwardChain& chain = chains[i];
        const auto table = parsed(nft.list_table_json(chain.family + " " + chain.table));
        if (!table) {
            ++blocking.not_looked_at;
            continue;
        }
        const Passage result = passage(*table, chain, ways);
        if (result != Passage::Yes) {
            blocking.found.push_back({chain, result});
        }
    }
    blocking.not_looked_at += chains.size() - std::min(chains.size(), kMaxForwardChains);
    return blocking;
}

void check_forward_rules(std::span<const ForwardWay> ways,
                         const std::string& names,
                         report::Findings& findings) {
    const std::string check = "forward policy";
    if (!host::missing_right().empty()) {
        findings.skip(check, "only root may list rules", "run it as root");
        return;
    }
    const auto blocking = blocking_chains(ways);
    if (!blocking) {
        findings.skip(check, "cannot list nftables rules (" + describe(blocking.error()) + ")",
                      "run it as root");
        return;
    }
    for (const BlockingChain& found : blocking->found) {
        const std::string chain = "chain " + found.chain.to_string();
        if (found.passage == Passage::No) {
            findings.fail(check, chain + " drops what is forwarded by " + names,
                          "accept it there, both ways");
        } else {
            findings.warn(check, chain + " drops what its rules do not accept",
                          "see that they accept " + names + ", both ways");
        }
    }
    if (blocking->not_looked_at != 0) {
        findings.warn(check,
                      std::to_string(blocking->not_looked_at) + " forward chains are not looked at",
                      "see that `nft list ruleset` lets " + names + " pass");
    }
    const auto legacy = io::read_file(kLegacyTables, kMaxLegacyBytes);
    const bool has_legacy = legacy && legacy->find("filter") != std::string::npos;
    if (has_legacy) {
        findings.warn(check, "rules of iptables-legacy are not looked at",
                      "see that `iptables-legacy -S FORWARD` lets " + names + " pass");
    } else if (blocking->found.empty() && blocking->not_looked_at == 0) {
        findings.ok(check, "no chain drops what is forwarded by " + names);
    }
}

void log_failures(const report::Findings& findings) {
    for (const report::Finding& finding : findings.all()) {
        if (finding.verdict == report::Verdict::Fail) {
            base::log(base::LogLevel::Warning, "%s", report::to_text(finding).c_str());
        }
    }
}

}  // namespace continuo::daemon
