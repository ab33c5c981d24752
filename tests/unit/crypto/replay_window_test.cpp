#include "common/base/random.hpp"
#include "common/crypto/replay_window.hpp"

#include <set>

#include <gtest/gtest.h>

namespace continuo::crypto {
namespace {

constexpr uint64_t kSpan = SequenceBitmap::kSpan;

TEST(ReplayWindow, UnusedCostsAPointerAndKnowsNothing) {
    const ReplayWindow window;
    EXPECT_EQ(sizeof window, sizeof(void*));
    EXPECT_EQ(window.next(), 0U);
    EXPECT_FALSE(window.highest().has_value());
    EXPECT_EQ(window.check(0), ReplayVerdict::Fresh);
    EXPECT_EQ(window.lost(), 0U);
    EXPECT_EQ(window.missing(), 0U);
}

TEST(ReplayWindow, ReachesAtLeast4096Back) {
    static_assert(SequenceBitmap::kSpan >= 4096);
    for (uint64_t highest = 4000; highest < 4400; ++highest) {
        ReplayWindow window;
        EXPECT_TRUE(window.check_and_mark(highest));
        const uint64_t low = highest + 1 > kSpan ? highest + 1 - kSpan : 0;
        EXPECT_EQ(window.check(low), ReplayVerdict::Fresh) << highest;
        if (low > 0) {
            EXPECT_EQ(window.mark(low - 1), ReplayVerdict::Late) << highest;
        }
        EXPECT_EQ(window.mark(low), ReplayVerdict::Fresh) << highest;
        EXPECT_EQ(window.mark(low), ReplayVerdict::Duplicate) << highest;
    }
}

TEST(ReplayWindow, CheckChangesNothing) {
    ReplayWindow window;
    EXPECT_EQ(window.check(5), ReplayVerdict::Fresh);
    EXPECT_EQ(window.check(5), ReplayVerdict::Fresh);
    EXPECT_EQ(window.mark(5), ReplayVerdict::Fresh);
    EXPECT_EQ(window.check(5), ReplayVerdict::Duplicate);
    EXPECT_EQ(window.check(uint64_t{1} << 40), ReplayVerdict::Fresh);
    EXPECT_EQ(window.next(), 6U);
    EXPECT_EQ(window.duplicates(), 0U);
}

TEST(ReplayWindow, TwoEqualNumbersOfOneBatchPassCheckButOnlyOneIsMarked) {
    ReplayWindow window;
    EXPECT_EQ(window.check(7), ReplayVerdict::Fresh);
    EXPECT_EQ(window.check(7), ReplayVerdict::Fresh);
    EXPECT_TRUE(window.check_and_mark(7));
    EXPECT_FALSE(window.check_and_mark(7));
    EXPECT_EQ(window.duplicates(), 1U);
}

TEST(ReplayWindow, CountsLostOnlyWhenTheWindowHasPassedAndMissingAtOnce) {
    ReplayWindow window;
    for (uint64_t number = 0; number < 20000; ++number) {
        if (number != 100 && number != 101 && number != 19990) {
            EXPECT_TRUE(window.check_and_mark(number));
        }
        if (number == 200) {
            EXPECT_EQ(window.missing(), 2U);
            EXPECT_EQ(window.lost(), 0U);
        }
    }
    EXPECT_EQ(window.missing(), 3U);
    EXPECT_EQ(window.lost(), 2U);
    EXPECT_TRUE(window.check_and_mark(19990));
    EXPECT_EQ(window.missing(), 2U);
    EXPECT_EQ(window.mark(100), ReplayVerdict::Late);
    EXPECT_EQ(window.late(), 1U);
    EXPECT_EQ(window.highest(), 19999U);
}

TEST(ReplayWindow, AJumpBeyondTheWindowForgetsAndCountsWhatItPassed) {
    ReplayWindow window;
    EXPECT_TRUE(window.check_and_mark(0));
    EXPECT_TRUE(window.check_and_mark(1000000));
    EXPECT_EQ(window.check(0), ReplayVerdict::Late);
    EXPECT_EQ(window.check(1000000 - 64), ReplayVerdict::Fresh);
    EXPECT_EQ(window.accepted(), 2U);
    EXPECT_EQ(window.missing(), 1000001U - 2U);
    EXPECT_GE(window.lost(), 1000000U - kSpan - 64U - 1U);
    EXPECT_LE(window.lost(), 1000000U - kSpan);
}

TEST(ReplayWindow, AgreesWithASetOfAllNumbersUnderReorderingAndDuplication) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
        base::SeededRandom random(seed);
        ReplayWindow window;
        std::set<uint64_t> accepted;
        uint64_t centre = 0;
        for (int i = 0; i < 20000; ++i) {
            centre += random.below(3);
            if (random.below(500) == 0) {
                centre += random.below(3 * kSpan);
            }
            const uint64_t back = random.below(random.below(10) == 0 ? kSpan + 200 : 40);
            const uint64_t number = centre > back ? centre - back : 0;
            const uint64_t next = accepted.empty() ? 0 : *accepted.rbegin() + 1;
            const bool is_late = number + kSpan < next;
            const ReplayVerdict expected = is_late                     ? ReplayVerdict::Late
                                           : accepted.contains(number) ? ReplayVerdict::Duplicate
                                                                       : ReplayVerdict::Fresh;
            ASSERT_EQ(window.check(number), expected) << "seed " << seed << " step " << i;
            ASSERT_EQ(window.mark(number), expected) << "seed " << seed << " step " << i;
            if (expected == ReplayVerdict::Fresh) {
                accepted.insert(number);
            }
        }
        EXPECT_EQ(window.accepted(), accepted.size());
        EXPECT_EQ(window.next(), *accepted.rbegin() + 1);
        EXPECT_LE(window.lost(), window.missing());
        for (uint64_t number = window.low(); number <= window.next();
             number += 1 + random.below(99)) {
            const auto below = static_cast<uint64_t>(
                std::distance(accepted.begin(), accepted.lower_bound(number)));
            ASSERT_EQ(window.missing_below(number), number - below);
        }
    }
}

TEST(SequenceBitmap, FindsRunsDownward) {
    SequenceBitmap bitmap;
    std::set<uint64_t> numbers;
    base::SeededRandom random(3);
    for (uint64_t number = 0; number < 9000; ++number) {
        if (random.below(50) < 48) {
            bitmap.set(number);
            numbers.insert(number);
        }
    }
    const uint64_t floor = bitmap.low();
    for (const bool wanted : {true, false}) {
        for (uint64_t end = floor; end <= bitmap.next(); end += 1 + random.below(5)) {
            uint64_t expected = end;
            while (expected > floor && numbers.contains(expected - 1) != wanted) {
                --expected;
            }
            ASSERT_EQ(bitmap.find_down(end, floor, wanted), expected) << end;
        }
    }
}

}  // namespace
}  // namespace continuo::crypto
