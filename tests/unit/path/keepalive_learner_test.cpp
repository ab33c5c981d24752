#include "common/path/keepalive_learner.hpp"

#include <gtest/gtest.h>

namespace continuo::path {
namespace {

using base::Duration;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr Duration kLongest = seconds(25);
constexpr Duration kPatience = milliseconds(500);

struct Learned : testing::Test {
    Duration interval() const { return learner.interval(kLongest); }
    // SNAPT asks after an idle time; packets follow after `delay`.
    void be_asked(Duration idle, Duration delay) {
        now += idle;
        learner.on_request(idle, kPatience, now);
        now += delay;
        learner.on_packets({}, kLongest, now);
    }
    // A keepalive leaves after an idle time; SNAPT's CHALLENGE comes `delay` later.
    void be_remapped(Duration idle, Duration delay) {
        now += idle;
        learner.on_keepalive(idle, kPatience, now);
        now += delay;
        learner.on_remapped(kLongest, now);
    }

    KeepaliveLearner learner;
    TimePoint now{seconds(1000)};
};

TEST_F(Learned, TheSecondLossAfterAnIdleTimeShortensTheInterval) {
    be_asked(seconds(20), milliseconds(50));
    EXPECT_EQ(interval(), kLongest) << "one loss may be chance";
    be_asked(seconds(10), milliseconds(50));
    EXPECT_EQ(interval(), seconds(5));
    be_asked(seconds(4), milliseconds(50));
    EXPECT_EQ(interval(), seconds(2)) << "known to forget";
}

TEST_F(Learned, AfterALongTimeWithoutALossTheIntervalIsDoubled) {
    be_asked(seconds(8), milliseconds(50));
    be_asked(seconds(4), milliseconds(50));
    ASSERT_EQ(interval(), seconds(2));
    now += seconds(599);
    learner.try_longer(kLongest, now);
    EXPECT_EQ(interval(), seconds(2));
    now += seconds(2);
    learner.try_longer(kLongest, now);
    EXPECT_EQ(interval(), seconds(4));
    for (int round = 0; round < 100; ++round) {
        now += seconds(601);
        learner.try_longer(kLongest, now);
        ASSERT_GE(interval(), seconds(4));
    }
    EXPECT_EQ(interval(), kLongest);
}

TEST_F(Learned, AMappingThatOutlivesAsLongATimeDisprovesALoss) {
    be_asked(seconds(10), milliseconds(50));
    now += seconds(5);
    learner.on_packets(seconds(12), kLongest, now);
    be_asked(seconds(10), milliseconds(50));
    EXPECT_EQ(interval(), kLongest);
    now += seconds(5);
    learner.on_packets(seconds(5), kLongest, now);
    be_asked(seconds(8), milliseconds(50));
    EXPECT_EQ(interval(), seconds(4)) << "a shorter time proves nothing";
}

TEST_F(Learned, ItIsAtLeastASecond) {
    for (int i = 0; i < 5; ++i) {
        be_asked(milliseconds(1200), milliseconds(50));
    }
    EXPECT_EQ(interval(), KeepaliveLearner::kShortest);
}

TEST_F(Learned, WhatFollowsTooLateOrAfterASleepTeachesNothing) {
    for (int i = 0; i < 3; ++i) {
        be_asked(seconds(10), seconds(3));
        be_remapped(seconds(20), seconds(5));
        now += seconds(10);
        learner.on_request(seconds(10), kPatience, now);
        learner.on_keepalive(seconds(10), kPatience, now);
        learner.on_pause();
        learner.on_packets({}, kLongest, now);
        learner.on_remapped(kLongest, now);
    }
    EXPECT_EQ(interval(), kLongest);
}

// SNAPT gets such a keepalive from another port, and asks for nothing over control: it was heard.
TEST_F(Learned, AKeepaliveThatFindsTheMappingGoneShortensTheInterval) {
    be_remapped(seconds(20), milliseconds(50));
    EXPECT_EQ(interval(), kLongest) << "one may be chance";
    be_remapped(seconds(25), milliseconds(50));
    EXPECT_EQ(interval(), seconds(10));
    be_remapped(seconds(10), milliseconds(50));
    EXPECT_EQ(interval(), seconds(5)) << "known to forget";
}

TEST_F(Learned, AShortIdleTimeIsNotBlamed) {
    for (int round = 0; round < 3; ++round) {
        be_remapped(milliseconds(900), milliseconds(50));
        be_asked(milliseconds(900), milliseconds(50));
    }
    EXPECT_EQ(interval(), kLongest);
}

}  // namespace
}  // namespace continuo::path
