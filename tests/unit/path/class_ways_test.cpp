#include "common/path/class_ways.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

constexpr ClassWays::Times kQuestionTimes{milliseconds(500), milliseconds(300)};
constexpr TrafficClass kClassInQuestion = TrafficClass::HtHd;

// A path on which lt-ld always arrives, and bulk by the ways from `first_open` on.
class ClassWaysTest : public ::testing::Test {
  protected:
    // Both classes send each 100 ms.
    void run(Duration span) {
        for (const TimePoint end = now_ + span; now_ < end; now_ += milliseconds(10)) {
            ways_.on_time(kQuestionTimes, random_, now_);
            while (const auto question = ways_.next_question(now_)) {
                ++questions_;
                asked_ = question->way;
                if (is_open(question->way)) {
                    ways_.on_response(question->traffic_class, question->token, now_);
                }
            }
            if (sends_ && base::to_ms(now_.time_since_epoch()) % 100 == 0) {
                ways_.on_sent(TrafficClass::LtLd, 1, now_);
                ways_.on_confirmed(TrafficClass::LtLd, 0, now_);
                ways_.on_sent(kClassInQuestion, 1, now_);
                if (is_open(ways_.way(kClassInQuestion))) {
                    ways_.on_confirmed(kClassInQuestion, 0, now_);
                }
            }
        }
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
    questions_ = 0;
    run(seconds(60));
    EXPECT_EQ(questions_, 0U);
}

TEST_F(ClassWaysTest, AClassWhoseMappingIsDeadTakesADetour) {
    first_open_ = ClassWay::Detour;
    run(kQuestionTimes.ask_after + 2 * kQuestionTimes.answer_within + milliseconds(100));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Detour);
    EXPECT_EQ(ways_.left_own_way_at(kClassInQuestion), now_ - milliseconds(100));
}

TEST_F(ClassWaysTest, WhileNothingElseArrivesNothingIsAsked) {
    first_open_.reset();
    for (int i = 0; i < 100; ++i) {
        ways_.on_sent(kClassInQuestion, 1, now_);
        ways_.on_sent(TrafficClass::LtLd, 1, now_);
        ways_.on_time(kQuestionTimes, random_, now_ += milliseconds(100));
    }
    EXPECT_FALSE(ways_.next_question(now_));
}

TEST_F(ClassWaysTest, TheOwnWayIsTriedAgainAndTakenBack) {
    first_open_ = ClassWay::Unmarked;
    run(seconds(2));
    ASSERT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Unmarked);  // what works goes on meanwhile
    EXPECT_EQ(asked_, ClassWay::Own);
    first_open_ = ClassWay::Own;
    run(kOwnWayAgainAfter);
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
    EXPECT_EQ(ways_.left_own_way_at(kClassInQuestion), base::kNever);
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
    ways_.on_sent(kClassInQuestion, 1, now_);
    ways_.on_confirmed(TrafficClass::LtLd, 0, now_ += milliseconds(10));
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    const auto own = ways_.next_question(now_);
    ASSERT_TRUE(own);
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.answer_within);
    const auto unmarked = ways_.next_question(now_);
    ASSERT_TRUE(unmarked);
    EXPECT_EQ(unmarked->way, ClassWay::Unmarked);
    EXPECT_FALSE(ways_.on_response(TrafficClass::LtHd, own->token, now_));
    EXPECT_TRUE(ways_.on_response(kClassInQuestion, own->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
    EXPECT_FALSE(ways_.on_response(kClassInQuestion, unmarked->token, now_));
}

TEST_F(ClassWaysTest, AnAcknowledgementEndsTheQuestion) {
    ways_.on_sent(kClassInQuestion, 2, now_);
    ways_.on_confirmed(TrafficClass::LtLd, 0, now_ += milliseconds(10));
    ways_.on_time(kQuestionTimes, random_, now_ += kQuestionTimes.ask_after);
    const auto question = ways_.next_question(now_);
    ASSERT_TRUE(question);
    ways_.on_confirmed(kClassInQuestion, 1, now_);
    EXPECT_FALSE(ways_.on_response(kClassInQuestion, question->token, now_));
    EXPECT_EQ(ways_.way(kClassInQuestion), ClassWay::Own);
}

}  // namespace
}  // namespace continuo::path
