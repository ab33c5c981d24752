#include "cnapt/bypass/portal_watch.hpp"

#include <gtest/gtest.h>

namespace continuo::cnapt::bypass {
namespace {

using base::seconds;
using control::PortalAnswer;
using control::PortalVerdict;

constexpr uint8_t kWifi = 2;
constexpr UplinkHealth kGone{};
constexpr UplinkHealth kWorks{true, true, true};
constexpr UplinkHealth kSilent{true, false, false};
constexpr UplinkHealth kNeededSilent{true, false, true};
const PortalAnswer kPortal{PortalVerdict::Portal, "http://login.example/"};
const PortalAnswer kSnapt{PortalVerdict::Snapt, {}};
const PortalAnswer kStranger{PortalVerdict::Stranger, {}};
const PortalAnswer kNothing{};

class PortalWatchTest : public ::testing::Test {
  protected:
    // Seconds until the next question; -1: none within an hour.
    int until_next() {
        for (int s = 0; s <= 3600; ++s) {
            if (watch.next(now + seconds(s))) {
                now += seconds(s);
                return s;
            }
        }
        return -1;
    }

    PortalWatch watch;
    base::TimePoint now{seconds(100)};
};

TEST_F(PortalWatchTest, ANewUplinkIsAskedOnceWhenItDoesNotWorkForAWhile) {
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), 3);
    EXPECT_FALSE(watch.on_answer(kWifi, kNothing, now));
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), -1);
}

TEST_F(PortalWatchTest, OneThatWorksIsNotAsked) {
    watch.observe(kWifi, kSilent, now);
    watch.observe(kWifi, kWorks, now + seconds(1));
    EXPECT_EQ(until_next(), -1);
}

TEST_F(PortalWatchTest, OneThatStopsWorkingIsAsked) {
    watch.observe(kWifi, kWorks, now);
    watch.observe(kWifi, kNeededSilent, now);
    EXPECT_EQ(until_next(), 3);
}

TEST_F(PortalWatchTest, OneThatIsNeededAndDoesNotWorkIsAskedMoreAndMoreSeldom) {
    watch.observe(kWifi, kNeededSilent, now);
    EXPECT_EQ(until_next(), 3);
    int before = 0;
    for (int i = 0; i < 8; ++i) {
        watch.on_answer(kWifi, i % 2 == 0 ? kNothing : kSnapt, now);
        const int after = until_next();
        EXPECT_GE(after, before);
        EXPECT_GE(after, 10);
        EXPECT_LE(after, 300);
        before = after;
    }
}

TEST_F(PortalWatchTest, APortalIsAskedUntilTheSnaptAnswers) {
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), 3);
    EXPECT_TRUE(watch.on_answer(kWifi, kPortal, now));
    EXPECT_TRUE(watch.is_captive(kWifi));
    EXPECT_EQ(watch.url(kWifi), "http://login.example/");
    for (const int expected : {2, 4, 8, 16, 32, 64, 128, 256, 300, 300}) {
        EXPECT_EQ(until_next(), expected);
        EXPECT_FALSE(watch.on_answer(kWifi, kPortal, now));
        watch.observe(kWifi, kSilent, now);
    }
    EXPECT_EQ(until_next(), 300);
    EXPECT_TRUE(watch.on_answer(kWifi, kSnapt, now));
    EXPECT_FALSE(watch.is_captive(kWifi));
    EXPECT_EQ(watch.url(kWifi), "");
    EXPECT_EQ(until_next(), -1);
}

TEST_F(PortalWatchTest, OneThatBeginsToWorkIsAskedAtOnce) {
    watch.observe(kWifi, kNeededSilent, now);
    until_next();
    watch.on_answer(kWifi, kPortal, now);
    watch.observe(kWifi, kWorks, now);
    EXPECT_TRUE(watch.is_captive(kWifi));
    EXPECT_EQ(until_next(), 0);
    watch.on_answer(kWifi, kSnapt, now);
    watch.observe(kWifi, kWorks, now);
    EXPECT_EQ(until_next(), -1);
}

TEST_F(PortalWatchTest, ASnaptThatRefusesTheLoginIsNoPortalAndEndsOne) {
    watch.observe(kWifi, kNeededSilent, now);
    until_next();
    EXPECT_FALSE(watch.on_answer(kWifi, kStranger, now));
    EXPECT_FALSE(watch.is_captive(kWifi));
    EXPECT_GE(until_next(), 10);
    EXPECT_TRUE(watch.on_answer(kWifi, kPortal, now));
    until_next();
    EXPECT_TRUE(watch.on_answer(kWifi, kStranger, now));
    EXPECT_FALSE(watch.is_captive(kWifi));
}

TEST_F(PortalWatchTest, NoAnswerTakesNoMarkAway) {
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), 3);
    watch.on_answer(kWifi, kPortal, now);
    EXPECT_EQ(until_next(), 2);
    EXPECT_FALSE(watch.on_answer(kWifi, kNothing, now));
    EXPECT_TRUE(watch.is_captive(kWifi));
    EXPECT_EQ(watch.url(kWifi), "http://login.example/");
    EXPECT_EQ(until_next(), 4);
}

TEST_F(PortalWatchTest, AChangeOfTheNetworkAsksAtOnce) {
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), 3);
    watch.on_answer(kWifi, kPortal, now);
    for (int i = 0; i < 6; ++i) {
        until_next();
        watch.on_answer(kWifi, kPortal, now);
    }
    now += seconds(5);
    watch.on_network_changed(now);
    EXPECT_EQ(until_next(), 0);
    watch.on_answer(kWifi, kPortal, now);
    EXPECT_EQ(until_next(), 2);
}

// A container's interface comes and goes: an uplink that nobody needs is asked when it is new.
TEST_F(PortalWatchTest, WhatNobodyNeedsIsNotAskedForWhatElseChanges) {
    watch.observe(kWifi, kSilent, now);
    EXPECT_TRUE(until_next());
    watch.on_answer(kWifi, kNothing, now);
    now += seconds(1000);
    watch.on_network_changed(now);
    EXPECT_FALSE(watch.next(now + seconds(100)));
    watch.observe(kWifi, kNeededSilent, now);
    EXPECT_TRUE(watch.next(now + seconds(100)));
}

TEST_F(PortalWatchTest, ARestlessNetworkDoesNotAskAllTheTime) {
    watch.observe(kWifi, kNeededSilent, now);
    int questions = 0;
    for (int tenths = 0; tenths < 1000; ++tenths) {
        now += base::milliseconds(100);
        if (tenths % 40 == 0) {
            watch.on_network_changed(now);
        }
        if (watch.next(now)) {
            ++questions;
            watch.on_answer(kWifi, kNothing, now);
        }
    }
    EXPECT_GE(questions, 5);
    EXPECT_LE(questions, 11);
}

TEST_F(PortalWatchTest, WhileSomebodyLogsInItIsAskedOften) {
    watch.observe(kWifi, kSilent, now);
    until_next();
    watch.on_answer(kWifi, kPortal, now);
    for (int i = 0; i < 6; ++i) {
        until_next();
        watch.on_answer(kWifi, kPortal, now);
    }
    watch.hurry(now + seconds(60));
    for (int i = 0; i < 5; ++i) {
        EXPECT_LE(until_next(), 2);
        watch.on_answer(kWifi, kPortal, now);
    }
}

TEST_F(PortalWatchTest, OneIsAskedAtATime) {
    watch.observe(1, kSilent, now);
    watch.observe(2, kSilent, now);
    now += seconds(5);
    const auto first = watch.next(now);
    ASSERT_TRUE(first);
    EXPECT_FALSE(watch.next(now));
    watch.on_answer(*first, kNothing, now);
    const auto second = watch.next(now);
    ASSERT_TRUE(second);
    EXPECT_NE(*first, *second);
}

TEST_F(PortalWatchTest, WhatIsGoneIsForgotten) {
    watch.observe(kWifi, kSilent, now);
    until_next();
    watch.observe(kWifi, kGone, now);
    EXPECT_FALSE(watch.on_answer(kWifi, kPortal, now));
    EXPECT_FALSE(watch.is_captive(kWifi));
    watch.observe(kWifi, kSilent, now);
    EXPECT_EQ(until_next(), 3);
    watch.on_answer(kWifi, kPortal, now);
    watch.remove(kWifi);
    EXPECT_FALSE(watch.is_captive(kWifi));
}

}  // namespace
}  // namespace continuo::cnapt::bypass
