#include "rating/utility_table.hpp"
#include "tests/unit/rating/plans.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace continuo::rating {
namespace {

// u = x * (10 - d), of which both derivatives are known, on uneven knots.
UtilityTable bilinear_table() {
    UtilityKnots knots{{0, 1, 3, 10}, {0, 2, 5}, {}};
    for (const double x : knots.x_kbps) {
        for (const double d : knots.d_ms) {
            knots.u_denarii_per_s.push_back(x * (10 - d));
        }
    }
    return UtilityTable(std::move(knots));
}

TEST(UtilityTable, IsExactWhereTheUtilityIsBilinear) {
    const UtilityTable table = bilinear_table();
    for (const double x : {0.0, 0.5, 1.0, 2.9, 7.0, 10.0}) {
        for (const double d : {0.0, 1.0, 2.0, 4.5, 5.0}) {
            EXPECT_NEAR(table.utility_at(x, d), x * (10 - d), 1e-12);
            EXPECT_NEAR(table.slopes_at(x, d).du_dx, 10 - d, 1e-12) << x << " " << d;
            EXPECT_NEAR(table.slopes_at(x, d).du_dd, -x, 1e-12) << x << " " << d;
        }
    }
}

TEST(UtilityTable, BeyondTheKnotsIsAsAtTheNearest) {
    const UtilityTable table = bilinear_table();
    EXPECT_EQ(table.utility_at(1e12, 9), table.utility_at(10, 5));
    EXPECT_EQ(table.slopes_at(1e12, -3).du_dx, table.slopes_at(10, 0).du_dx);
    EXPECT_EQ(table.slopes_at(-1, 1e12).du_dd, table.slopes_at(0, 5).du_dd);
}

// Computed by hand: slopes 1 over a width of 2 and 4 over a width of 1 give (2 * 4 + 1 * 1) / 3
// between.
TEST(UtilityTable, WeighsTheSlopesAtAKnotByTheWidthOfTheOther) {
    const UtilityTable table({{0, 2, 3}, {0, 1}, {0, 0, 2, 2, 6, 6}});
    EXPECT_EQ(table.slopes_at(0, 0).du_dx, 1.0);
    EXPECT_EQ(table.slopes_at(2, 0).du_dx, 3.0);
    EXPECT_EQ(table.slopes_at(3, 0).du_dx, 4.0);
    EXPECT_EQ(table.slopes_at(1, 0).du_dx, 2.0);
}

TEST(UtilityTable, OfTwoKnotsHasOneSlope) {
    const UtilityTable table({{0, 4}, {0, 8}, {0, 0, 2, 1}});
    EXPECT_EQ(table.slopes_at(3, 0).du_dx, 0.5);
    EXPECT_EQ(table.slopes_at(4, 6).du_dd, -0.125);
}

TEST(ShippedPlan, PricesNeitherThroughputNorDelayTheWrongWay) {
    const auto plan = tests::shipped_plan();
    ASSERT_TRUE(plan);
    for (const ClassTerms& terms : plan->classes) {
        for (const double x : terms.utility.knots().x_kbps) {
            for (const double d : terms.utility.knots().d_ms) {
                EXPECT_GE(terms.utility.slopes_at(x, d).du_dx, 0);
                EXPECT_LE(terms.utility.slopes_at(x, d).du_dd, 0);
            }
        }
    }
}

// Traffic that may wait is worth less for each further kbit/s. A table is near the curve that it
// samples, and nothing more: between 1024 and 2048 kbit/s it is 13.6 % above.
TEST(ShippedPlan, FollowsTheLogarithmWhereDelayMatters) {
    const auto plan = tests::shipped_plan();
    ASSERT_TRUE(plan);
    for (const auto traffic_class : {base::TrafficClass::LtHd, base::TrafficClass::HtHd}) {
        const UtilityTable& table = plan->classes[base::index_of(traffic_class)].utility;
        const std::vector<double>& x = table.knots().x_kbps;
        for (size_t i = 0; i + 1 < x.size(); ++i) {
            EXPECT_GE(table.slopes_at(x[i], 60).du_dx, table.slopes_at(x[i + 1], 60).du_dx - 1e-12);
        }
    }
    const UtilityTable& table = plan->classes[base::index_of(base::TrafficClass::HtHd)].utility;
    const double curve = 0.010 / std::log(1 + 65536.0 / 256) / (256 + 2000.0);
    EXPECT_NEAR(table.slopes_at(2000, 60).du_dx / curve, 1.136, 0.001);
}

}  // namespace
}  // namespace continuo::rating
