// Rules that no flow reaches, because another one takes every flow that they would match: an
// earlier one, or one that bypasses, which routing decides before processes and DSCP are known.
#pragma once

#include "classifier/rule.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace continuo::classifier {

struct Unreachable {
    size_t rule = 0;
    size_t because_of = 0;
    // Wherever the rule stood, it would be bypassed.
    bool is_bypassed_first = false;
};

// In the order of the rules. Says nothing of a rule that only several others together hide, and
// gives up after a bounded number of comparisons: it advises, no decision rests on it.
std::vector<Unreachable> unreachable_rules(std::span<const Rule> rules);

}  // namespace continuo::classifier
