#include "classifier/policy_changes.hpp"

#include <algorithm>
#include <span>

namespace continuo::classifier {

namespace {

// Most rules compared one by one, which takes some milliseconds.
constexpr size_t kMaxCompared = 512;

using Rules = std::span<const Rule>;

// Names in `in` that `other` lacks, each as often as it is missing.
std::vector<std::string> missing(Rules in, Rules other) {
    std::vector<std::string> found;
    std::vector<bool> is_taken(other.size(), false);
    for (const Rule& rule : in) {
        bool is_there = false;
        for (size_t j = 0; j < other.size() && !is_there; ++j) {
            is_there = !is_taken[j] && rule == other[j];
            is_taken[j] = is_taken[j] || is_there;
        }
        if (!is_there) {
            found.push_back(rule.app);
        }
    }
    return found;
}

std::vector<std::string> rule_changes(Rules from, Rules to) {
    std::vector<std::string> removed = missing(from, to);
    std::vector<std::string> rules;
    for (const std::string& added : missing(to, from)) {
        const auto former = std::find(removed.begin(), removed.end(), added);
        rules.push_back(added + (former == removed.end() ? " (added)" : " (changed)"));
        if (former != removed.end()) {
            removed.erase(former);
        }
    }
    for (const std::string& name : removed) {
        rules.push_back(name + " (removed)");
    }
    return rules;
}

}  // namespace

std::vector<std::string> policy_changes(const Ruleset& from, const Ruleset& to) {
    std::vector<std::string> changes;
    const auto note = [&changes](std::string_view table, bool is_equal) {
        if (!is_equal) {
            changes.push_back("policy." + std::string(table));
        }
    };
    note("default", from.defaults() == to.defaults());
    note("promotion", from.promotion() == to.promotion());
    note("admission", from.admission() == to.admission());
    // Skips the rules that both policies share at the beginning and at the end.
    Rules before = from.rules();
    Rules after = to.rules();
    size_t first = 1;
    while (!before.empty() && !after.empty() && before.front() == after.front()) {
        before = before.subspan(1);
        after = after.subspan(1);
        ++first;
    }
    while (!before.empty() && !after.empty() && before.back() == after.back()) {
        before = before.first(before.size() - 1);
        after = after.first(after.size() - 1);
    }
    if (before.empty() && after.empty()) {
        return changes;
    }
    if (std::max(before.size(), after.size()) > kMaxCompared) {
        changes.push_back("policy.rule " + std::to_string(first) + " and more (changed)");
        return changes;
    }
    const std::vector<std::string> rules = rule_changes(before, after);
    note("rule order", !rules.empty());
    for (size_t i = 0; i < std::min(rules.size(), kMaxNamedRules); ++i) {
        changes.push_back("policy.rule " + rules[i]);
    }
    if (rules.size() > kMaxNamedRules) {
        changes.push_back("policy: " + std::to_string(rules.size() - kMaxNamedRules) +
                          " more rules");
    }
    return changes;
}

}  // namespace continuo::classifier
