#include "common/queueing/hold.hpp"
#include "common/queueing/scheduler.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::queueing {
namespace {

using base::milliseconds;
using base::TimePoint;

HoldKnobs knobs() {
    HoldKnobs knobs;
    knobs.hold = milliseconds(20);
    knobs.target_bytes = 1400;
    return knobs;
}

TEST(Hold, ALonePacketLeavesAtOnce) {
    HoldEstimator estimator;
    const TimePoint now{base::seconds(5)};
    estimator.on_arrival(now, knobs());
    const Release release = estimator.release(now, 100, knobs());
    EXPECT_EQ(release.at, now);
    EXPECT_EQ(release.reason, ReleaseReason::Alone);
}

TEST(Hold, AFullAggregateLeavesAtOnce) {
    const HoldEstimator estimator;
    const TimePoint now{base::seconds(5)};
    EXPECT_EQ(estimator.release(now, 1400, knobs()).reason, ReleaseReason::Size);
    EXPECT_EQ(estimator.release(now, 1400, knobs()).at, now);
}

TEST(Hold, WaitsForCompanyThatTheEstimatePromises) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    for (int i = 0; i < 20; ++i) {
        now += milliseconds(4);
        estimator.on_arrival(now, knobs());
    }
    const Release release = estimator.release(now, 100, knobs());
    EXPECT_EQ(release.reason, ReleaseReason::Timeout);
    EXPECT_EQ(release.at, now + milliseconds(20));
}

TEST(Hold, AFastStreamIsHeldForAFewPacketsOnly) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    for (int i = 0; i < 100; ++i) {
        now += base::microseconds(100);
        estimator.on_arrival(now, knobs());
    }
    EXPECT_LE(estimator.release(now, 100, knobs()).at - now, milliseconds(1));
}

// The reader rests for 400 us after each look: the estimate is that of one who looks at each
// packet.
TEST(Hold, ARestOfTheReaderChangesNoEstimate) {
    HoldEstimator looking;
    HoldEstimator resting;
    TimePoint now{base::seconds(5)};
    for (int i = 1; i <= 80; ++i) {
        now += base::microseconds(50);
        looking.on_arrival(now, knobs());
        for (int packet = 0; i % 8 == 0 && packet < 8; ++packet) {
            resting.on_arrival(now, knobs(), true);
        }
    }
    const auto wait = [&](const HoldEstimator& estimator) {
        return estimator.release(now, 100, knobs()).at - now;
    };
    EXPECT_NEAR(static_cast<double>(wait(looking).count()), 400'000, 1'000);
    EXPECT_NEAR(static_cast<double>(wait(resting).count()), 400'000, 1'000);
    for (int i = 1; i <= 10; ++i) {
        now += base::microseconds(400);
        for (int packet = 0; packet < 16; ++packet) {  // twice as fast
            resting.on_arrival(now, knobs(), true);
        }
    }
    EXPECT_NEAR(static_cast<double>(wait(resting).count()), 200'000, 10'000);
    for (int packet = 0; packet < 20; ++packet) {  // at once, before a reader who did not rest
        resting.on_arrival(now, knobs(), false);
    }
    EXPECT_LE(wait(resting), base::microseconds(5));
}

TEST(Hold, AStreamThatItsAcknowledgementsPaceIsHeldForAShareOfItsRoundTripOnly) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    for (int i = 0; i < 100; ++i) {
        now += milliseconds(3);
        estimator.on_arrival(now, knobs());
    }
    HoldKnobs clocked = knobs();
    clocked.clocked_hold = milliseconds(5);
    EXPECT_EQ(estimator.release(now, 100, clocked).at, now + milliseconds(5));
    clocked.clocked_hold = base::microseconds(50);
    EXPECT_EQ(estimator.release(now, 100, clocked).at, now) << "no other comes in that time";
    EXPECT_EQ(estimator.release(now, 100, knobs()).at, now + milliseconds(20));
}

TEST(Hold, AfterAMoveNothingIsHeldForAWhile) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    for (int i = 0; i < 20; ++i) {
        now += milliseconds(4);
        estimator.on_arrival(now, knobs());
    }
    estimator.on_path_changed();
    EXPECT_EQ(estimator.release(now, 100, knobs()).at, now);
    for (int i = 0; i < 16; ++i) {
        estimator.on_released(ReleaseReason::Alone, 1, now, now);
    }
    EXPECT_EQ(estimator.release(now, 100, knobs()).at, now + milliseconds(20));
}

TEST(Hold, AThinFlowWaitsForItsClass) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    for (int i = 0; i < 100; ++i) {
        now += milliseconds(15);
        estimator.on_arrival(now, knobs());
    }
    HoldKnobs clocked = knobs();
    clocked.clocked_hold = base::microseconds(50);
    EXPECT_EQ(estimator.release(now, 100, clocked).at, now + milliseconds(20));
}

// Request and response: each packet is caused by the answer to the one before.
TEST(Hold, LearnsThatWaitingIsInVain) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    base::Duration waited{};
    constexpr int kExchanges = 2000;
    for (int i = 0; i < kExchanges; ++i) {
        estimator.on_arrival(now, knobs());
        const TimePoint waiting_since = now;
        const Release release = estimator.release(waiting_since, 100, knobs());
        waited += release.at - now;
        now = release.at;
        estimator.on_released(release.reason, 1, waiting_since, now);
        now += base::microseconds(200);
    }
    EXPECT_LT(waited / kExchanges, base::microseconds(300));
}

// Requests that one end held come to the other one together, and so leave their answers; the next
// come a hold time later.
TEST(Hold, WhatComesTogetherAndIsFollowedByNobodyIsHeldBriefly) {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    base::Duration waited{};
    constexpr int kBursts = 2000;
    for (int i = 0; i < kBursts; ++i) {
        const TimePoint waiting_since = now;
        for (int packet = 0; packet < 6; ++packet) {
            estimator.on_arrival(now, knobs());
            now += base::microseconds(20);
        }
        const Release release = estimator.release(waiting_since, 300, knobs());
        const TimePoint left = std::max(now, release.at);
        waited += left - now;
        estimator.on_released(release.reason, 6, waiting_since, left);
        now = waiting_since + milliseconds(22);
    }
    EXPECT_LT(waited / kBursts, milliseconds(3));
    EXPECT_GT(waited / kBursts, milliseconds(2)) << "the row still goes together";
}

// Arrivals and releases in the order in which they happen.
struct Timeline {
    HoldEstimator estimator;
    TimePoint now{base::seconds(5)};
    TimePoint waiting_since = base::kNever;
    size_t packets = 0;
    base::Duration waited{};  // by the newest datagram
    size_t datagrams = 0;

    void pass(base::Duration span) {
        const TimePoint end = now + span;
        if (packets > 0) {
            const Release release = estimator.release(waiting_since, 100, knobs());
            if (release.at < end) {
                const TimePoint left = std::max(now, release.at);
                waited = left - waiting_since;
                ++datagrams;
                estimator.on_released(release.reason, packets, waiting_since, left);
                packets = 0;
            }
        }
        now = end;
    }
    void arrive(size_t count) {
        for (size_t i = 0; i < count; ++i) {
            estimator.on_arrival(now, knobs());
        }
        waiting_since = packets == 0 ? now : waiting_since;
        packets += count;
    }
    void rows(int number, size_t count, base::Duration apart) {
        for (int i = 0; i < number; ++i) {
            arrive(count);
            pass(apart);
        }
    }
};

TEST(Hold, AfterRowsThatCameTogetherAThinFlowIsHeldAsBefore) {
    Timeline timeline;
    for (int i = 0; i < 40; ++i) {
        timeline.arrive(6);
        timeline.pass(milliseconds(22));
        EXPECT_TRUE(i < 2 || timeline.waited < milliseconds(3)) << i;
    }
    timeline.rows(40, 1, milliseconds(8));
    const size_t before = timeline.datagrams;
    timeline.rows(90, 1, milliseconds(8));
    EXPECT_EQ(timeline.datagrams - before, 30U) << "three in each";
}

TEST(Hold, RowsThatOthersFollowSoonAreHeldForThem) {
    Timeline timeline;
    timeline.rows(40, 6, milliseconds(22));
    timeline.rows(40, 2, milliseconds(8));
    const size_t before = timeline.datagrams;
    timeline.rows(90, 2, milliseconds(8));
    EXPECT_EQ(timeline.waited, knobs().hold);
    EXPECT_EQ(timeline.datagrams - before, 30U) << "three rows in each";
}

// Each row is caused by the answers to the one before: what follows soon is no reason to wait.
TEST(Hold, RowsThatTheirAnswersCauseAreHeldBriefly) {
    Timeline timeline;
    base::Duration waited{};
    constexpr int kRows = 1000;
    for (int i = 0; i < kRows; ++i) {
        timeline.arrive(i % 2 == 0 ? 4 : 1);
        const TimePoint since = timeline.now;
        const Release release = timeline.estimator.release(since, 100, knobs());
        timeline.pass(std::max<base::Duration>(release.at - since, {}) + milliseconds(3));
        waited += timeline.waited;
    }
    EXPECT_LT(waited / kRows, milliseconds(5)) << "a quarter of the hold";
}

TEST(Hold, CompanyThatComesLaterPaysTheHold) {
    Timeline timeline;
    for (int i = 0; i < 200; ++i) {
        timeline.arrive(1);
        timeline.pass(milliseconds(4));
        timeline.arrive(1);
        timeline.pass(milliseconds(22));
        if (i > 20) {
            ASSERT_EQ(timeline.waited, knobs().hold) << i;
        }
    }
}

TEST(Hold, MinBytesHoldsWhateverTheEstimateSays) {
    HoldKnobs settings = knobs();
    settings.min_bytes = 500;
    const HoldEstimator estimator;
    const TimePoint now{base::seconds(5)};
    EXPECT_EQ(estimator.release(now, 100, settings).at, now + milliseconds(20));
    EXPECT_EQ(estimator.release(now, 500, settings).at, now);
}

TEST(Scheduler, ServesTheHighestReadyClassFirst) {
    Scheduler scheduler;
    const TimePoint now{base::seconds(100)};
    std::array<TimePoint, base::kTrafficClasses> ready;
    ready.fill(now);
    EXPECT_EQ(scheduler.pick(ready, now), base::TrafficClass::LtLd);
    ready[0] = base::kNever;
    EXPECT_EQ(scheduler.pick(ready, now), base::TrafficClass::HtLd);
    ready.fill(base::kNever);
    EXPECT_FALSE(scheduler.pick(ready, now).has_value());
}

TEST(Scheduler, StarvesNoClassBeyondItsPatience) {
    Scheduler scheduler;
    TimePoint now{base::seconds(100)};
    std::array<TimePoint, base::kTrafficClasses> ready;
    ready.fill(now);
    std::array<TimePoint, base::kTrafficClasses> served;
    served.fill(now);
    for (int i = 0; i < 20'000; ++i) {
        now += milliseconds(1);
        const auto chosen = scheduler.pick(ready, now);
        ASSERT_TRUE(chosen.has_value());
        served[base::index_of(*chosen)] = now;
        for (size_t c = 0; c < served.size(); ++c) {
            EXPECT_LE(now - served[c], Scheduler::kPatience[c] + milliseconds(5));
        }
    }
}

}  // namespace
}  // namespace continuo::queueing
