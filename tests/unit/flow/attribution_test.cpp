#include "common/base/random.hpp"
#include "common/flow/attribution.hpp"
#include "common/flow/counter_values.hpp"

#include <cmath>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

std::vector<uint32_t> divide(uint32_t total, const std::vector<uint32_t>& weights) {
    std::vector<uint32_t> shares(weights.size(), 0xDEADU);
    divide_in_proportion(total, weights, shares);
    return shares;
}

TEST(Attribution, LargestRemainderGetsTheByteLeft) {
    EXPECT_EQ(divide(10, {1, 1, 1}), (std::vector<uint32_t>{4, 3, 3}));
    EXPECT_EQ(divide(100, {50, 30, 20}), (std::vector<uint32_t>{50, 30, 20}));
    // Exact parts 3.33, 1.67, 5.00: the second has the largest remainder.
    EXPECT_EQ(divide(10, {200, 100, 300}), (std::vector<uint32_t>{3, 2, 5}));
    // Two bytes left; remainders .75 .75 .5: the first two.
    EXPECT_EQ(divide(7, {1, 1, 2}), (std::vector<uint32_t>{2, 2, 3}));
}

TEST(Attribution, WeightsAllZeroGiveEverythingToTheFirst) {
    EXPECT_EQ(divide(77, {0, 0, 0}), (std::vector<uint32_t>{77, 0, 0}));
    EXPECT_TRUE(divide(77, {}).empty());
}

TEST(Attribution, SharesAddUpExactlyAndAreWithinOneByteOfProportion) {
    base::SeededRandom random(7);
    for (int round = 0; round < 3000; ++round) {
        // Some rounds exceed the limit of the exact method on purpose.
        const size_t count = round % 100 == 0 ? 1025 + random.below(500) : 1 + random.below(80);
        std::vector<uint32_t> weights(count);
        for (auto& weight : weights) {
            weight = static_cast<uint32_t>(random.below(round % 3 == 0 ? 4 : 65536));
        }
        const auto total =
            static_cast<uint32_t>(random.below(round % 5 == 0 ? ~uint32_t{0} : 1501));
        const auto shares = divide(total, weights);
        ASSERT_EQ(std::accumulate(shares.begin(), shares.end(), uint64_t{0}), total);
        const auto sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
        if (sum == 0) {
            continue;
        }
        for (size_t i = 0; i < count; ++i) {
            const uint64_t part = uint64_t{total} * weights[i];
            ASSERT_GE(shares[i], part / sum);
            ASSERT_LE(shares[i], part / sum + (part % sum == 0 && count <= 1024 ? 0 : 1));
        }
    }
}

TEST(Attribution, NoMemberWithASmallerRemainderIsPreferred) {
    base::SeededRandom random(11);
    for (int round = 0; round < 500; ++round) {
        std::vector<uint32_t> weights(2 + random.below(40));
        for (auto& weight : weights) {
            weight = static_cast<uint32_t>(1 + random.below(1500));
        }
        const auto total = static_cast<uint32_t>(random.below(1500));
        const auto shares = divide(total, weights);
        const auto sum = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
        uint64_t smallest_raised = sum;
        uint64_t largest_left = 0;
        for (size_t i = 0; i < weights.size(); ++i) {
            const uint64_t part = uint64_t{total} * weights[i];
            if (shares[i] > part / sum) {
                smallest_raised = std::min(smallest_raised, part % sum);
            } else {
                largest_left = std::max(largest_left, part % sum);
            }
        }
        ASSERT_TRUE(smallest_raised == sum || smallest_raised >= largest_left);
    }
}

TEST(Attribution, CountsPreAndPostInTheDirectionAsked) {
    LiveCounters first;
    LiveCounters second;
    const std::array members = {AttributionMember{&first, 1000}, AttributionMember{&second, 500}};
    attribute(members, 601, Direction::Up);
    attribute(std::span(members).first(1), 80, Direction::Down);
    EXPECT_EQ(value(first.pre_up), 1000U);
    EXPECT_EQ(value(second.pre_up), 500U);
    EXPECT_EQ(value(first.post_up), 401U);
    EXPECT_EQ(value(second.post_up), 200U);
    EXPECT_EQ(value(first.pre_down), 1000U);
    EXPECT_EQ(value(first.post_down), 80U);
    EXPECT_EQ(value(second.post_down), 0U);
}

TEST(CounterValues, DifferenceIsFieldByFieldButTheMaximumStays) {
    LiveCounters counters;
    count_packets(counters, Direction::Down, 3, 4500, 4380);
    count_delay(counters, 900, 50, 2);
    const CounterValues earlier = read_counters(counters);
    count_packets(counters, Direction::Up, 1, 52, 0);
    count_delay(counters, 100, 20, 1);
    const CounterValues delta = difference(read_counters(counters), earlier);
    EXPECT_EQ(delta.packets_up, 1U);
    EXPECT_EQ(delta.inner_up, 52U);
    EXPECT_EQ(delta.inner_down, 0U);
    EXPECT_EQ(delta.delay_us_sum, 100U);
    EXPECT_EQ(delta.jitter_us_sum, 20U);
    EXPECT_EQ(delta.delay_us_max, 900U);
}

}  // namespace
}  // namespace continuo::flow
