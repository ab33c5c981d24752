#include "common/path/class_ways.hpp"
#include "common/wire/space.hpp"

#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

constexpr ClassWays::Times kTimes{milliseconds(500), milliseconds(40), milliseconds(5)};
constexpr TrafficClass kClass = TrafficClass::HtHd;
// T_ask, the own way alone, and the rounds that decide.
constexpr Duration kMended = kTimes.ask_after + (kProofs + 1) * kTimes.answer_within;

// A path on which lt-ld always arrives, and bulk by the ways from `first_open` on.
class ClassWaysTest : public ::testing::Test {
  protected:
    // Both classes send each 100 ms.
    void run(Duration span) {
        for (const TimePoint end = now_ + span; now_ < end; now_ += milliseconds(10)) {
            ways_.on_time(kTimes, random_, now_);
            while (const auto question = ways_.next_question(now_)) {
                ++questions_;
                asked_.push_back(question->way);
                if (is_open(question->way)) {
                    EXPECT_TRUE(ways_.on_response(question->traffic_class, question->token, now_));
                }
            }
            if (sends_ && base::to_ms(now_.time_since_epoch()) % 100 == 0) {
                ways_.on_sent(kClass, now_);
                if (is_open(ways_.way(kClass))) {
                    ways_.on_confirmed(kClass, now_, now_);
                }
                ways_.on_arrived(now_ + milliseconds(9));
            }
        }
    }
    bool is_open(ClassWay way) const { return first_open_ && way >= *first_open_; }
    // A datagram of the class is lost, and what left long after it arrives.
    void lose_one() {
        ways_.on_sent(kClass, now_);
        ways_.on_arrived(now_ += kTimes.ask_after);
    }
    // Questions that leave now, by the ways in their order.
    std::vector<ClassWays::Question> round() {
        ways_.on_time(kTimes, random_, now_);
        std::vector<ClassWays::Question> all;
        while (const auto question = ways_.next_question(now_)) {
            all.push_back(*question);
        }
        now_ += kTimes.answer_within;
        return all;
    }
    bool answer(const ClassWays::Question& question) {
        return ways_.on_response(question.traffic_class, question.token, now_);
    }

    ClassWays ways_;
    base::SeededRandom random_{1};
    TimePoint now_{seconds(1000)};
    std::optional<ClassWay> first_open_ = ClassWay::Own;
    bool sends_ = true;
    size_t questions_ = 0;
    std::vector<ClassWay> asked_;
};

TEST_F(ClassWaysTest, WhatArrivesIsNotAskedFor) {
    run(seconds(60));
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kTimes), base::kNever);
}

TEST_F(ClassWaysTest, AClassWhoseMarkIsDroppedGoesWithoutIt) {
    first_open_ = ClassWay::Unmarked;
    run(kMended + milliseconds(20));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Unmarked);
    EXPECT_EQ(ways_.way(TrafficClass::LtLd), ClassWay::Own);
    questions_ = 0;
    run(seconds(60));
    EXPECT_EQ(questions_, 0U);
}

TEST_F(ClassWaysTest, AClassWhoseMappingIsDeadTakesADetour) {
    first_open_ = ClassWay::Detour;
    run(kMended + 4 * kTimes.answer_within + milliseconds(20));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Detour);
}

TEST_F(ClassWaysTest, ADetourIsKnownForSomeTimeAfterItsLastDatagram) {
    EXPECT_FALSE(ways_.has_taken_detour(kClass, seconds(30), now_));
    first_open_ = ClassWay::Detour;
    run(seconds(60));
    ASSERT_EQ(ways_.way(kClass), ClassWay::Detour);
    EXPECT_TRUE(ways_.has_taken_detour(kClass, seconds(1), now_));
    EXPECT_FALSE(ways_.has_taken_detour(TrafficClass::LtLd, seconds(60), now_));
    EXPECT_FALSE(ways_.has_taken_detour(kClass, seconds(30), now_ + seconds(31)));
}

TEST_F(ClassWaysTest, AClassThatSendsNothingIsNotAsked) {
    for (int i = 0; i < 100; ++i) {
        ways_.on_sent(TrafficClass::LtLd, now_);
        ways_.on_confirmed(TrafficClass::LtLd, now_, now_);
        now_ += milliseconds(100);
        EXPECT_TRUE(round().empty());
    }
}

// However long it takes: the round trip may be longer than the time after which is asked, and an
// acknowledgement may come late.
TEST_F(ClassWaysTest, WhatLeftBeforeTellsNothingOfTheClass) {
    ways_.on_sent(kClass, now_);
    ways_.on_arrived(now_);
    ways_.on_arrived(now_ + kTimes.reordering);
    now_ += 100 * kTimes.ask_after;
    EXPECT_TRUE(round().empty()) << "it may have overtaken";
    ways_.on_arrived(now_);
    EXPECT_EQ(round().size(), 1U);
}

TEST_F(ClassWaysTest, AClassOfWhichSomethingIsNamedNowAndThenIsNotAsked) {
    ways_.on_sent(kClass, now_);
    for (int i = 0; i < 100; ++i) {
        ways_.on_arrived(now_ += kTimes.ask_after - milliseconds(1));
        // It stood in a queue: what is awaited left later.
        ways_.on_confirmed(kClass, TimePoint{seconds(999)}, now_);
        ways_.on_time(kTimes, random_, now_);
        EXPECT_FALSE(ways_.next_question(now_));
    }
    ways_.on_time(kTimes, random_, now_ += kTimes.ask_after);
    EXPECT_TRUE(ways_.next_question(now_));
}

TEST_F(ClassWaysTest, WhileNothingElseArrivesNothingIsAsked) {
    for (int i = 0; i < 100; ++i) {
        ways_.on_sent(kClass, now_);
        ways_.on_sent(TrafficClass::LtLd, now_);
        now_ += milliseconds(100);
        EXPECT_TRUE(round().empty());
    }
}

TEST_F(ClassWaysTest, WhatIsForgottenIsNotMissed) {
    ways_.on_sent(kClass, now_);
    ways_.forget_sent();
    ways_.on_arrived(now_ += kTimes.ask_after);
    EXPECT_TRUE(round().empty());
}

TEST_F(ClassWaysTest, TheOwnWayIsAskedAloneFirst) {
    lose_one();
    const auto first = round();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].way, ClassWay::Own);
    EXPECT_TRUE(answer(first[0]));
    EXPECT_TRUE(round().empty());
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
}

// A way is dead when another was answered so often beside it.
TEST_F(ClassWaysTest, OneAnswerOfTheOwnWayOutweighsAllOfAnother) {
    lose_one();
    std::vector<ClassWays::Question> own = round();
    for (uint32_t i = 1; i < kProofs; ++i) {
        const auto both = round();
        ASSERT_EQ(both.size(), 2U);
        own.push_back(both[0]);
        EXPECT_TRUE(answer(both[1]));
        EXPECT_TRUE(answer(both[1])) << "a second time counts nothing";
        EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
    }
    const auto last = round();
    ASSERT_EQ(last.size(), 2U);
    EXPECT_TRUE(answer(own[3]));
    EXPECT_TRUE(answer(last[1]));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
    EXPECT_TRUE(round().empty());
}

TEST_F(ClassWaysTest, TheDetourIsAskedForOnlyWhereNothingIsAnswered) {
    lose_one();
    round();
    for (uint32_t i = 1; i < kMostRounds; ++i) {
        const auto both = round();
        EXPECT_EQ(both.size(), 2U) << i;
        if (i == 1) {
            EXPECT_TRUE(answer(both[1]));
        }
    }
    EXPECT_TRUE(round().empty());
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own) << "too few answers";
}

TEST_F(ClassWaysTest, AWayThatWasAnsweredOnceIsNotDead) {
    lose_one();
    round();
    std::optional<ClassWays::Question> unmarked;
    uint32_t detours = 0;
    while (detours < kProofs) {
        const auto all = round();
        ASSERT_GE(all.size(), 2U);
        unmarked = unmarked ? unmarked : all[1];
        if (all.size() == kClassWays) {
            if (++detours == kProofs) {
                EXPECT_TRUE(answer(*unmarked));
            }
            EXPECT_TRUE(answer(all[2]));
        }
    }
    EXPECT_EQ(ways_.way(kClass), ClassWay::Unmarked);
}

TEST_F(ClassWaysTest, TheOwnWayIsTriedAgainAndTakenBack) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    ASSERT_EQ(ways_.way(kClass), ClassWay::Unmarked);
    asked_.clear();
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClass), ClassWay::Unmarked);  // what works goes on meanwhile
    EXPECT_FALSE(asked_.empty());
    first_open_ = ClassWay::Own;
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
}

TEST_F(ClassWaysTest, AnIdleClassAsksNothing) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    sends_ = false;
    questions_ = 0;
    run(2 * kOwnWayAgainAfter);
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kTimes), base::kNever);
}

TEST_F(ClassWaysTest, AWayThatEndsIsFollowedByTheNext) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(10));
    first_open_ = ClassWay::Detour;
    run(kMended + 5 * kTimes.answer_within + milliseconds(100));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Detour);
}

TEST_F(ClassWaysTest, WhereNoWayLeadsItIsAskedEverMoreSeldom) {
    first_open_.reset();
    run(seconds(60));
    const size_t of_first_minute = std::exchange(questions_, 0);
    run(seconds(120));
    EXPECT_LT(questions_, of_first_minute);
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
}

// It stood in a queue.
TEST_F(ClassWaysTest, AnAnswerOfABetterWayCountsAtAnyTime) {
    lose_one();
    const auto own = round();
    ASSERT_EQ(own.size(), 1U);
    first_open_ = ClassWay::Unmarked;
    run(seconds(5));
    ASSERT_EQ(ways_.way(kClass), ClassWay::Unmarked);
    EXPECT_FALSE(ways_.on_response(TrafficClass::LtHd, own[0].token, now_));
    EXPECT_TRUE(answer(own[0]));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Own);
}

TEST_F(ClassWaysTest, AnAnswerOfARoundThatNeverLeftIsNone) {
    lose_one();
    auto own = round();
    ASSERT_EQ(own.size(), 1U);
    own[0].token.back() ^= 1;  // the next round
    EXPECT_FALSE(answer(own[0]));
    own[0].token.back() ^= 1;
    own[0].token.front() ^= 1;
    EXPECT_FALSE(answer(own[0]));
}

// It names what left before the mark was dropped, or shows that nothing is.
TEST_F(ClassWaysTest, AnAcknowledgementEndsTheQuestion) {
    lose_one();
    ASSERT_EQ(round().size(), 1U);
    ways_.on_confirmed(kClass, TimePoint{seconds(999)}, now_);
    EXPECT_TRUE(round().empty());
    ways_.on_arrived(now_);
    now_ += kTimes.ask_after;
    EXPECT_EQ(round().size(), 1U) << "the next one is asked as soon";
}

// A user who names one number late in each question gets no more of them.
TEST_F(ClassWaysTest, AnAcknowledgementThatEndsALongQuestionIsFollowedByAPause) {
    lose_one();
    for (int i = 0; i < 3; ++i) {
        EXPECT_FALSE(round().empty());
    }
    ways_.on_confirmed(kClass, TimePoint{seconds(999)}, now_);
    EXPECT_TRUE(round().empty());
    ways_.on_arrived(now_);
    now_ += kTimes.ask_after;
    EXPECT_TRUE(round().empty());
    now_ += kFirstQuiet;
    EXPECT_EQ(round().size(), 1U);
}

// By its number on another path, where it was sent again.
TEST_F(ClassWaysTest, WhatIsConfirmedOfOneClassTellsNothingOfAnother) {
    ways_.on_sent(kClass, now_);
    now_ += kTimes.ask_after;
    ways_.on_confirmed(TrafficClass::LtLd, now_, now_);
    EXPECT_TRUE(round().empty());
    ways_.on_arrived(now_);
    EXPECT_EQ(round().size(), 1U);
}

TEST_F(ClassWaysTest, AnAnswerEndsADoubtThatBeganMeanwhile) {
    ways_.on_unmarked_answered(now_);
    now_ += kTimes.ask_after;
    const auto first = round();
    ASSERT_EQ(first.size(), 1U);
    ways_.on_unmarked_answered(now_);
    EXPECT_TRUE(answer(first[0]));
    ways_.on_sent(TrafficClass::LtLd, now_);
    now_ += kLongestQuiet;
    EXPECT_TRUE(round().empty()) << "nothing that left later has arrived";
}

TEST_F(ClassWaysTest, AnAcknowledgementOfTheFormerWayProvesNothingOfTheOneInUse) {
    const TimePoint before = now_;
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    ASSERT_EQ(ways_.way(kClass), ClassWay::Unmarked);
    first_open_.reset();
    lose_one();
    ways_.on_confirmed(kClass, before, now_);
    now_ += kFirstQuiet;
    EXPECT_EQ(round().size(), 1U);
}

TEST_F(ClassWaysTest, WhereNothingElseArrivesAnyMoreOneQuestionIsTheLast) {
    lose_one();
    first_open_.reset();
    sends_ = false;
    run(seconds(2));
    EXPECT_GT(std::exchange(questions_, 0), 0U);
    run(seconds(600));
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kTimes), base::kNever);
}

TEST_F(ClassWaysTest, AfterLossAMarkThatIsDroppedIsNoticedAsSoon) {
    for (int i = 0; i < 30; ++i) {
        first_open_.reset();
        run(kTimes.ask_after + milliseconds(20));
        first_open_ = ClassWay::Own;
        run(kFirstQuiet);
    }
    ASSERT_GT(questions_, 0U);
    ASSERT_EQ(ways_.way(kClass), ClassWay::Own);
    first_open_ = ClassWay::Unmarked;
    run(kFirstQuiet + kMended + milliseconds(20));
    EXPECT_EQ(ways_.way(kClass), ClassWay::Unmarked);
}

// The first sending had the mark, and the one that was answered had not.
TEST_F(ClassWaysTest, LtLdIsAskedWhenAChallengeIsAnsweredOnlyWithoutItsMark) {
    ways_.on_unmarked_answered(now_);
    EXPECT_TRUE(round().empty());
    now_ += kTimes.ask_after;
    const auto first = round();
    ASSERT_EQ(first.size(), 1U);
    EXPECT_EQ(first[0].traffic_class, TrafficClass::LtLd);
    for (uint32_t i = 1; i < kMostRounds; ++i) {
        EXPECT_EQ(round().size(), 2U) << "it has no detour";
    }
}

TEST_F(ClassWaysTest, LtLdThatIsConfirmedMeanwhileIsNotAsked) {
    ways_.on_unmarked_answered(now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_, now_);
    now_ += kTimes.ask_after;
    EXPECT_TRUE(round().empty());
}

}  // namespace
}  // namespace continuo::path
