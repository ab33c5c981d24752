#include "common/base/random.hpp"
#include "common/recovery/sent_log.hpp"

#include <map>

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr NumberSpace kA{7, 0};
constexpr NumberSpace kB{7, 128};

SentRun run_of(const NumberSpace& space, uint32_t first, uint8_t count, TimePoint at) {
    SentRun run;
    run.space = space;
    run.first = first;
    run.count = count;
    run.bytes = 1000;
    run.last_bytes = 1000;
    run.has_packets = true;
    run.sent_at = at;
    return run;
}

// Numbers that an acknowledgement of [first, last] settles, with how often.
std::map<uint32_t, int>
settled(SentLog& log, const NumberSpace& space, uint32_t first, uint32_t last, bool* known) {
    std::map<uint32_t, int> numbers;
    *known = log.acknowledge(space, first, last,
                             [&](SentLog::Position, const SentRun& run, uint64_t newly, uint64_t) {
                                 for (uint32_t i = 0; i < run.count; ++i) {
                                     numbers[run.first + i] += (newly >> i & 1U) != 0 ? 1 : 0;
                                 }
                             });
    std::erase_if(numbers, [](const auto& item) { return item.second == 0; });
    return numbers;
}

TEST(SentLog, SettlesEachNumberOnceAndNoOtherSpace) {
    SentLog log;
    const TimePoint now{seconds(1)};
    log.push(run_of(kA, 0, 10, now), {});
    log.push(run_of(kB, 0, 10, now), {});
    log.push(run_of(kA, 10, 64, now), {});
    bool known = false;
    const auto first = settled(log, kA, 5, 20, &known);
    EXPECT_TRUE(known);
    EXPECT_EQ(first.size(), 16U);
    EXPECT_EQ(first.begin()->first, 5U);
    EXPECT_EQ(settled(log, kA, 0, 73, &known).size(), 74U - 16U);
    EXPECT_TRUE(settled(log, kA, 0, 73, &known).empty());
    EXPECT_EQ(settled(log, kB, 0, 9, &known).size(), 10U);
    log.settle(now + seconds(1));
    EXPECT_EQ(log.begin(), log.end());
}

// A path repeats numbers of a space that is its own and has gone on, or another path's.
TEST(SentLog, RepeatsAreApartFromWhatTheSpaceHasReached) {
    SentLog log;
    const TimePoint now{seconds(1)};
    log.push(run_of(kA, 0, 10, now), {});
    log.push(run_of(kA, 10, 10, now), {});
    const auto outstanding = [&](const NumberSpace& space, uint32_t first, uint32_t last) {
        int taken = 0;
        log.take_out(space, first, last,
                     [&](const SentRun& /*run*/, uint64_t bits) { taken += std::popcount(bits); });
        return taken;
    };
    EXPECT_EQ(outstanding(kA, 4, 6), 3);
    EXPECT_EQ(outstanding(kA, 4, 6), 0) << "they are in the log no more";
    EXPECT_FALSE(log.has_repeats());
    for (const NumberSpace& space : {kA, kB}) {
        for (uint32_t number = 4; number < 7; ++number) {
            SentRun run = run_of(space, number, 1, now);
            run.is_repeat = true;
            log.push(run, {});
        }
    }
    EXPECT_EQ(log.end() - log.begin(), 3U) << "repeats are joined like others";
    EXPECT_TRUE(log.is_waiting(kA, true, 5));
    EXPECT_FALSE(log.is_waiting(kA, true, 7));
    EXPECT_FALSE(log.is_waiting(kA, false, 5));
    bool known = false;
    EXPECT_EQ(settled(log, kA, 0, 19, &known).size(), 17U);
    int repeats = 0;
    log.acknowledge_repeats(kB, 0, 5,
                            [&](SentLog::Position, const SentRun&, uint64_t newly, uint64_t) {
                                repeats += std::popcount(newly);
                            });
    EXPECT_EQ(repeats, 2);
    EXPECT_EQ(outstanding(kA, 0, 100), 3) << "they are repeated elsewhere";
    EXPECT_EQ(outstanding(kB, 0, 100), 1);
    log.settle(now);
    EXPECT_FALSE(log.has_repeats());
}

// Spread over three uplinks, a flow of each of three classes is unacknowledged when the node moves.
TEST(SentLog, RepeatsOfManySpacesAreFoundHoweverTheyAreInterleaved) {
    constexpr uint16_t kSpaces = 9;
    constexpr uint32_t kRounds = 3;
    SentLog log;
    for (uint32_t round = 0; round < kRounds; ++round) {
        for (uint16_t space = 0; space < kSpaces; ++space) {
            SentRun run = run_of({7, space}, round, 1, TimePoint{seconds(1)});
            run.is_repeat = true;
            log.push(run, {});
        }
    }
    for (uint16_t space = 0; space < kSpaces; ++space) {
        int repeats = 0;
        log.acknowledge_repeats({7, space}, 0, kRounds - 1,
                                [&](SentLog::Position, const SentRun&, uint64_t newly, uint64_t) {
                                    repeats += std::popcount(newly);
                                });
        EXPECT_EQ(repeats, static_cast<int>(kRounds)) << space;
    }
}

TEST(SentLog, NumbersThatNeverLeftAreRefused) {
    SentLog log;
    log.push(run_of(kA, 0, 10, TimePoint{seconds(1)}), {});
    bool known = true;
    EXPECT_TRUE(settled(log, kA, 0, 10, &known).empty());
    EXPECT_FALSE(known);
    settled(log, kB, 0, 0, &known);
    EXPECT_FALSE(known);
    settled(log, kA, 6, 5, &known);
    EXPECT_FALSE(known);
    EXPECT_EQ(settled(log, kA, 0, 9, &known).size(), 10U);
}

TEST(SentLog, WhatLeavesTogetherIsOneRun) {
    SentLog log;
    const TimePoint now{seconds(1)};
    for (uint32_t i = 0; i < 100; ++i) {
        log.push(run_of(kA, i, 1, now + base::microseconds(i)), milliseconds(1));
    }
    EXPECT_EQ(log.end() - log.begin(), 2U) << "64 and 36";
    EXPECT_EQ(log.at(log.begin()).count, 64);
    log.push(run_of(kA, 100, 1, now + milliseconds(5)), milliseconds(1));
    EXPECT_EQ(log.end() - log.begin(), 3U) << "it left later";
    SentRun asks = run_of(kA, 101, 1, now + milliseconds(5));
    asks.asks = true;
    log.push(asks, milliseconds(1));
    EXPECT_EQ(log.end() - log.begin(), 4U) << "it is of another kind";
    bool known = false;
    EXPECT_EQ(settled(log, kA, 0, 101, &known).size(), 102U);
}

TEST(SentLog, AFullLogForgetsTheOldestAndSaysSo) {
    SentLog log;
    TimePoint now{seconds(1)};
    const auto number = static_cast<uint32_t>(SentLog::kMostRuns);
    for (uint32_t i = 0; i < number; ++i, now += milliseconds(1)) {
        EXPECT_EQ(log.push(run_of(kA, i, 1, now), {}).outstanding, 0U);
    }
    const SentRun forgotten = log.push(run_of(kA, number, 1, now), {});
    EXPECT_EQ(forgotten.first, 0U);
    EXPECT_EQ(forgotten.outstanding, 1U);
    EXPECT_EQ(log.forgotten_datagrams(), 1U);
    EXPECT_EQ(log.capacity(), SentLog::kMostRuns);
    bool known = false;
    EXPECT_EQ(settled(log, kA, 0, number, &known).size(), number);
    log.settle(now + seconds(1));
    log.release();
    EXPECT_EQ(log.capacity(), 0U);
    EXPECT_TRUE(settled(log, kA, 0, number, &known).empty());
    EXPECT_TRUE(known) << "they did leave";
}

// Where there is no memory, what left last is known still.
TEST(SentLog, LogsTogetherTakeNoMoreThanTheirBudget) {
    constexpr size_t kLimit = 100 * 1024;
    base::MemoryBudget budget(kLimit);
    constexpr uint32_t kRuns = 1000;
    {
        std::array<SentLog, 4> logs{SentLog(&budget), SentLog(&budget), SentLog(&budget),
                                    SentLog(&budget)};
        const TimePoint now{seconds(1)};
        for (uint32_t i = 0; i < kRuns; ++i) {
            for (SentLog& log : logs) {
                log.push(run_of(i % 2 == 0 ? kA : kB, i / 2, 1, now + milliseconds(i)), {});
            }
        }
        size_t runs = 0;
        for (SentLog& log : logs) {
            runs += log.capacity();
            EXPECT_GE(log.capacity(), SentLog::kFewestRuns);
            EXPECT_LT(log.capacity(), SentLog::kMostRuns);
            EXPECT_GE(log.forgotten_datagrams(), kRuns - SentLog::kMostRuns / 2);
            bool known = false;
            EXPECT_EQ(settled(log, kA, kRuns / 2 - 1, kRuns / 2 - 1, &known).size(), 1U);
            EXPECT_GT(log.span_when_crowded(now + milliseconds(kRuns)), base::Duration{})
                << "runs join, so that it lasts";
        }
        EXPECT_LE(budget.used_bytes(), kLimit);
        EXPECT_GE(budget.used_bytes(), runs / 2 * sizeof(SentRun));
        EXPECT_GT(budget.refusals(), 0U);
    }
    EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(SentLog, MemoryThatIsNotNeededIsGivenBack) {
    base::MemoryBudget budget(1024 * 1024);
    SentLog log(&budget);
    const TimePoint now{seconds(1)};
    for (uint32_t i = 0; i < 1000; ++i) {
        log.push(run_of(i % 2 == 0 ? kA : kB, i / 2, 1, now), {});
    }
    EXPECT_GT(budget.used_bytes(), 1000 * sizeof(SentRun));
    bool known = false;
    settled(log, kA, 0, 499, &known);
    settled(log, kB, 0, 480, &known);
    log.settle(now);
    log.release();
    EXPECT_LT(budget.used_bytes(), 500 * sizeof(SentRun));
    settled(log, kB, 481, 499, &known);
    log.settle(now);
    log.release();
    EXPECT_EQ(budget.used_bytes(), 0U);
    EXPECT_EQ(budget.refusals(), 0U);
}

// The peer never got the keys of an epoch that is granted again: its numbers begin anew.
TEST(SentLog, NumbersThatBeginAnewAreNotThoseOfBefore) {
    SentLog log;
    const TimePoint now{seconds(1)};
    log.push(run_of(kA, 0, 64, now), {});
    log.push(run_of(kA, 64, 64, now), {});
    log.push(run_of(kA, 0, 4, now), {});
    bool known = false;
    EXPECT_EQ(settled(log, kA, 0, 3, &known).size(), 4U);
    settled(log, kA, 0, 100, &known);
    EXPECT_FALSE(known);
}

// Whatever else is logged and forgotten meanwhile: against a search of all runs.
TEST(SentLog, FindsEachNumberThatItStillKnows) {
    constexpr std::array<NumberSpace, 3> kSpaces = {kA, kB, {8, 0}};
    std::array<uint32_t, kSpaces.size()> next{};
    base::SeededRandom random(5);
    SentLog log;
    TimePoint now{seconds(1)};
    for (uint32_t i = 0; i < 20'000; ++i, now += milliseconds(1)) {
        const size_t which = random.below(10) == 0 ? 1 + random.below(2) : 0;
        const auto count = static_cast<uint8_t>(1 + random.below(5));
        log.push(run_of(kSpaces[which], next[which], count, now), {});
        next[which] += count;
        if (random.below(50) == 0) {
            log.settle(now);
        }
        const size_t asked = random.below(kSpaces.size());
        if (next[asked] == 0) {
            continue;
        }
        // Several between two pushes, higher and lower than the one before.
        for (uint64_t asks = 1 + random.below(5); asks > 0; --asks) {
            const auto number = static_cast<uint32_t>(random.below(next[asked]));
            size_t waited_for = 0;
            for (auto position = log.begin(); position < log.end(); ++position) {
                const SentRun& run = log.at(position);
                const bool is_asked = run.space == kSpaces[asked];
                waited_for +=
                    is_asked && (run.mask(number, number) & run.outstanding) != 0 ? 1U : 0U;
            }
            bool known = false;
            ASSERT_EQ(settled(log, kSpaces[asked], number, number, &known).size(), waited_for) << i;
        }
    }
}

TEST(SentLog, SpacesAreBounded) {
    SentLog log;
    for (uint32_t epoch = 0; epoch < 100; ++epoch) {
        log.push(run_of({epoch, 0}, 0, 1, TimePoint{seconds(1)}), {});
    }
    bool known = true;
    settled(log, {0, 0}, 0, 0, &known);
    EXPECT_FALSE(known);
    EXPECT_EQ(settled(log, {99, 0}, 0, 0, &known).size(), 1U);
}

TEST(SentRun, CountsBytesWithAShorterLast) {
    SentRun run = run_of(kA, 10, 5, {});
    run.last_bytes = 300;
    EXPECT_EQ(run.bytes_of(0b11111), 4300U);
    EXPECT_EQ(run.bytes_of(0b01111), 4000U);
    EXPECT_EQ(run.bytes_of(0b10000), 300U);
    EXPECT_EQ(run.mask(0, 11), 0b00011U);
    EXPECT_EQ(run.mask(12, 100), 0b11100U);
    EXPECT_EQ(run.mask(15, 100), 0U);
}

}  // namespace
}  // namespace continuo::recovery
