// Plans for tests: the shipped one, and one with the same price for everything.
#pragma once

#include "rating/plan.hpp"

#include <fstream>
#include <memory>
#include <sstream>
#include <string>

namespace continuo::rating::tests {

inline const std::string kShippedPlan = CONTINUO_SOURCE_DIR "/packaging/config/plan.toml.example";

inline std::string text_of_file(const std::string& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

inline std::string joined(const std::vector<config::Diagnostic>& diagnostics) {
    std::string text;
    for (const config::Diagnostic& diagnostic : diagnostics) {
        text += to_text(diagnostic) + "\n";
    }
    return text;
}

inline std::shared_ptr<const Plan> shipped_plan() {
    return parse_plan(text_of_file(kShippedPlan), "plan.toml", PlanUse::New).plan;
}

// A unit is a kbit and costs `price` denarii, whatever the throughput and the delay.
inline Plan flat_plan(double price) {
    Plan plan;
    plan.name = "flat";
    plan.p_min = price;
    plan.p_max = price;
    for (ClassTerms& terms : plan.classes) {
        terms.utility = UtilityTable({{0, 1}, {0, 1}, {0, 0, 0, 0}});
        terms.k_x = 1;
    }
    return plan;
}

}  // namespace continuo::rating::tests
