// Reading of good plan files; faulty ones are in tests/vectors/bad_config/plan.txt.
#include "rating/plan.hpp"
#include "tests/unit/rating/plans.hpp"

#include <gtest/gtest.h>

namespace continuo::rating {
namespace {

TEST(PlanFile, ReadsTheShippedPlan) {
    const ParsedPlan parsed = parse_plan(tests::text_of_file(tests::kShippedPlan), "plan.toml");
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
    const ParsedPlan parsed = parse_plan(text, "plan.toml");
    ASSERT_TRUE(parsed.plan) << tests::joined(parsed.diagnostics);
    EXPECT_EQ(parsed.plan->classes.back().utility.knots().d_ms.size(), kMaxKnots);
}

TEST(PlanFile, CutAnywhereIsNoPlanOrTheWholeOne) {
    const std::string text = tests::text_of_file(tests::kShippedPlan);
    const size_t last = text.find_last_not_of("]\n");
    for (size_t length = 0; length <= last; length += 97) {
        const ParsedPlan parsed = parse_plan(text.substr(0, length), "plan.toml");
        EXPECT_FALSE(parsed.plan) << length;
        EXPECT_TRUE(config::has_errors(parsed.diagnostics)) << length;
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
