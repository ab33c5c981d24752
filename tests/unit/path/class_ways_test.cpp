#include "common/path/class_ways.hpp"

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

constexpr ClassWays::Times kQuestionTimes{milliseconds(500), milliseconds(300), milliseconds(40)};
constexpr TrafficClass kClassInQuestion = TrafficClass::HtHd;

// A path on which lt-ld always arrives, and bulk by the ways from `first_open` on.
class ClassWaysTest : public ::testing::Test {
  protected:
    // Both classes send each 100 ms.
    void run(Duration span) {
        for (const TimePoint end = now_ + span; now_ < end; now_ += milliseconds(10)) {
            ways_.on_time(kQuestionTimes, random_, now_);
            while (const auto question = ways_.next_question(kQuestionTimes, now_)) {
                ++questions_;
                asked_ = question->way;
                if (is_open(question->way)) {
                    ways_.on_response(question->traffic_class, question->token, now_);
                }
            }
            if (sends_ && base::to_ms(now_.time_since_epoch()) % 100 == 0) {
                ways_.on_sent(TrafficClass::LtLd, now_);
                ways_.on_confirmed(TrafficClass::LtLd, now_, base::kNever);
                ways_.on_sent(kClassInQuestion, now_);
                if (is_open(ways_.way(kClassInQuestion))) {
                    ways_.on_confirmed(kClassInQuestion, now_, base::kNever);
                }
            }
        }
    }
    std::optional<ClassWays::Question> question_of(ClassWay way) {
        auto question = ways_.next_question(kQuestionTimes, now_);
        while (question && question->way != way) {
            question = ways_.next_question(kQuestionTimes, now_);
        }
        return question;
    }
    bool is_open(ClassWay way) const { return first_open_ && way >= *first_open_; }

    ClassWays ways_;
    base::SeededRandom random_{1};
    TimePoint now_{seconds(1000)};
    std::optional<ClassWay> first_open_ = ClassWay::Own;
    bool sends_ = true;
    size_t questions_ = 0;
    std::optional<ClassWay> asked_;
};

TEST_F(ClassWaysTest, WhatArrivesIsNotAskedFor) {
    run(seconds(60));
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kQuestionTimes), base::kNever);
}

TEST_F(ClassWaysTest, AClassWhoseMarkIsDroppedGoesWithoutIt) {
    first_open_ = ClassWay::Unmarked;
    run(kQuestionTimes.ask_after + kQuestionTimes.answer_within + milliseconds(100));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    EXPECT_EQ(ways_.way(TrafficClass::LtLd), ClassWay::Own);
    run(kQuestionTimes.answer_within);  // the mark is asked for once more
    questions_ = 0;
    run(seconds(60));
    EXPECT_EQ(questions_, 0U);
}

TEST_F(ClassWaysTest, AClassWhoseMappingIsDeadTakesADetour) {
    first_open_ = ClassWay::Detour;
    run(kQuestionTimes.ask_after + 2 * kQuestionTimes.answer_within + milliseconds(100));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Detour);
}

TEST_F(ClassWaysTest, ADetourIsKnownForSomeTimeAfterItsLastDatagram) {
    EXPECT_FALSE(ways_.has_taken_detour(kClassInQuestion, seconds(30), now_));
    first_open_ = ClassWay::Detour;
    run(seconds(60));
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Detour);
    EXPECT_TRUE(ways_.has_taken_detour(kClassInQuestion, seconds(1), now_));
    EXPECT_FALSE(ways_.has_taken_detour(TrafficClass::LtLd, seconds(60), now_));
    EXPECT_FALSE(ways_.has_taken_detour(kClassInQuestion, seconds(30), now_ + seconds(31)));
}

TEST_F(ClassWaysTest, AClassThatSendsNothingIsNotAsked) {
    for (int i = 0; i < 100; ++i) {
        ways_.on_sent(TrafficClass::LtLd, now_);
        ways_.on_confirmed(TrafficClass::LtLd, now_, base::kNever);
        ways_.on_answered(TrafficClass::LtLd, now_);
        ways_.on_time(kQuestionTimes, random_, now_ += milliseconds(100));
        EXPECT_FALSE(ways_.next_question(kQuestionTimes, now_));
    }
}

// The round trip may be longer than the time after which is asked.
TEST_F(ClassWaysTest, WhatLeftBeforeAndArrivedTellsNothingOfTheClass) {
    ways_.on_sent(TrafficClass::LtLd, now_);
    const TimePoint left_at = now_;
    ways_.on_sent(kClassInQuestion, now_ += milliseconds(1));
    now_ += 4 * kQuestionTimes.ask_after;
    ways_.on_confirmed(TrafficClass::LtLd, left_at, base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_);
    EXPECT_FALSE(ways_.next_question(kQuestionTimes, now_));
    ways_.on_answered(TrafficClass::LtLd, left_at + milliseconds(1));
    ways_.on_time(kQuestionTimes, random_, now_);
    EXPECT_FALSE(ways_.next_question(kQuestionTimes, now_));
    ways_.on_answered(TrafficClass::LtLd, left_at + milliseconds(2));
    ways_.on_time(kQuestionTimes, random_, now_);
    EXPECT_TRUE(ways_.next_question(kQuestionTimes, now_));
}

// An acknowledgement says when the silence began, even if it comes late.
TEST_F(ClassWaysTest, TheSilenceBeganWhenTheOldestUnconfirmedOneLeft) {
    const TimePoint first_at = now_;
    ways_.on_sent(kClassInQuestion, now_);
    const TimePoint rest_since = now_ += milliseconds(20);
    ways_.on_sent(kClassInQuestion, now_);
    now_ = rest_since + kQuestionTimes.ask_after - milliseconds(1);
    ways_.on_confirmed(kClassInQuestion, first_at, rest_since);
    ways_.on_confirmed(TrafficClass::LtLd, now_, base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_);
    EXPECT_FALSE(ways_.next_question(kQuestionTimes, now_));
    ways_.on_time(kQuestionTimes, random_, now_ += milliseconds(1));
    EXPECT_TRUE(ways_.next_question(kQuestionTimes, now_));
}

TEST_F(ClassWaysTest, WhileNothingElseArrivesNothingIsAsked) {
    first_open_.reset();
    for (int i = 0; i < 100; ++i) {
        ways_.on_sent(kClassInQuestion, now_);
        ways_.on_sent(TrafficClass::LtLd, now_);
        ways_.on_time(kQuestionTimes, random_, now_ += milliseconds(100));
    }
    EXPECT_FALSE(ways_.next_question(kQuestionTimes, now_));
}

TEST_F(ClassWaysTest, TheOwnWayIsTriedAgainAndTakenBack) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    asked_.reset();
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);  // what works goes on meanwhile
    EXPECT_EQ(asked_, ClassWay::Own);
    first_open_ = ClassWay::Own;
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

TEST_F(ClassWaysTest, AnIdleClassAsksNothing) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    sends_ = false;
    questions_ = 0;
    run(2 * kOwnWayAgainAfter);
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kQuestionTimes), base::kNever);
}

TEST_F(ClassWaysTest, AWayThatEndsIsFollowedByTheNext) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    first_open_ = ClassWay::Detour;
    run(kFirstQuiet + seconds(2));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Detour);
}

TEST_F(ClassWaysTest, WhereNoWayLeadsItIsAskedEverMoreSeldom) {
    first_open_.reset();
    run(seconds(60));
    const size_t of_first_minute = std::exchange(questions_, 0);
    run(seconds(60));
    EXPECT_LT(questions_, of_first_minute / 2);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

TEST_F(ClassWaysTest, ALateAnswerOfABetterWayCounts) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    const auto own = question_of(ClassWay::Own);
    ASSERT_TRUE(own);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.answer_within);
    const auto unmarked = question_of(ClassWay::Unmarked);
    ASSERT_TRUE(unmarked);
    EXPECT_FALSE(ways_.on_response(TrafficClass::LtHd, own->token, now_));
    EXPECT_TRUE(ways_.on_response(kClassInQuestion, own->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
    EXPECT_FALSE(ways_.on_response(kClassInQuestion, unmarked->token, now_));
}

// Its answer was lost while that of a worse one came.
TEST_F(ClassWaysTest, ABetterWayThatIsAnsweredAfterAWorseOneIsTakenBack) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.answer_within);
    const auto unmarked = question_of(ClassWay::Unmarked);
    ASSERT_TRUE(unmarked);
    ASSERT_TRUE(ways_.on_response(kClassInQuestion, unmarked->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    const auto own = ways_.next_question(kQuestionTimes, now_);
    ASSERT_TRUE(own);
    EXPECT_EQ(own->way, ClassWay::Own);
    ways_.on_confirmed(kClassInQuestion, now_, base::kNever);  // of what goes unmarked
    EXPECT_TRUE(ways_.on_response(kClassInQuestion, own->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

// It stood in a queue.
TEST_F(ClassWaysTest, AnAnswerOfABetterWayCountsAtAnyTime) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    const auto own = question_of(ClassWay::Own);
    ASSERT_TRUE(own);
    first_open_ = ClassWay::Unmarked;
    run(seconds(5));
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    EXPECT_TRUE(ways_.on_response(kClassInQuestion, own->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

// An ACK names numbers, also that of the question.
TEST_F(ClassWaysTest, AnAcknowledgementOfAnotherWayLeavesTheQuestionOpen) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.answer_within);
    const auto unmarked = question_of(ClassWay::Unmarked);
    ASSERT_TRUE(unmarked);
    ways_.on_confirmed(kClassInQuestion, now_ += milliseconds(20), base::kNever);
    EXPECT_TRUE(ways_.on_response(kClassInQuestion, unmarked->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
}

TEST_F(ClassWaysTest, WhereNothingArrivesAnyMoreTheOwnWayIsNotTriedAgain) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    sends_ = false;
    questions_ = 0;
    for (int minutes = 0; minutes < 60; ++minutes) {
        ways_.on_sent(kClassInQuestion, now_);
        run(seconds(60));
    }
    // The class was confirmed since it was asked last, so that one trial is due.
    EXPECT_LE(questions_, 10U);
}

// Each sending of a question, so that all ways are asked on the path as it is then.
TEST_F(ClassWaysTest, AWayIsAskedForTogetherWithAllBetterOnes) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    std::vector<ClassWay> asked;
    for (size_t i = 0; i < kClassWays; ++i) {
        asked.clear();
        while (const auto question = ways_.next_question(kQuestionTimes, now_)) {
            asked.push_back(question->way);
        }
        ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.answer_within);
    }
    EXPECT_EQ(asked, (std::vector{ClassWay::Own, ClassWay::Unmarked, ClassWay::Detour}));
}

TEST_F(ClassWaysTest, WhereNothingElseArrivesAnyMoreOneQuestionIsTheLast) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    first_open_.reset();
    sends_ = false;
    run(kQuestionTimes.ask_after + 3 * kQuestionTimes.answer_within + milliseconds(100));
    EXPECT_GT(std::exchange(questions_, 0), 0U);
    run(seconds(600));
    EXPECT_EQ(questions_, 0U);
    EXPECT_EQ(ways_.deadline(kQuestionTimes), base::kNever);
}

TEST_F(ClassWaysTest, AfterLossAMarkThatIsDroppedIsNoticedAsSoon) {
    for (int i = 0; i < 30; ++i) {
        first_open_.reset();
        run(kQuestionTimes.ask_after + milliseconds(200));
        first_open_ = ClassWay::Own;
        run(kFirstQuiet);
    }
    ASSERT_GT(questions_, 0U);
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
    first_open_ = ClassWay::Unmarked;
    run(kFirstQuiet + kQuestionTimes.ask_after + 2 * kQuestionTimes.answer_within);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
}

// It named what had left before the mark was dropped.
TEST_F(ClassWaysTest, AfterAQuestionThatAnAcknowledgementEndedTheNextOneIsAskedAsSoon) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    ASSERT_TRUE(ways_.next_question(kQuestionTimes, now_));
    ways_.on_confirmed(kClassInQuestion, now_, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    EXPECT_TRUE(ways_.next_question(kQuestionTimes, now_));
}

TEST_F(ClassWaysTest, AnAcknowledgementEndsTheQuestion) {
    ways_.on_sent(kClassInQuestion, now_);
    ways_.on_confirmed(TrafficClass::LtLd, now_ += milliseconds(10), base::kNever);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    const auto question = ways_.next_question(kQuestionTimes, now_);
    ASSERT_TRUE(question);
    ways_.on_confirmed(kClassInQuestion, now_, now_);
    EXPECT_FALSE(ways_.on_response(kClassInQuestion, question->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

}  // namespace
}  // namespace continuo::path
