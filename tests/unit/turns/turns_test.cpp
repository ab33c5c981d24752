#include "common/turns/turns.hpp"

#include <array>

#include <gtest/gtest.h>

namespace continuo::turns {
namespace {

using base::Duration;
using base::microseconds;
using base::milliseconds;

// Serves for `span`, each turn at the cost that its owner has; gives what each has used.
template <size_t Count>
std::array<Duration, Count> serve(Turns& turns,
                                  std::array<Turn, Count>& all,
                                  const std::array<Duration, Count>& costs,
                                  Duration span) {
    std::array<Duration, Count> used{};
    for (Duration passed{}; passed < span;) {
        Turn* turn = turns.next();
        EXPECT_NE(turn, nullptr);
        const auto index = static_cast<size_t>(turn - all.data());
        turns.finish(*turn, costs.at(index), true);
        used.at(index) += costs.at(index);
        passed += costs.at(index);
    }
    return used;
}

TEST(Turns, NobodyWaits) {
    Turns turns;
    EXPECT_EQ(turns.next(), nullptr);
    EXPECT_TRUE(turns.is_empty());
}

TEST(Turns, OneThatHasNoMoreToDoWaitsNoLonger) {
    Turns turns;
    Turn turn;
    turns.wake(turn);
    turns.wake(turn);
    EXPECT_EQ(turns.next(), &turn);
    EXPECT_EQ(turns.next(), &turn) << "until it is finished";
    EXPECT_TRUE(turns.is_alone(turn));
    turns.finish(turn, microseconds(10), false);
    EXPECT_TRUE(turns.is_empty());
    EXPECT_FALSE(turns.is_alone(turn));
}

// Whatever the pieces that their work comes in.
TEST(Turns, AllThatWaitGetTheSameTime) {
    Turns turns;
    std::array<Turn, 3> all;
    for (Turn& turn : all) {
        turns.wake(turn);
    }
    const auto used = serve(
        turns, all, std::array<Duration, 3>{microseconds(10), microseconds(150), milliseconds(2)},
        base::seconds(3));
    for (const Duration time : used) {
        EXPECT_NEAR(static_cast<double>(base::to_us(time)), 1e6, 1e4);
    }
    for (Turn& turn : all) {
        turns.remove(turn);
    }
}

TEST(Turns, WhoAsksForLittleComesBeforeThoseThatWait) {
    Turns turns;
    std::array<Turn, 3> busy;
    std::array<Turn, 1> modest;
    for (Turn& turn : busy) {
        turns.wake(turn);
    }
    const std::array<Duration, 3> costs{milliseconds(1), milliseconds(1), milliseconds(1)};
    for (int i = 0; i < 1000; ++i) {
        serve(turns, busy, costs, milliseconds(3));
        turns.wake(modest[0]);
        EXPECT_EQ(turns.next(), &modest[0]) << i;
        turns.finish(modest[0], microseconds(20), false);
    }
    for (Turn& turn : busy) {
        turns.remove(turn);
    }
}

// To have nothing to do now and then is no way to more than its share.
TEST(Turns, WhoPausesOwesWhatItHasUsed) {
    Turns turns;
    Turn steady;
    Turn pausing;
    turns.wake(steady);
    Duration used{};
    Duration paused{};
    while (used < base::seconds(1)) {
        turns.wake(pausing);
        Turn* turn = turns.next();
        const bool is_steady = turn == &steady;
        turns.finish(*turn, milliseconds(1), is_steady);
        (is_steady ? used : paused) += milliseconds(1);
    }
    EXPECT_LE(paused, milliseconds(1010));
    turns.remove(steady);
    turns.remove(pausing);
}

// However long one turn was: else who has a few very dear ones gets more than its share.
TEST(Turns, DebtStandsInFull) {
    Turns turns;
    Turn once;
    Turn other;
    turns.wake(once);
    turns.wake(other);
    EXPECT_EQ(turns.next(), &once);
    turns.finish(once, milliseconds(100), true);
    Duration used{};
    while (turns.next() == &other) {
        turns.finish(other, kTurn, true);
        used += kTurn;
    }
    EXPECT_GE(used, milliseconds(100) - 2 * kTurn);
    EXPECT_LE(used, milliseconds(100) + 2 * kTurn);
    turns.remove(once);
    turns.remove(other);
}

// Otherwise one that is alone stays in debt for as long as nobody else wants time.
TEST(Turns, TimeThatNobodyWantsPaysDebts) {
    Turns turns;
    Turn turn;
    turns.charge(turn, kTurn + milliseconds(5));
    EXPECT_EQ(turns.credit(turn), -milliseconds(5));
    for (int i = 0; i < 10; ++i) {
        turns.pass(kTurn / 10);
    }
    EXPECT_EQ(turns.credit(turn), kTurn - milliseconds(5)) << "in pieces, too";
    turns.pass(base::seconds(10));
    EXPECT_EQ(turns.credit(turn), kTurn) << "no savings";
}

TEST(Turns, WhatIsChargedOutsideATurnCountsToo) {
    Turns turns;
    Turn charged;
    Turn other;
    turns.charge(charged, milliseconds(1));
    turns.wake(charged);
    turns.wake(other);
    EXPECT_LE(turns.credit(charged), Duration::zero());
    EXPECT_EQ(turns.next(), &other);
    turns.remove(charged);
    turns.remove(other);
}

}  // namespace
}  // namespace continuo::turns
