// Rules that no flow reaches, because another rule takes every flow that would match: an earlier
// one, or a bypass rule, which routing applies before processes and DSCP are known.
#pragma once

#include "classifier/rule.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace continuo::classifier {

struct Unreachable {
    size_t rule = 0;
    size_t because_of = 0;
    // The rule would be bypassed wherever it stood.
    bool is_bypassed_first = false;
};

// In the order of the rules. Does not find rules hidden only by several others together, and stops
// after a bounded number of comparisons: the result is advice, no decision rests on it.
std::vector<Unreachable> unreachable_rules(std::span<const Rule> rules);

}  // namespace continuo::classifier
