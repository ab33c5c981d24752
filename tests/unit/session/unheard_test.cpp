#include "common/session/unheard.hpp"

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;

class UnheardTest : public ::testing::Test {
  protected:
    UnheardTest() {
        flow.counters = &slot;
        other.counters = &other_slot;
    }
    // Sends one packet of a flow. Returns false if it must not be sent.
    bool send(flow::Flow& of) {
        if (!unheard.may_send(now)) {
            return false;
        }
        unheard.on_sent({&of, 1, 1000, 972, 1060});
        return true;
    }
    // For so long, one packet each 100 ms; gives how many left.
    int send_for(base::Duration span, flow::Flow& of) {
        int sent = 0;
        for (const base::TimePoint end = now + span; now < end; now += milliseconds(100)) {
            sent += send(of) ? 1 : 0;
        }
        return sent;
    }
    static uint64_t charged(const flow::LiveSlot& slot) {
        return flow::value(slot.counters.packets_down);
    }
    static uint64_t undelivered(const flow::LiveSlot& slot) {
        return flow::value(slot.counters.undelivered_down) / 1000;
    }

    base::TimePoint now{seconds(1000)};
    flow::LiveSlot slot;
    flow::LiveSlot other_slot;
    flow::Flow flow;
    flow::Flow other;
    Unheard unheard;
};

TEST_F(UnheardTest, WhatIsHeardOfIsChargedAtOnce) {
    for (int i = 0; i < 100; ++i) {
        send_for(seconds(1), flow);
        unheard.on_heard();
    }
    EXPECT_EQ(charged(slot), 1000U);
    EXPECT_EQ(flow::value(slot.counters.inner_down), 1'000'000U);
    EXPECT_EQ(flow::value(slot.counters.payload_down), 972'000U);
    EXPECT_EQ(flow::value(slot.counters.pre_down), 1'000'000U);
    EXPECT_EQ(flow::value(slot.counters.post_down), 1'060'000U);
    EXPECT_EQ(undelivered(slot), 0U);
}

TEST_F(UnheardTest, ASilenceThatEndsInTimeIsCharged) {
    EXPECT_EQ(send_for(milliseconds(9900), flow), 99);
    EXPECT_EQ(charged(slot), 20U) << "before it was a silence";
    unheard.on_heard();
    EXPECT_EQ(charged(slot), 99U);
    EXPECT_EQ(flow::value(slot.counters.post_down), 99U * 1060);
    EXPECT_EQ(undelivered(slot), 0U);
    EXPECT_TRUE(flow.unheard.is_empty());
}

TEST_F(UnheardTest, WhatIsSentToANodeThatIsGoneIsUndeliveredAndLittle) {
    EXPECT_EQ(send_for(seconds(10), flow), 100);
    EXPECT_EQ(send_for(seconds(60), flow), 59) << "one a second asks";
    EXPECT_TRUE(unheard.is_gone());
    EXPECT_EQ(charged(slot), 20U);
    EXPECT_EQ(undelivered(slot), 138U) << "the last one may be answered";
    // It is back.
    unheard.on_heard();
    EXPECT_FALSE(unheard.is_gone());
    EXPECT_EQ(charged(slot), 21U);
    EXPECT_EQ(send_for(seconds(1), flow), 10);
    EXPECT_EQ(charged(slot), 31U);
    EXPECT_EQ(undelivered(slot), 138U);
}

// It is silent until it counts as gone, says a word, and begins again.
TEST_F(UnheardTest, ANodeThatHidesItsAcknowledgementsPays) {
    constexpr int kRounds = 1000;
    for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < 10; ++i) {
            send_for(seconds(1), flow);
        }
        unheard.look(now);
        EXPECT_TRUE(unheard.is_gone());
        unheard.on_heard();
    }
    const uint64_t sent = kRounds * 100;
    EXPECT_EQ(charged(slot) + undelivered(slot), sent);
    EXPECT_LE(undelivered(slot), Unheard::kFreeAtFirst / 1000 + sent / Unheard::kFreeDivisor);
}

// One of the datagrams that ask is no more than one a second.
TEST_F(UnheardTest, ANodeThatIsAwayForADayPaysNothingOfIt) {
    send_for(seconds(10), flow);
    const uint64_t before = charged(slot);
    send_for(seconds(20'000), flow);
    EXPECT_EQ(charged(slot), before);
}

TEST_F(UnheardTest, SilenceBeginsWithWhatIsSent) {
    now += seconds(3600);
    EXPECT_EQ(send_for(seconds(1), flow), 10);
    EXPECT_EQ(charged(slot), 10U);
    now += seconds(30);
    unheard.look(now);
    EXPECT_TRUE(unheard.is_gone()) << "an answer was due";
}

TEST_F(UnheardTest, TimeEndsASilenceWithoutAnotherPacket) {
    send_for(seconds(4), flow);
    EXPECT_EQ(charged(slot), 20U);
    EXPECT_EQ(undelivered(slot), 0U);
    unheard.look(now + seconds(7));
    EXPECT_EQ(undelivered(slot), 20U);
}

TEST_F(UnheardTest, FlowsThatEndInASilenceAreSettledAndForgotten) {
    flow::LiveSlot third_slot;
    flow::Flow third;
    third.counters = &third_slot;
    now += seconds(1);
    unheard.may_send(now - seconds(1));
    for (flow::Flow* any : {&flow, &other, &third}) {
        now = std::max(now, base::TimePoint{seconds(1003)});
        EXPECT_TRUE(send(*any));
    }
    unheard.forget(flow);
    unheard.forget(flow);
    EXPECT_EQ(undelivered(slot), 1U);
    unheard.forget(third);
    unheard.on_heard();
    EXPECT_EQ(charged(slot), 0U);
    EXPECT_EQ(charged(other_slot), 1U);
    EXPECT_EQ(undelivered(third_slot), 1U);
}

}  // namespace
}  // namespace continuo::session
