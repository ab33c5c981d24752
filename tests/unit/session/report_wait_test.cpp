#include "common/session/report_wait.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

// Acknowledgements of a transfer: one every 10 ms, told of every 100 ms.
TEST(ReportWait, WhatIsToldOfAsUsualIsNotOverdueAndWhatIsNotSoonIs) {
    ReportWait wait;
    TimePoint now{seconds(10)};
    for (int i = 1; i <= 200; ++i) {
        wait.on_sent(now);
        ASSERT_FALSE(wait.is_overdue(now)) << i;
        now += milliseconds(10);
        if (i % 10 == 0) {
            wait.on_told(i % 20 == 0, now);
        }
    }
    wait.on_sent(now);
    const TimePoint died = now;
    while (!wait.is_overdue(now)) {
        now += milliseconds(10);
        wait.on_sent(now);
    }
    EXPECT_GE(now - died, milliseconds(250));
    EXPECT_LE(now - died, milliseconds(450));
    wait.on_told(false, now);
    EXPECT_FALSE(wait.is_overdue(now + milliseconds(100)));
}

TEST(ReportWait, WithoutSamplesOrOfASingleDatagramNothingIsKnown) {
    ReportWait wait;
    TimePoint now{seconds(10)};
    wait.on_sent(now);
    wait.on_sent(now);
    EXPECT_FALSE(wait.is_overdue(now + seconds(60)));
    for (int i = 0; i < 10; ++i) {
        now += milliseconds(100);
        wait.on_told(true, now);
        wait.on_sent(now);
    }
    EXPECT_FALSE(wait.is_overdue(now + seconds(60)));
}

TEST(ReportWait, APauseOfTheApplicationIsNoSilenceOfThePeer) {
    ReportWait wait;
    TimePoint now{seconds(10)};
    for (int i = 0; i < 10; ++i) {
        wait.on_sent(now);
        wait.on_sent(now);
        now += milliseconds(100);
        wait.on_told(false, now);
        wait.on_sent(now);
        now += seconds(5);
        wait.on_sent(now);
        wait.on_sent(now);
        ASSERT_FALSE(wait.is_overdue(now + milliseconds(150))) << i;
    }
    EXPECT_TRUE(wait.is_overdue(now + seconds(1))) << "nor did it make the usual time longer";
}

}  // namespace
}  // namespace continuo::session
