// Reading of good plan files; faulty ones are in tests/vectors/bad_config/plan.txt.
#include "rating/plan.hpp"
#include "rating/rate.hpp"
#include "tests/unit/rating/plans.hpp"

#include <map>
#include <set>

#include <gtest/gtest.h>

namespace continuo::rating {
namespace {

TEST(PlanFile, ReadsTheShippedPlan) {
    const ParsedPlan parsed =
        parse_plan(tests::text_of_file(tests::kShippedPlan), "plan.toml", PlanUse::New);
    ASSERT_TRUE(parsed.plan) << tests::joined(parsed.diagnostics);
    EXPECT_TRUE(parsed.diagnostics.empty());
    const Plan& plan = *parsed.plan;
    EXPECT_EQ(plan.name, "standard");
    EXPECT_FALSE(plan.is_calibrated);
    EXPECT_EQ(plan.delay_unknown_ms, 100);
    EXPECT_EQ(plan.p_min, 0);
    EXPECT_EQ(plan.p_max, 1);
    EXPECT_EQ(plan.discount.basis, DiscountBasis::Saved);
    EXPECT_EQ(plan.discount.rho_denarii_per_mb, 0.25);
    EXPECT_EQ(plan.discount.cap, 0.5);
    EXPECT_EQ(plan.discount.sharer_share, 0);
    const ClassTerms& call = plan.classes[base::index_of(base::TrafficClass::HtLd)];
    EXPECT_EQ(call.k_x, 100);
    EXPECT_EQ(call.k_d, -10);
    EXPECT_EQ(call.utility.knots().x_kbps.size(), 15U);
    EXPECT_EQ(call.utility.knots().d_ms.size(), 16U);
    EXPECT_EQ(plan.classes[base::index_of(base::TrafficClass::LtHd)].k_x, 10);
}

TEST(PlanFile, TakesTablesOfTheLargestSize) {
    std::string knots;
    std::string row;
    std::string rows;
    for (size_t i = 0; i < kMaxKnots; ++i) {
        knots += (i == 0 ? "" : ", ") + std::to_string(i * 1000);
        row += i == 0 ? "0.123456789" : ", 0.123456789";
    }
    for (size_t i = 0; i < kMaxKnots; ++i) {
        rows += "[" + row + "],\n";
    }
    std::string text = "[plan]\nname = \"large\"\ndelay_unknown_ms = 0\np_max_denarii_per_vu = 1\n";
    for (const std::string_view token : base::kTrafficClassTokens) {
        text += "[plan.class." + std::string(token) + "]\nk_x = 1\nx_kbps = [" + knots +
                "]\nd_ms = [" + knots + "]\nu = [\n" + rows + "]\n";
    }
    const ParsedPlan parsed = parse_plan(text, "plan.toml", PlanUse::New);
    ASSERT_TRUE(parsed.plan) << tests::joined(parsed.diagnostics);
    EXPECT_EQ(parsed.plan->classes.back().utility.knots().d_ms.size(), kMaxKnots);
}

TEST(PlanFile, CutAnywhereIsNoPlanOrTheWholeOne) {
    const std::string text = tests::text_of_file(tests::kShippedPlan);
    const size_t last = text.find_last_not_of("]\n");
    for (size_t length = 0; length <= last; length += 97) {
        const ParsedPlan parsed = parse_plan(text.substr(0, length), "plan.toml", PlanUse::New);
        EXPECT_FALSE(parsed.plan) << length;
        EXPECT_TRUE(config::has_errors(parsed.diagnostics)) << length;
    }
}

using PlanKeys = std::map<std::string, std::map<std::string, std::string>>;  // by section

std::string text_of(const PlanKeys& sections) {
    std::string text;
    for (const auto& [section, keys] : sections) {
        text += section.empty() ? "" : "[" + section + "]\n";
        for (const auto& [key, value] : keys) {
            text += key + " = " + value + "\n";
        }
    }
    return text;
}

PlanKeys small_plan() {
    PlanKeys sections = {{"", {{"version", "1"}}},
                         {"plan",
                          {{"name", "\"a\""},
                           {"calibrated", "false"},
                           {"delay_unknown_ms", "100"},
                           {"p_min_denarii_per_vu", "0.001"},
                           {"p_max_denarii_per_vu", "0.5"}}},
                         {"plan.discount",
                          {{"basis", "\"saved\""},
                           {"rho_denarii_per_mb", "0.25"},
                           {"cap", "0.5"},
                           {"sharer_share", "0"}}}};
    for (const std::string_view token : base::kTrafficClassTokens) {
        sections["plan.class." + std::string(token)] = {{"k_x", "10"},
                                                        {"k_d", "-10"},
                                                        {"x_kbps", "[0, 1000, 2000]"},
                                                        {"d_ms", "[0, 200, 400]"},
                                                        {"u", "[[0, 0, 0], [5, 4, 1], [8, 6, 2]]"}};
    }
    return sections;
}

// Everything that a plan is used for: its name, whether it is calibrated, and charges: of little,
// of much, within and beyond both bounds of the price, with and without a delay.
std::string used_of(const Plan& plan) {
    std::ostringstream text;
    text << plan.name << plan.is_calibrated;
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        for (const uint64_t bytes : {uint64_t{1000}, uint64_t{150'000}, uint64_t{240'000}}) {
            for (const int64_t delay_ms : {-1, 0, 150, 350, 5000}) {
                Usage usage;
                usage.traffic_class = traffic_class;
                usage.payload_bytes = bytes;
                usage.active_us = 1'000'000;
                usage.delay_us = delay_ms < 0 ? std::nullopt : std::optional(delay_ms * 1000);
                usage.pre_bytes = 300'000;
                usage.post_bytes = 200'000;
                const Charge charge = rate(plan, usage);
                text << ' ' << charge.gross_ud << ' ' << charge.discount_ud;
            }
        }
    }
    return text.str();
}

// The keys that a section knows, by its own words.
std::set<std::string> keys_of(const std::string& section) {
    PlanKeys sections = small_plan();
    sections[section]["nothing_like_it"] = "1";
    const auto parsed = parse_plan(text_of(sections), "plan.toml", PlanUse::New);
    const std::string text = tests::joined(parsed.diagnostics);
    const std::string_view before = "expected one of ";
    std::set<std::string> keys;
    std::istringstream list(text.substr(text.find(before) + before.size()));
    for (std::string key; std::getline(list >> std::ws, key, ',');) {
        keys.insert(key.substr(0, key.find('\n')));
    }
    return keys;
}

TEST(PlanFile, EveryKeyActsOrIsRefused) {
    const PlanKeys others = {{"plan",
                              {{"name", "\"b\""},
                               {"calibrated", "true"},
                               {"delay_unknown_ms", "300"},
                               {"p_min_denarii_per_vu", "0.02"},
                               {"p_max_denarii_per_vu", "0.03"}}},
                             {"plan.discount",
                              {{"basis", "\"pre\""},
                               {"rho_denarii_per_mb", "0.01"},
                               {"cap", "0.25"},
                               {"sharer_share", "0.5"}}},
                             {"plan.class.lt-ld",
                              {{"k_x", "20"},
                               {"k_d", "-20"},
                               {"x_kbps", "[0, 1000, 2100]"},
                               {"d_ms", "[0, 200, 410]"},
                               {"u", "[[0, 0, 0], [5, 4, 1], [9, 6, 2]]"}}}};
    const auto usual = parse_plan(text_of(small_plan()), "plan.toml", PlanUse::New);
    ASSERT_TRUE(usual.plan) << tests::joined(usual.diagnostics);
    for (const auto& [section, keys] : others) {
        for (const std::string& key : keys_of(section)) {
            if (section == "plan" && (key == "discount" || key == "class")) {
                continue;  // its keys follow
            }
            ASSERT_TRUE(keys.contains(key)) << section << "." << key << " is new: does it act?";
            PlanKeys changed = small_plan();
            changed[section][key] = keys.at(key);
            const auto parsed = parse_plan(text_of(changed), "plan.toml", PlanUse::New);
            if (key == "sharer_share") {
                EXPECT_FALSE(parsed.plan) << "no record names a sharer";
                EXPECT_TRUE(parse_plan(text_of(changed), "plan.toml", PlanUse::Stored).plan)
                    << "what was added stays a plan";
                continue;
            }
            ASSERT_TRUE(parsed.plan) << key << ": " << tests::joined(parsed.diagnostics);
            EXPECT_NE(used_of(*parsed.plan), used_of(*usual.plan)) << section << "." << key;
        }
    }
}

TEST(PlanFile, NoNameOfAPlanIsANumber) {
    EXPECT_TRUE(is_plan_name("standard"));
    EXPECT_TRUE(is_plan_name("a.b-c_9"));
    for (const char* name : {"", "7", "7a", "-a", "a b", "a/b", "\xc3\xa4"}) {
        EXPECT_FALSE(is_plan_name(name)) << name;
    }
    EXPECT_FALSE(is_plan_name(std::string(65, 'a')));
}

}  // namespace
}  // namespace continuo::rating
