// Differences between two policies, as text for people: the effect of a reload.
#pragma once

#include "classifier/ruleset.hpp"

#include <string>
#include <vector>

namespace continuo::classifier {

// Rules that one report names, so that it stays short. A choice, not measured.
inline constexpr size_t kMaxNamedRules = 16;

// "policy.default", "policy.rule chat (changed)", "policy.rule order"; rules by their `app`. At
// most kMaxNamedRules rules, and then how many more. Empty: the same policy.
std::vector<std::string> policy_changes(const Ruleset& from, const Ruleset& to);

}  // namespace continuo::classifier
