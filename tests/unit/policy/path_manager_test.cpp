#include "common/base/random.hpp"
#include "policy/path_manager.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::policy {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using Kind = PathStep::Kind;
using path::PathState;

constexpr TimePoint kBegin{seconds(1000)};

// A host with uplinks, and a manager that has seen nothing yet.
class PathManagerTest : public testing::Test {
  protected:
    // One that answers; the first that is added is preferred.
    WayFacts& add(uint8_t slot) {
        WayFacts way;
        way.slot = slot;
        way.network = slot;
        way.rank = 100 + facts.ways.size();
        way.has_route = true;
        way.is_known = true;
        way.state = PathState::Usable;
        way.heard_at = now;
        way.received_datagrams = 1;
        facts.ways.push_back(way);
        return facts.ways.back();
    }
    WayFacts& way(uint8_t slot) {
        return *std::find_if(facts.ways.begin(), facts.ways.end(),
                             [slot](const WayFacts& any) { return any.slot == slot; });
    }
    void fall_silent(uint8_t slot, PathState state = PathState::Doubtful) {
        way(slot).state = state;
        way(slot).unanswered_since = now;
    }
    void answer(uint8_t slot) {
        way(slot).state = PathState::Usable;
        way(slot).unanswered_since = base::kNever;
        way(slot).heard_at = now;
    }

    // The manager's steps, in its order.
    std::vector<Kind> choose() {
        steps.clear();
        manager.choose(facts, now, steps);
        return kinds();
    }
    std::vector<Kind> tick_after(base::Duration span) {
        now += span;
        steps.clear();
        manager.on_tick(facts, now, steps);
        return kinds();
    }
    std::vector<Kind> kinds() const {
        std::vector<Kind> all;
        std::transform(steps.begin(), steps.end(), std::back_inserter(all),
                       [](const PathStep& step) { return step.kind; });
        return all;
    }
    bool says(Kind kind, std::optional<uint8_t> slot = std::nullopt) const {
        return std::any_of(steps.begin(), steps.end(), [&](const PathStep& step) {
            return step.kind == kind && (!slot || step.slot == slot);
        });
    }
    // Ticks until the manager says that. False: it does not within `most`.
    bool ticks_until(Kind kind, base::Duration most) {
        for (const TimePoint end = now + most; now < end;) {
            tick_after(PathManager::kTick);
            if (says(kind)) {
                return true;
            }
        }
        return false;
    }
    // A tick in which half of what comes down is lost.
    void lose_half() {
        facts.traffic.received_datagrams += 500;
        facts.traffic.lost_datagrams += 500;
        facts.traffic.received_inner_bytes += 700'000;
        tick_after(PathManager::kTick);
    }
    // UDP is silent by all uplinks while TCP answers.
    void leave_for_stream() {
        facts.stream.is_open = true;
        fall_silent(*manager.active());
        tick_after(seconds(1));
        manager.on_stream_answered(now);
        ASSERT_TRUE(ticks_until(Kind::UseStream, seconds(2)));
        for (WayFacts& any : facts.ways) {
            any.state = PathState::Dead;  // given up
            any.unanswered_since = base::kNever;
        }
    }

    TimePoint now = kBegin;
    PathFacts facts;
    PathManager manager;
    PathSteps steps;
};

TEST_F(PathManagerTest, ThePreferredUplinkIsTakenAndThenNothingIsSaid) {
    add(0);
    add(1);
    EXPECT_EQ(choose(), (std::vector{Kind::Activate, Kind::Moved}));
    EXPECT_EQ(manager.active(), 0);
    EXPECT_TRUE(choose().empty());
}

TEST_F(PathManagerTest, ABetterUplinkHasToAnswerFirst) {
    add(1);
    choose();
    WayFacts& better = add(0);
    better.rank = 1;
    better.state = PathState::Challenged;
    EXPECT_EQ(choose(), std::vector{Kind::Probe});
    EXPECT_EQ(manager.active(), 1);
    answer(0);
    EXPECT_EQ(choose(), (std::vector{Kind::Activate, Kind::Moved}));
    EXPECT_EQ(steps[0].former, 1);
}

TEST_F(PathManagerTest, AnUplinkThatWasNotHeardLatelyIsAskedAnew) {
    add(1);
    choose();
    WayFacts& better = add(0);
    better.rank = 1;
    now += seconds(3);
    way(1).heard_at = now;
    EXPECT_EQ(choose(), std::vector{Kind::Probe});
}

TEST_F(PathManagerTest, ASilentUplinkIsLeftForOneThatAnswersAndTakenBackLaterEachTime) {
    add(0);
    add(1);
    choose();
    for (const int64_t bar_s : {1, 2, 4}) {
        answer(1);
        fall_silent(0);
        EXPECT_EQ(choose(), (std::vector{Kind::Activate, Kind::Moved}));
        ASSERT_EQ(manager.active(), 1);
        now += seconds(bar_s) - milliseconds(500);
        answer(0);
        answer(1);
        tick_after({});
        EXPECT_EQ(manager.active(), 1) << "for " << bar_s << " s";
        now += milliseconds(500);
        answer(0);
        answer(1);
        tick_after({});
        EXPECT_EQ(manager.active(), 0) << "after " << bar_s << " s";
    }
}

TEST_F(PathManagerTest, ABarredUplinkIsTakenBackWhenThereIsNoOther) {
    add(0);
    add(1);
    choose();
    fall_silent(0);
    choose();
    ASSERT_EQ(manager.active(), 1);
    answer(0);
    fall_silent(1, PathState::Dead);
    choose();
    EXPECT_EQ(manager.active(), 0);
}

TEST_F(PathManagerTest, ADoubtfulUplinkAloneIsKept) {
    add(0);
    choose();
    fall_silent(0);
    EXPECT_TRUE(choose().empty());
    EXPECT_EQ(manager.active(), 0);
}

TEST_F(PathManagerTest, AnUplinkWithoutCarrierIsLeftForOneThatDoesNotAnswerYet) {
    add(0);
    add(1);
    choose();
    way(0).can_carry = false;
    way(1).state = PathState::Challenged;
    choose();
    EXPECT_EQ(manager.active(), 1);
}

TEST_F(PathManagerTest, TheOtherAddressOfAnInterfaceStandsBehind) {
    add(0);
    WayFacts& other = add(1);
    other.rank = 1;
    other.behind = way_bit(0);
    choose();
    EXPECT_EQ(manager.active(), 0);
    fall_silent(0);
    choose();
    EXPECT_EQ(manager.active(), 1);
}

TEST_F(PathManagerTest, WhoFallsSilentHasTheOthersAskedAndIsLostWhenItDies) {
    add(0);
    add(1);
    choose();
    fall_silent(0);
    way(1).state = PathState::Challenged;
    steps.clear();
    manager.on_silent(facts, 0, PathState::Doubtful, now, steps);
    EXPECT_EQ(kinds(), std::vector{Kind::Probe});
    fall_silent(0, PathState::Dead);
    fall_silent(1, PathState::Dead);
    steps.clear();
    manager.on_silent(facts, 0, PathState::Dead, now, steps);
    EXPECT_EQ(kinds(), std::vector{Kind::Lost});
}

TEST_F(PathManagerTest, AnUplinkThatIsGoneIsForgotten) {
    add(0);
    choose();
    manager.forget(0);
    EXPECT_EQ(manager.active(), std::nullopt);
    facts.ways.clear();
    EXPECT_TRUE(choose().empty());
}

TEST_F(PathManagerTest, TcpIsAskedWithTheOtherUplinksAndUsedWhenOnlyItAnswers) {
    add(0);
    add(1).state = PathState::Challenged;
    choose();
    facts.stream.is_open = true;
    fall_silent(0);
    tick_after(milliseconds(500));
    EXPECT_TRUE(steps.empty());
    EXPECT_EQ(manager.stream_due(), kBegin + seconds(1));
    tick_after(milliseconds(500));
    EXPECT_TRUE(says(Kind::Probe, wire::kTcpPath));
    EXPECT_TRUE(says(Kind::Probe, 1));
    manager.on_stream_answered(now);
    EXPECT_TRUE(ticks_until(Kind::UseStream, seconds(1)));
    EXPECT_TRUE(manager.is_on_stream());
    EXPECT_EQ(manager.active(), 0);
}

// A box that lets little UDP pass may let no TCP pass.
TEST_F(PathManagerTest, TcpIsTriedForWhatUdpLosesOnlyWhenItAnswers) {
    add(0);
    choose();
    facts.stream.is_open = true;
    for (int i = 0; i < 100; ++i) {
        lose_half();
        ASSERT_FALSE(says(Kind::UseStream)) << i;
    }
    ASSERT_TRUE(says(Kind::Probe, wire::kTcpPath));
    manager.on_stream_answered(now);
    lose_half();
    EXPECT_TRUE(says(Kind::UseStream));
}

TEST_F(PathManagerTest, ATrialWhoseTcpFallsSilentGoesOnByAnotherUplink) {
    add(0);
    add(1).state = PathState::Dead;
    choose();
    facts.stream.is_open = true;
    facts.stream.smoothed_rtt = milliseconds(700);
    manager.on_stream_answered(now);
    for (int i = 0; i < 6 && !manager.is_on_stream(); ++i) {
        manager.on_stream_answered(now);
        lose_half();
    }
    ASSERT_TRUE(manager.is_on_stream());
    facts.stream.unanswered_since = now;
    EXPECT_FALSE(ticks_until(Kind::MoveStream, seconds(2)));
    EXPECT_TRUE(ticks_until(Kind::MoveStream, seconds(1))) << "though UDP is asked, too";
    EXPECT_EQ(manager.active(), 1);
}

TEST_F(PathManagerTest, TcpIsNotUsedWhenAnotherUplinkAnswers) {
    add(0);
    add(1);
    choose();
    facts.stream.is_open = true;
    fall_silent(0);
    tick_after(seconds(1));
    manager.on_stream_answered(now);
    EXPECT_FALSE(ticks_until(Kind::UseStream, seconds(2)));
}

TEST_F(PathManagerTest, TcpThatCameByAnotherUplinkMovesTheDataThere) {
    add(0);
    add(1).state = PathState::Dead;
    choose();
    facts.stream.slot = 1;
    leave_for_stream();
    EXPECT_EQ(manager.active(), 1);
    EXPECT_TRUE(says(Kind::Moved));
}

TEST_F(PathManagerTest, UdpThatAnswersTakesTheDataBack) {
    add(0);
    add(1).state = PathState::Dead;
    choose();
    leave_for_stream();
    EXPECT_TRUE(ticks_until(Kind::Retry, seconds(3)));
    EXPECT_TRUE(says(Kind::NextPort));
    answer(0);
    EXPECT_EQ(choose(), (std::vector{Kind::Bury, Kind::Activate}));
    EXPECT_EQ(steps[0].slot, 1) << "given up for TCP, it did not answer";
    EXPECT_TRUE(steps[1].was_on_stream);
    EXPECT_FALSE(manager.is_on_stream());
}

TEST_F(PathManagerTest, SilentTcpIsMadeAnewByAnotherUplink) {
    add(0);
    add(1);
    way(1).state = PathState::Dead;
    choose();
    leave_for_stream();
    facts.stream.unanswered_since = now;
    EXPECT_TRUE(ticks_until(Kind::MoveStream, seconds(2)));
    EXPECT_EQ(manager.active(), 1);
}

TEST_F(PathManagerTest, SilentTcpWithoutAnotherUplinkIsMadeAnewOnceIn10Seconds) {
    add(0);
    choose();
    leave_for_stream();
    facts.stream.unanswered_since = now;
    EXPECT_TRUE(ticks_until(Kind::RenewStream, seconds(4)));
    EXPECT_FALSE(ticks_until(Kind::RenewStream, seconds(9)));
    EXPECT_TRUE(ticks_until(Kind::RenewStream, seconds(2)));
}

TEST_F(PathManagerTest, WhereUdpAndTcpAreSilentAllUplinksAreTriedSoon) {
    add(0);
    add(1).state = PathState::Dead;
    choose();
    facts.has_control = true;
    facts.stream.is_open = true;
    fall_silent(0);
    facts.stream.unanswered_since = now;
    EXPECT_TRUE(ticks_until(Kind::RenewStream, seconds(1)));
}

TEST_F(PathManagerTest, UdpThatIsLeftAloneIsAskedWhenTcpFallsSilent) {
    add(0);
    choose();
    leave_for_stream();
    ASSERT_TRUE(ticks_until(Kind::Retry, seconds(2)));
    answer(0);
    choose();
    fall_silent(0);
    tick_after(seconds(1));
    manager.on_stream_answered(now);
    ASSERT_TRUE(ticks_until(Kind::UseStream, seconds(2)));
    way(0).state = PathState::Dead;
    facts.stream.unanswered_since = now;
    EXPECT_TRUE(ticks_until(Kind::Retry, milliseconds(1500)));
}

TEST_F(PathManagerTest, TcpThatEndsLeavesTheDataOnItsUplink) {
    add(0);
    choose();
    leave_for_stream();
    steps.clear();
    manager.on_stream_closed(facts, now, steps);
    EXPECT_TRUE(says(Kind::Activate, 0));
    EXPECT_FALSE(manager.is_on_stream());
}

TEST_F(PathManagerTest, TcpThatEndsWithoutAnyUplinkLeavesNothing) {
    add(0);
    choose();
    leave_for_stream();
    facts.ways.clear();
    steps.clear();
    manager.on_stream_closed(facts, now, steps);
    EXPECT_EQ(manager.active(), std::nullopt);
    EXPECT_FALSE(manager.is_on_stream());
}

TEST_F(PathManagerTest, ASilentPortIsLeftForTheNextOneASecond) {
    add(0);
    choose();
    facts.udp_ports = 3;
    fall_silent(0);
    way(0).packets_sent_at = base::kNever;  // busy
    EXPECT_FALSE(ticks_until(Kind::Redirect, milliseconds(1500)));
    EXPECT_TRUE(ticks_until(Kind::Redirect, milliseconds(500)));
    EXPECT_FALSE(ticks_until(Kind::Redirect, milliseconds(500)));
    EXPECT_TRUE(ticks_until(Kind::Redirect, milliseconds(500)));
}

TEST_F(PathManagerTest, WhateverHappensStepsNameUplinksThatAreThereAndCanCarry) {
    base::SeededRandom random(7);
    for (int round = 0; round < 20'000; ++round) {
        if (random.below(20) == 0) {
            manager.forget(static_cast<uint8_t>(random.below(4)));
        }
        facts.ways.clear();
        for (uint8_t slot = 0; slot < 4; ++slot) {
            if (random.below(3) == 0) {
                continue;
            }
            WayFacts& any = add(slot);
            any.rank = random.below(10);
            any.network = static_cast<uint32_t>(random.below(3));
            any.has_route = random.below(4) != 0;
            any.can_carry = random.below(4) != 0;
            any.is_wanted = random.below(4) != 0;
            any.is_known = random.below(4) != 0;
            any.state = static_cast<PathState>(random.below(5));
            any.heard_at = now - milliseconds(random.below(4000));
            any.unanswered_since =
                random.below(2) == 0 ? base::kNever : now - milliseconds(random.below(4000));
        }
        facts.stream.is_open = random.below(3) != 0;
        facts.stream.unanswered_since =
            random.below(2) == 0 ? base::kNever : now - milliseconds(random.below(4000));
        facts.stream.slot.reset();
        if (random.below(2) == 0) {
            facts.stream.slot = static_cast<uint8_t>(random.below(4));
        }
        facts.has_control = random.below(2) == 0;
        facts.udp_ports = random.below(4);
        if (random.below(2) == 0) {
            manager.on_stream_answered(now);
        }
        switch (random.below(4)) {
        case 0:
            choose();
            break;
        case 1:
            steps.clear();
            manager.on_silent(facts, static_cast<uint8_t>(random.below(4)), PathState::Dead, now,
                              steps);
            break;
        case 2:
            steps.clear();
            manager.on_stream_closed(facts, now, steps);
            break;
        default:
            tick_after(milliseconds(random.below(3000)));
        }
        for (const PathStep& step : steps) {
            const WayFacts* const named = facts.find(step.slot);
            const bool is_activated = step.kind == Kind::Activate;
            if (is_activated || step.kind == Kind::MoveStream || step.kind == Kind::Retry) {
                ASSERT_NE(named, nullptr) << round;
            }
            if ((is_activated && !step.was_on_stream) || step.kind == Kind::MoveStream) {
                ASSERT_TRUE(named->is_known && named->can_carry) << round;
            }
        }
        const bool is_gone = manager.is_on_stream() && !manager.active();
        ASSERT_FALSE(is_gone && says(Kind::UseStream)) << round;
    }
}

}  // namespace
}  // namespace continuo::policy
