#include "common/path/announcer.hpp"
#include "common/path/tuple.hpp"
#include "common/recovery/liveness.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

const base::Endpoint kRemote = *base::Endpoint::parse("192.0.2.2:40000");
const base::Endpoint kLocal = *base::Endpoint::parse("203.0.113.9:9347");

struct Asked {
    base::SeededRandom random{1};
    TimePoint now{seconds(10)};
    OpenChallenge challenge;

    Asked() { challenge.start(random, now); }
    // When the sendings of the next `span` leave.
    std::vector<base::Duration> leave(base::Duration span) {
        std::vector<base::Duration> sendings;
        const TimePoint began = now;
        for (; now < began + span; now += milliseconds(10)) {
            if (challenge.take_due(now)) {
                sendings.push_back(now - began);
            }
        }
        return sendings;
    }
};

TEST(OpenChallenge, RepeatsEverLessOftenUntilItIsGivenUp) {
    Asked asked;
    const auto first = asked.leave(seconds(1));
    EXPECT_EQ(first,
              (std::vector<base::Duration>{milliseconds(0), milliseconds(40), milliseconds(120),
                                           milliseconds(280), milliseconds(600)}));
    asked.leave(seconds(28));
    EXPECT_TRUE(asked.challenge.is_open());
    asked.leave(seconds(3));
    EXPECT_FALSE(asked.challenge.is_open());
    EXPECT_EQ(asked.challenge.due_at(), base::kNever);
}

TEST(OpenChallenge, AnAnswerBelongsToOneSending) {
    Asked asked;
    const auto first = asked.challenge.next_sending(asked.now);
    EXPECT_FALSE(asked.challenge.way());
    asked.now += milliseconds(40);
    const auto second = asked.challenge.next_sending(asked.now);
    EXPECT_EQ(asked.challenge.way(), ClassWay::Unmarked);
    asked.now += milliseconds(20);
    const auto of_first = asked.challenge.answer(first.token, asked.now);
    ASSERT_TRUE(of_first && of_first->is_sample);
    EXPECT_EQ(of_first->round_trip, milliseconds(60));
    EXPECT_FALSE(of_first->is_unmarked);
    const auto of_second = asked.challenge.answer(second.token, asked.now);
    ASSERT_TRUE(of_second && of_second->is_sample && of_second->is_unmarked);
    EXPECT_EQ(of_second->round_trip, milliseconds(20));
    wire::ChallengeToken never_sent = second.token;
    never_sent.back() ^= 3U;  // the third
    EXPECT_FALSE(asked.challenge.answer(never_sent, asked.now));
    asked.challenge.stop();
    EXPECT_FALSE(asked.challenge.answer(second.token, asked.now));
}

TEST(OpenChallenge, OneThatDidNotLeaveIsRepeatedOnce) {
    Asked asked;
    ASSERT_TRUE(asked.challenge.take_due(asked.now));
    asked.challenge.withhold();
    asked.challenge.resume(asked.now);
    EXPECT_TRUE(asked.challenge.take_due(asked.now));
    asked.challenge.resume(asked.now);
    EXPECT_FALSE(asked.challenge.take_due(asked.now)) << "it has left";
}

TEST(OpenChallenge, ARepetitionByHandHasNoFollower) {
    Asked asked;
    asked.challenge.repeat_once(asked.now);
    EXPECT_EQ(asked.leave(seconds(25)).size(), 1U);
    asked.challenge.repeat_once(asked.now);
    EXPECT_EQ(asked.leave(seconds(4)).size(), 1U) << "it lives on";
}

TEST(Tuple, AnUnprovenOneGetsThreeTimesWhatCame) {
    Tuple tuple = Tuple::of_node(kRemote, kLocal, true);
    EXPECT_EQ(tuple.budget_bytes(), 0U);
    tuple.on_received_unproven(1000);
    EXPECT_EQ(tuple.budget_bytes(), 3000 - kChallengeRoomBytes);
    tuple.on_sent(2900);
    EXPECT_EQ(tuple.budget_bytes(), 0U) << "the rest is for challenges";
    EXPECT_TRUE(tuple.may_take(100));
    EXPECT_FALSE(tuple.may_take(101));
    EXPECT_TRUE(tuple.prove()) << "a proven one was elsewhere";
    EXPECT_FALSE(tuple.prove());
    EXPECT_EQ(tuple.budget_bytes(), UINT64_MAX);
    EXPECT_TRUE(tuple.may_take(1'000'000));
}

TEST(Announcer, SendsSomeAtOnceAndThenEverLess) {
    const TimePoint began{seconds(100)};
    Announcer announcer;
    announcer.start(3, recovery::Liveness::kProbeInterval, began);
    for (int i = 0; i < 2; ++i) {
        announcer.on_sent(false, began, began);
        EXPECT_EQ(announcer.due_at(), began);
    }
    base::Duration longest{};
    for (TimePoint now = began; now < began + seconds(3600); now = announcer.due_at()) {
        announcer.on_sent(false, began, now);
        longest = std::max(longest, announcer.due_at() - now);
        EXPECT_LE(announcer.due_at() - now, now - began > seconds(31) ? seconds(300) : seconds(1));
    }
    EXPECT_EQ(longest, seconds(300));
    announcer.start(1, seconds(1), began);
    announcer.on_sent(true, TimePoint{}, began);
    announcer.on_sent(true, TimePoint{}, began + seconds(1));
    EXPECT_EQ(announcer.due_at(), began + seconds(26))
        << "the active one, as often as a mapping needs";
}

}  // namespace
}  // namespace continuo::path
