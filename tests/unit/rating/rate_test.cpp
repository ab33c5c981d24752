#include "rating/rate.hpp"
#include "tests/unit/rating/plans.hpp"

#include <cmath>

#include <gtest/gtest.h>

namespace continuo::rating {
namespace {

using base::TrafficClass;

Usage usage_of(TrafficClass traffic_class, uint64_t payload_bytes, int64_t delay_ms) {
    Usage usage;
    usage.traffic_class = traffic_class;
    usage.payload_bytes = payload_bytes;
    usage.active_us = 10'000'000;
    usage.delay_us = delay_ms * 1000;
    return usage;
}

// Results of tests/support/price_oracle.py for the shipped plan; the first also by hand.
struct Worked {
    const char* name;
    TrafficClass traffic_class;
    uint64_t payload_bytes;
    int64_t delay_ms;
    int64_t pre_bytes;
    int64_t post_bytes;
    double price;
    double vu;
    int64_t gross_ud;
    int64_t discount_ud;
    int64_t net_ud;
};
constexpr std::array<Worked, 5> kWorked = {{
    {"download", TrafficClass::HtHd, 2'500'000, 60, 2'580'000, 1'420'000, 9.074385e-5, 200, 18'149,
     9'074, 9'075},
    {"call", TrafficClass::HtLd, 160'000, 120, 168'000, 131'000, 6.919293e-3, 12.8, 88'567, 9'250,
     79'317},
    {"late call", TrafficClass::HtLd, 160'000, 320, 168'000, 131'000, 5.455480e-3, 12.8, 69'830,
     9'250, 60'580},
    {"shell", TrafficClass::LtLd, 6'000, 45, 9'000, 9'800, 2.189528e-3, 4.8, 10'510, 0, 10'510},
    {"widget", TrafficClass::LtHd, 20'000, 900, 22'000, 9'000, 7.795313e-5, 16, 1'247, 623, 624},
}};

Usage usage_of(const Worked& worked) {
    Usage usage = usage_of(worked.traffic_class, worked.payload_bytes, worked.delay_ms);
    usage.pre_bytes = worked.pre_bytes;
    usage.post_bytes = worked.post_bytes;
    return usage;
}

TEST(Rate, ChargesTheWorkedExamples) {
    const auto plan = tests::shipped_plan();
    ASSERT_TRUE(plan);
    for (const Worked& worked : kWorked) {
        const Charge charge = rate(*plan, usage_of(worked));
        EXPECT_NEAR(charge.price / worked.price, 1, 1e-6) << worked.name;
        EXPECT_DOUBLE_EQ(charge.vu, worked.vu) << worked.name;
        EXPECT_EQ(charge.gross_ud, worked.gross_ud) << worked.name;
        EXPECT_EQ(charge.discount_ud, worked.discount_ud) << worked.name;
        EXPECT_EQ(charge.net_ud, worked.net_ud) << worked.name;
        EXPECT_FALSE(charge.is_delay_assumed || charge.is_limited) << worked.name;
    }
}

// Packets of 28 bytes that carry nothing, one for each of which a byte or so crosses the link.
TEST(Rate, HeadersAloneCostAndEarnNothing) {
    const auto shipped = tests::shipped_plan();
    ASSERT_TRUE(shipped);
    Plan plan = *shipped;
    plan.discount.cap = 1;
    plan.discount.sharer_share = 1;
    for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
        Usage flood = usage_of(traffic_class, 0, 60);
        flood.pre_bytes = 28'000'000;
        flood.post_bytes = 1'000'000;
        flood.has_sharer = true;
        const Charge charge = rate(plan, flood);
        EXPECT_EQ(charge.gross_ud, 0);
        EXPECT_EQ(charge.discount_ud, 0);
        EXPECT_EQ(charge.net_ud, 0);
        EXPECT_EQ(charge.reward_ud, 0);
    }
}

// Savings can be made: by text that is one byte again and again, or by empty packets beside
// the data. Whatever it is, the payload costs no less than its price without the cap's share.
TEST(Rate, SavingsThatAreMadeEarnTheCapsShareAtMost) {
    const auto shipped = tests::shipped_plan();
    ASSERT_TRUE(shipped);
    Plan plan = *shipped;
    for (const double cap : {0.0, 0.5, 1.0}) {
        plan.discount.cap = cap;
        for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
            Usage honest = usage_of(traffic_class, 193'200, 60);
            honest.pre_bytes = 197'064;
            honest.post_bytes = 199'000;  // nothing to compress
            const Charge plain = rate(plan, honest);
            EXPECT_EQ(plain.discount_ud, 0);
            Usage expansion = honest;
            expansion.post_bytes = 119;
            Usage padded = honest;
            padded.pre_bytes += int64_t{28} * 10'000'000;
            padded.post_bytes += 10'000'000;
            for (const Usage& made : {expansion, padded}) {
                const Charge charge = rate(plan, made);
                EXPECT_EQ(charge.gross_ud, plain.gross_ud) << "payload is the measure";
                EXPECT_LE(static_cast<double>(charge.discount_ud),
                          cap * static_cast<double>(plain.gross_ud));
                EXPECT_GE(charge.net_ud, 0);
            }
        }
    }
}

// 12 downloads, 60 calls, 6 late ones and 60 records of a shell.
TEST(Rate, AddsUpToTheWorkedStatement) {
    const auto plan = tests::shipped_plan();
    ASSERT_TRUE(plan);
    constexpr std::array<int64_t, 4> kTimes = {12, 60, 6, 60};
    int64_t gross_ud = 0;
    int64_t discount_ud = 0;
    int64_t net_ud = 0;
    for (size_t i = 0; i < kTimes.size(); ++i) {
        const Charge charge = rate(*plan, usage_of(kWorked[i]));
        gross_ud += kTimes[i] * charge.gross_ud;
        discount_ud += kTimes[i] * charge.discount_ud;
        net_ud += kTimes[i] * charge.net_ud;
    }
    EXPECT_EQ(gross_ud, 6'581'388);
    EXPECT_EQ(discount_ud, 719'388);
    EXPECT_EQ(net_ud, 5'862'000);
}

TEST(Rate, RoundsAHalfToTheEvenMicroDenarius) {
    const Plan plan = tests::flat_plan(1.0 / 128);  // 7812.5 ud for a kbit
    EXPECT_EQ(rate(plan, usage_of(TrafficClass::LtLd, 125, 0)).gross_ud, 7812);
    EXPECT_EQ(rate(plan, usage_of(TrafficClass::LtLd, 375, 0)).gross_ud, 23438);
}

TEST(Rate, KeepsThePriceWithinThePlansBounds) {
    auto plan = *tests::shipped_plan();
    const Usage call = usage_of(kWorked[1]);
    plan.p_max = 0.001;
    EXPECT_EQ(rate(plan, call).price, 0.001);
    plan.p_max = 1;
    plan.p_min = 0.5;
    EXPECT_EQ(rate(plan, call).price, 0.5);
}

TEST(Rate, OfWhatWasNotMeasuredTakesThePlansDelay) {
    auto plan = *tests::shipped_plan();
    plan.delay_unknown_ms = 320;
    Usage call = usage_of(kWorked[1]);
    call.delay_us.reset();
    const Charge charge = rate(plan, call);
    EXPECT_TRUE(charge.is_delay_assumed);
    EXPECT_EQ(charge.gross_ud, kWorked[2].gross_ud);
}

TEST(Rate, OfNoTimeIsThatOfAMillisecond) {
    const auto plan = tests::shipped_plan();
    Usage usage = usage_of(TrafficClass::HtHd, 1000, 50);
    usage.active_us = 1000;
    const Charge charge = rate(*plan, usage);
    EXPECT_DOUBLE_EQ(charge.x_kbps, 8000);
    for (const int64_t active_us : {int64_t{999}, int64_t{0}, int64_t{-5}}) {
        usage.active_us = active_us;
        EXPECT_EQ(rate(*plan, usage).x_kbps, charge.x_kbps);
        EXPECT_EQ(rate(*plan, usage).gross_ud, charge.gross_ud);
    }
}

// Where the delay costs nothing a unit is only a unit: more of them at a lower price.
TEST(Rate, DoesNotDependOnTheSizeOfAUnitWhereTheDelayIsFree) {
    auto plan = *tests::shipped_plan();
    const int64_t gross_ud = rate(plan, usage_of(kWorked[0])).gross_ud;
    plan.classes[base::index_of(TrafficClass::HtHd)].k_x = 7;
    EXPECT_NEAR(static_cast<double>(rate(plan, usage_of(kWorked[0])).gross_ud),
                static_cast<double>(gross_ud), 1);
}

TEST(Rate, GivesNoDiscountForBytesThatWereNotSaved) {
    Plan plan = tests::flat_plan(1);
    plan.discount = {DiscountBasis::Saved, 0.25, 1, 0};
    Usage usage = usage_of(TrafficClass::HtLd, 1'000'000, 0);
    usage.pre_bytes = 1000;
    usage.post_bytes = 1400;
    EXPECT_EQ(rate(plan, usage).discount_ud, 0);
    usage.post_bytes = 400;
    EXPECT_EQ(rate(plan, usage).discount_ud, 150);
    plan.discount.basis = DiscountBasis::Pre;
    EXPECT_EQ(rate(plan, usage).discount_ud, 250);
}

TEST(Rate, RewardsASharerOutOfWhatIsLeftOfTheCharge) {
    Plan plan = tests::flat_plan(1.0 / 125);  // 8000 ud for a kbit, a MB for 64 denarii
    plan.discount = {DiscountBasis::Saved, 10, 0.5, 0.5};
    Usage usage = usage_of(TrafficClass::HtLd, 125, 0);
    usage.pre_bytes = 100;
    EXPECT_EQ(rate(plan, usage).reward_ud, 0) << "nobody shared";
    usage.has_sharer = true;
    EXPECT_EQ(rate(plan, usage).discount_ud, 1000);
    EXPECT_EQ(rate(plan, usage).reward_ud, 500);
    usage.pre_bytes = 1'000'000'000;
    const Charge charge = rate(plan, usage);
    EXPECT_EQ(charge.discount_ud, 4000);
    EXPECT_EQ(charge.reward_ud, charge.net_ud);
}

TEST(Rate, CountsBytesBeyond32Bits) {
    const Plan plan = tests::flat_plan(1e-6);  // 1 ud for a kbit
    EXPECT_EQ(rate(plan, usage_of(TrafficClass::LtLd, 125 * 40'000'000ULL, 0)).gross_ud,
              40'000'000);
    EXPECT_EQ(rate(plan, usage_of(TrafficClass::LtLd, 125ULL << 40U, 0)).gross_ud, 1LL << 40U);
}

TEST(Rate, ChargesNoMoreThanCanBeCounted) {
    Plan plan = tests::flat_plan(kMaxPrice);
    plan.discount = {DiscountBasis::Saved, kMaxPrice, 1, 1};
    Usage usage = usage_of(TrafficClass::LtLd, UINT64_MAX, 0);
    usage.pre_bytes = INT64_MAX;
    usage.has_sharer = true;
    const Charge charge = rate(plan, usage, 1000);
    EXPECT_TRUE(charge.is_limited);
    EXPECT_EQ(charge.gross_ud, kMaxChargeUd);
    EXPECT_EQ(charge.discount_ud, kMaxChargeUd);
    EXPECT_EQ(charge.reward_ud, 0);
    usage.post_bytes = INT64_MAX;
    usage.pre_bytes = 0;
    EXPECT_EQ(rate(plan, usage, 1000).net_ud, kMaxChargeUd);
}

TEST(Rate, IsTimesTheMultiplierOfTheSnapt) {
    const Plan plan = tests::flat_plan(0.001);
    const Usage usage = usage_of(TrafficClass::LtLd, 125'000, 0);
    EXPECT_EQ(rate(plan, usage).gross_ud, 1'000'000);
    EXPECT_EQ(rate(plan, usage, 1.5).gross_ud, 1'500'000);
    EXPECT_EQ(rate(plan, usage, 0).gross_ud, 0);
}

}  // namespace
}  // namespace continuo::rating
