#include "common/path/validation.hpp"

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

struct Question {
    base::SeededRandom random{1};
    TimePoint now{seconds(100)};
    Validation validation;

    Question() { validation.start(random, now); }
    wire::Challenge repeat(base::Duration later) {
        now += later;
        EXPECT_TRUE(validation.repeat(now));
        return validation.stamp(now);
    }
};

TEST(Validation, EachSendingTellsItsOwnRoundTrip) {
    Question asked;
    asked.repeat({});
    const wire::Challenge second = asked.repeat(milliseconds(40));
    const auto answer = asked.validation.on_response(second.token, asked.now + milliseconds(5));
    ASSERT_TRUE(answer);
    EXPECT_TRUE(answer->is_exact);
    EXPECT_EQ(answer->round_trip, milliseconds(5));
    EXPECT_TRUE(asked.validation.is_proven());
    EXPECT_FALSE(asked.validation.is_asked());
    EXPECT_EQ(asked.validation.deadline(), base::kNever);
}

TEST(Validation, AnAnswerToAnEarlierRepetitionTellsABound) {
    Question asked;
    asked.repeat({});
    const wire::Challenge second = asked.repeat(milliseconds(40));
    asked.repeat(milliseconds(80));
    const auto answer = asked.validation.on_response(second.token, asked.now);
    ASSERT_TRUE(answer);
    EXPECT_FALSE(answer->is_exact) << "it left 80 ms ago, which is not kept";
    EXPECT_EQ(answer->round_trip, milliseconds(120));
}

TEST(Validation, OnlyItsOwnTokenAndWhatWasSentAnswer) {
    Question asked;
    wire::Challenge first = asked.repeat({});
    wire::Challenge later = first;
    later.token.back() ^= 1;  // a sending that has not left
    EXPECT_FALSE(asked.validation.on_response(later.token, asked.now));
    first.token.front() ^= 1;
    EXPECT_FALSE(asked.validation.on_response(first.token, asked.now));
    EXPECT_FALSE(asked.validation.is_proven());
    first.token.front() ^= 1;
    EXPECT_TRUE(asked.validation.on_response(first.token, asked.now));
    EXPECT_FALSE(asked.validation.on_response(first.token, asked.now)) << "that was answered";
}

TEST(Validation, RepetitionsDoubleAndEnd) {
    Question asked;
    const TimePoint from = asked.now;
    size_t sent = 0;
    for (asked.now = asked.validation.deadline(); asked.validation.repeat(asked.now);
         asked.now = asked.validation.deadline()) {
        ++sent;
        ASSERT_LE(asked.validation.deadline() - asked.now, kLongestProbeInterval);
    }
    EXPECT_FALSE(asked.validation.is_asked());
    EXPECT_GT(asked.now - from, kChallengeLifetime);
    EXPECT_LE(sent, 36U) << "5 until the interval is a second, then one a second";
}

TEST(Validation, AnUnprovenAddressIsSentThreeTimesWhatItSent) {
    Question asked;
    Validation& validation = asked.validation;
    EXPECT_FALSE(validation.may_send(1));
    validation.on_received(1000, asked.now);
    EXPECT_TRUE(validation.may_send(3000));
    EXPECT_FALSE(validation.may_send(3001));
    EXPECT_EQ(validation.room_for_data(), 3000 - Validation::kChallengeRoomBytes);
    validation.on_sent(2900);
    EXPECT_EQ(validation.room_for_data(), 0U) << "the rest is for the challenge";
    EXPECT_TRUE(validation.may_send(100));
    validation.trust();
    EXPECT_TRUE(validation.may_send(1'000'000));
    EXPECT_EQ(validation.room_for_data(), UINT64_MAX);
}

TEST(Validation, AWithheldChallengeLeavesWhenMoreComes) {
    Question asked;
    asked.repeat({});
    asked.repeat(milliseconds(40));
    asked.validation.withhold();
    asked.now += milliseconds(10);
    ASSERT_GT(asked.validation.deadline(), asked.now);
    asked.validation.on_received(100, asked.now);
    EXPECT_EQ(asked.validation.deadline(), asked.now);
    EXPECT_FALSE(asked.validation.is_withheld());
}

TEST(Validation, AskedOnceItDoesNotRepeatItself) {
    Question asked;
    asked.validation.ask_once(asked.now);
    asked.repeat({});
    EXPECT_GT(asked.validation.deadline() - asked.now, kChallengeLifetime);
    asked.validation.leave_to_announcements();
    EXPECT_EQ(asked.validation.deadline(), base::kNever);
    EXPECT_TRUE(asked.validation.is_asked());
}

}  // namespace
}  // namespace continuo::path
