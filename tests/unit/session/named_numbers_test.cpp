#include "common/base/random.hpp"
#include "common/session/named_numbers.hpp"

#include <set>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using Ranges = std::vector<std::pair<uint32_t, uint32_t>>;

Ranges take(NamedNumbers& named, uint32_t first, uint32_t last) {
    Ranges ranges;
    named.take_new(first, last, [&](uint32_t from, uint32_t to) { ranges.emplace_back(from, to); });
    return ranges;
}

TEST(NamedNumbers, GivesWhatIsNewNewestFirst) {
    NamedNumbers named;
    EXPECT_EQ(take(named, 10, 19), (Ranges{{10, 19}}));
    EXPECT_EQ(take(named, 10, 19), Ranges{});
    EXPECT_EQ(take(named, 30, 39), (Ranges{{30, 39}}));
    EXPECT_EQ(take(named, 5, 45), (Ranges{{40, 45}, {20, 29}, {5, 9}}));
    EXPECT_EQ(take(named, 0, 45), (Ranges{{0, 4}}));
    EXPECT_EQ(take(named, 0, 45), Ranges{});
}

TEST(NamedNumbers, WhatIsFarBelowTheHighestCountsAsNamed) {
    NamedNumbers named;
    EXPECT_EQ(take(named, 10'000, 10'000), (Ranges{{10'000, 10'000}}));
    EXPECT_EQ(take(named, 0, 5000), Ranges{});
    EXPECT_EQ(take(named, 5900, 6000), (Ranges{{5905, 6000}})) << "the last 4096";
    EXPECT_EQ(take(named, 1'000'000, 1'000'009), (Ranges{{1'000'000, 1'000'009}}));
    EXPECT_EQ(take(named, 9990, 10'010), Ranges{});
}

TEST(NamedNumbers, TellsWhichAreNamed) {
    NamedNumbers named;
    EXPECT_FALSE(named.contains(0));
    take(named, 10'000, 10'009);
    EXPECT_TRUE(named.contains(10'009));
    EXPECT_FALSE(named.contains(10'010));
    EXPECT_FALSE(named.contains(9999));
    EXPECT_TRUE(named.contains(5000)) << "too old to be told";
}

TEST(NamedNumbers, GivesEachNumberOnce) {
    base::SeededRandom random(11);
    NamedNumbers named;
    std::set<uint32_t> given;
    for (uint32_t i = 0, highest = 0; i < 20'000; ++i) {
        highest += static_cast<uint32_t>(random.below(20));
        const auto last =
            static_cast<uint32_t>(highest - random.below(std::min(highest, 300U) + 1));
        const auto first = static_cast<uint32_t>(last - random.below(std::min(last, 200U) + 1));
        std::set<uint32_t> expected;
        for (uint32_t number = first; number <= last; ++number) {
            if (given.insert(number).second) {
                expected.insert(number);
            }
        }
        std::set<uint32_t> got;
        for (const auto& [from, to] : take(named, first, last)) {
            for (uint32_t number = from; number <= to; ++number) {
                EXPECT_TRUE(got.insert(number).second) << number;
            }
        }
        ASSERT_EQ(got, expected) << i;
    }
}

}  // namespace
}  // namespace continuo::session
