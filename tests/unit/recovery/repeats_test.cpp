// Datagrams that are sent again under the same numbers, perhaps by another path, as Delivery sees
// them.
#include "common/recovery/delivery.hpp"

#include <gtest/gtest.h>

namespace continuo::recovery {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

constexpr NumberSpace kRepeatedSpace{3, 256};
constexpr uint16_t kRepeatedBytes = 1400;

SentRun sent_run(uint32_t first, uint16_t bytes, uint8_t count = 1) {
    SentRun run;
    run.space = kRepeatedSpace;
    run.first = first;
    run.count = count;
    run.bytes = run.last_bytes = bytes;
    run.has_packets = true;
    return run;
}

SentRun repeat_of(uint32_t first, uint8_t count) {
    SentRun run = sent_run(first, kRepeatedBytes, count);
    run.is_repeat = true;
    return run;
}

// The path is dead. What left on it is sent again by another one, and arrives there.
TEST(Repeats, APathIsToldNothingOfWhatIsSentAgainElsewhere) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    delivery.on_sent(sent_run(0, 100), now);
    delivery.on_range(kRepeatedSpace, 0, 0, std::nullopt);
    delivery.on_count(kRepeatedSpace, 1);
    delivery.finish_ack(true, now += milliseconds(10));
    delivery.take_arrived();
    delivery.on_sent(sent_run(1, kRepeatedBytes, 10), now);
    const auto deadline_now = [&] { return liveness.deadline(delivery.probe_timeout()); };
    now = deadline_now();
    ASSERT_TRUE(liveness.on_time(delivery.probe_timeout(), now)) << "a probe time-out";
    const TimePoint deadline = deadline_now();
    delivery.take_out(kRepeatedSpace, 1, 10);
    EXPECT_EQ(delivery.unacknowledged_bytes(), 0U);
    EXPECT_EQ(delivery.rate().in_flight_bytes(), 0U);
    EXPECT_EQ(deadline_now(), deadline) << "it is asked until it answers";

    now += milliseconds(20);
    delivery.on_range(kRepeatedSpace, 1, 10, Delivery::Highest{{}, RelativeDelay::clock_at(now)});
    EXPECT_EQ(delivery.on_repeat_range(kRepeatedSpace, 1, 10), 0U) << "not on this path";
    delivery.on_count(kRepeatedSpace, 11, 10);
    delivery.finish_ack(true, now);
    EXPECT_EQ(delivery.liveness().timeouts(), 1U);
    EXPECT_FALSE(rtt.has_sample());
    EXPECT_EQ(delivery.rate().delivered_bytes(), 100U);
    EXPECT_EQ(delivery.take_arrived().any, TimePoint{});
    EXPECT_EQ(delivery.counters().delivered_datagrams, 1U);
    EXPECT_EQ(delivery.counters().lost_datagrams, 0U);
    EXPECT_EQ(delivery.counters().late_datagrams, 0U);
    EXPECT_EQ(delivery.counters().refused_ranges, 0U);
}

// It may mean the datagram that left first, by another path: it is waited for no more, and that is
// all.
TEST(Repeats, AnAcknowledgedRepeatIsNotWaitedForAndTellsNothingElse) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    EXPECT_EQ(delivery.on_repeat_range(kRepeatedSpace, 0, 9), 0U);
    delivery.on_sent(repeat_of(3, 5), now);
    EXPECT_TRUE(delivery.liveness().is_owed());
    EXPECT_EQ(delivery.unacknowledged_bytes(), uint64_t{5} * kRepeatedBytes);
    EXPECT_TRUE(delivery.is_repeated(kRepeatedSpace, 7));
    EXPECT_EQ(delivery.on_repeat_range(kRepeatedSpace, 0, 9), 5U);
    EXPECT_EQ(delivery.on_repeat_range(kRepeatedSpace, 0, 9), 0U) << "they are named once";
    delivery.finish_ack(true, now += milliseconds(10));
    EXPECT_FALSE(delivery.liveness().is_owed());
    EXPECT_EQ(delivery.unacknowledged_bytes(), 0U);
    EXPECT_EQ(delivery.rate().in_flight_bytes(), 0U);
    EXPECT_EQ(delivery.counters().delivered_datagrams, 5U);
    EXPECT_FALSE(delivery.is_repeated(kRepeatedSpace, 7));
    EXPECT_FALSE(rtt.has_sample());
    EXPECT_EQ(delivery.rate().bytes_per_s(), 0U);
    EXPECT_EQ(delivery.take_arrived().any, TimePoint{});
}

// The former path is slow: what left there first arrives when this path has timed out.
TEST(Repeats, WhatMayHaveLeftFirstElsewhereEndsNoTimeout) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    delivery.on_sent(repeat_of(3, 5), now);
    now = liveness.deadline(delivery.probe_timeout());
    ASSERT_TRUE(liveness.on_time(delivery.probe_timeout(), now));
    SentRun ping = sent_run(100, 60);
    ping.has_packets = false;
    ping.asks = true;
    delivery.on_sent(ping, now);
    delivery.on_repeat_range(kRepeatedSpace, 0, 9);
    delivery.finish_ack(true, now += milliseconds(10));
    EXPECT_EQ(liveness.timeouts(), 1U);
    EXPECT_TRUE(liveness.is_owed());
    delivery.on_range(kRepeatedSpace, 100, 100, std::nullopt);
    delivery.finish_ack(true, now += milliseconds(10));
    EXPECT_EQ(liveness.timeouts(), 0U);
    EXPECT_FALSE(liveness.is_owed());
}

// A call and what is sent again share a slow path. The queue is that of the repeats.
TEST(Repeats, TheQueueOfRepeatsMakesThinTrafficNoMeasureOfThePath) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    uint32_t number = 0;
    const auto call = [&](base::Duration queue) {
        delivery.on_sent(sent_run(number, 200), now);
        const TimePoint arrived_at = now + queue + milliseconds(5);
        now += queue + milliseconds(10);
        delivery.on_range(kRepeatedSpace, number, number,
                          Delivery::Highest{{}, RelativeDelay::clock_at(arrived_at)});
        ++number;
        delivery.finish_ack(true, now);
        delivery.on_app_limited();
    };
    for (int i = 0; i < 20; ++i) {
        call({});
    }
    ASSERT_FALSE(delivery.rate().is_known());
    const uint64_t before = delivery.rate().bytes_per_s();
    SentRun repeats = repeat_of(1000, 20);
    repeats.space.space = 0;
    delivery.on_sent(repeats, now);
    for (int i = 0; i < 5; ++i) {
        call(milliseconds(100));
        ASSERT_TRUE(delivery.rate().has_queue());
    }
    EXPECT_FALSE(delivery.rate().is_known());
    EXPECT_GE(delivery.rate().bytes_per_s(), before);
}

TEST(Repeats, ALogWhoseDatagramsAreAllSentElsewhereIsEmpty) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    const TimePoint now{seconds(1)};
    for (uint32_t i = 0; i < 20; ++i) {
        delivery.on_sent(sent_run(i, static_cast<uint16_t>(kRepeatedBytes + i % 2)), now);
    }
    delivery.take_out(kRepeatedSpace, 0, 18);
    EXPECT_EQ(delivery.log().end() - delivery.log().begin(), 1U);
    delivery.take_out(kRepeatedSpace, 19, 19);
    EXPECT_EQ(delivery.log().end(), delivery.log().begin());
}

// Higher numbers than its own left before it.
TEST(Repeats, ARepeatIsLostByTimeOnly) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    TimePoint now{seconds(1)};
    const auto acknowledge = [&](uint32_t number) {
        delivery.on_range(kRepeatedSpace, number, number,
                          Delivery::Highest{{}, RelativeDelay::clock_at(now)});
        delivery.finish_ack(true, now);
    };
    delivery.on_sent(sent_run(100, kRepeatedBytes), now);
    delivery.on_sent(repeat_of(5, 1), now);
    const TimePoint sent_at = now;
    delivery.on_sent(sent_run(101, kRepeatedBytes), now += milliseconds(1));
    now += milliseconds(10);
    acknowledge(100);
    acknowledge(101);
    EXPECT_EQ(delivery.counters().lost_datagrams, 0U);
    now = delivery.loss_detector().deadline();
    EXPECT_GT(now, sent_at + LossDetector::kRepeatMargin);
    EXPECT_LT(now, sent_at + LossDetector::kRepeatMargin + milliseconds(20))
        << "9/8 of a round trip";
    delivery.on_time(now);
    EXPECT_EQ(delivery.counters().lost_datagrams, 1U);
    EXPECT_TRUE(delivery.is_lost(kRepeatedSpace, 5));
    const uint32_t threshold = delivery.loss_detector().packet_threshold();
    EXPECT_EQ(delivery.on_repeat_range(kRepeatedSpace, 5, 5), 1U);
    delivery.finish_ack(true, now);
    EXPECT_EQ(delivery.counters().lost_datagrams, 0U) << "it came late";
    EXPECT_EQ(delivery.loss_detector().packet_threshold(), threshold)
        << "which tells of no reordering";
}

// A datagram that a count told of is named later, when it is part of no sample and longer than it
// was taken for.
TEST(Repeats, WhatACountToldOfAndIsSentAgainIsNotCountedBelowZero) {
    RttEstimator rtt;
    Liveness liveness;
    Delivery delivery{rtt, liveness};
    const TimePoint now{seconds(1)};
    delivery.on_sent(sent_run(0, 100), now);
    delivery.on_sent(sent_run(1, kRepeatedBytes, 20), now);
    delivery.on_range(kRepeatedSpace, 0, 0, Delivery::Highest{});
    delivery.on_count(kRepeatedSpace, 1);
    delivery.finish_ack(true, now + milliseconds(10));
    delivery.on_count(kRepeatedSpace, 11);
    ASSERT_EQ(delivery.rate().delivered_bytes(), 1100U) << "ten more, of 100 bytes";
    delivery.distrust_samples(now + milliseconds(10));
    delivery.on_range(kRepeatedSpace, 1, 10, Delivery::Highest{});
    delivery.on_count(kRepeatedSpace, 11);
    delivery.finish_ack(true, now + milliseconds(20));
    EXPECT_EQ(delivery.rate().delivered_bytes(), uint64_t{10} * kRepeatedBytes);
}

}  // namespace
}  // namespace continuo::recovery
