#include "common/flow/counter_values.hpp"
#include "common/flow/flow_table.hpp"
#include "common/packet/header_fields.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;
using packet::Protocol;

namespace flag = packet::tcp_flag;
constexpr uint8_t kSyn = flag::kSyn;
constexpr uint8_t kSynAck = flag::kSyn | flag::kAck;
constexpr uint8_t kAck = flag::kAck;
constexpr uint8_t kFin = flag::kFin | flag::kAck;
constexpr uint8_t kRst = flag::kRst;
constexpr auto kUp = Direction::Up;
constexpr auto kDown = Direction::Down;

struct Step {
    Direction direction;
    uint8_t tcp_flags;
    FlowState state;            // after the packet
    base::Duration idle_limit;  // of a silence that begins now
};

class LifeCycle : public testing::Test {
  protected:
    Flow& make(Protocol protocol, uint16_t remote_port = 443) {
        packet::FiveTuple tuple;
        tuple.local = *base::IpAddress::parse("192.0.2.2");
        tuple.remote = *base::IpAddress::parse("198.51.100.2");
        tuple.local_port = 40000;
        tuple.remote_port = remote_port;
        tuple.protocol = protocol;
        return *table_.create(tuple, base::TrafficClass::LtHd, now_);
    }
    PacketVerdict packet(Flow& flow, Direction direction, uint8_t tcp_flags = 0) {
        packet::PacketSummary summary;
        summary.tuple = flow.tuple;
        summary.tcp_flags = tcp_flags;
        return table_.on_packet(flow, direction, summary, now_);
    }
    // Runs the steps two seconds apart.
    void play(Flow& flow, const std::vector<Step>& steps) {
        for (size_t i = 0; i < steps.size(); ++i) {
            SCOPED_TRACE("step " + std::to_string(i));
            now_ += seconds(2);
            EXPECT_EQ(packet(flow, steps[i].direction, steps[i].tcp_flags),
                      PacketVerdict::Accepted);
            EXPECT_EQ(flow.state, steps[i].state);
            EXPECT_EQ(flow.expires_at, now_ + steps[i].idle_limit);
        }
    }
    size_t expire() {
        return table_.expire(now_, [](Flow& flow) { EXPECT_EQ(flow.state, FlowState::Closed); });
    }

    TimePoint now_{std::chrono::hours(10)};
    HeapSlots slots_{8};
    FlowTable table_{8, slots_};
};

// The index that the other end named may have been another flow's.
TEST_F(LifeCycle, WhatHasEndedThereEndsHereUnlessItGoesOn) {
    Flow& flow = make(Protocol::Udp);
    table_.on_ended_there(flow, now_);
    now_ += timeout::kEndedThere - milliseconds(1);
    EXPECT_EQ(expire(), 0U);
    packet(flow, kUp);
    now_ += timeout::kEndedThere + seconds(1);
    EXPECT_EQ(expire(), 0U) << "it goes on";
    table_.on_ended_there(flow, now_);
    now_ += timeout::kEndedThere + seconds(1);
    EXPECT_EQ(expire(), 1U);
}

TEST_F(LifeCycle, ToHaveEndedThereMakesNothingLonger) {
    Flow& flow = make(Protocol::Udp, 53);
    now_ += timeout::kDns - seconds(1);
    table_.on_ended_there(flow, now_);
    EXPECT_EQ(flow.expires_at, now_ + seconds(1));
    Flow& refused = make(Protocol::Tcp);
    table_.refuse(refused, now_);
    table_.on_ended_there(refused, now_);
    EXPECT_EQ(refused.expires_at, now_ + timeout::kRefused);
}

TEST_F(LifeCycle, TcpOpensIsUsedAndClosesByFinBothWays) {
    play(make(Protocol::Tcp), {{kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                               {kDown, kSynAck, FlowState::Open, timeout::kTcpTransitory},
                               {kUp, kAck, FlowState::Open, timeout::kTcpEstablished},
                               {kDown, kAck, FlowState::Open, timeout::kTcpEstablished},
                               {kUp, kFin, FlowState::Open, timeout::kTcpEstablished},
                               {kDown, kAck, FlowState::Open, timeout::kTcpEstablished},
                               {kDown, kFin, FlowState::Closing, timeout::kTcpTransitory},
                               {kUp, kAck, FlowState::Closing, timeout::kTcpTransitory}});
}

TEST_F(LifeCycle, TcpResetOfEitherSideCloses) {
    play(make(Protocol::Tcp), {{kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                               {kDown, kRst | kAck, FlowState::Closing, timeout::kTcpTransitory}});
    table_.for_each([&](Flow& flow) { table_.erase(flow); });
    play(make(Protocol::Tcp), {{kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                               {kDown, kSynAck, FlowState::Open, timeout::kTcpTransitory},
                               {kUp, kRst, FlowState::Closing, timeout::kTcpTransitory},
                               {kDown, kAck, FlowState::Closing, timeout::kTcpTransitory}});
}

TEST_F(LifeCycle, TcpAdoptedInTheMiddleIsEstablishedOnceBothSidesWereHeard) {
    play(make(Protocol::Tcp), {{kUp, kAck, FlowState::Opening, timeout::kTcpTransitory},
                               {kDown, kAck, FlowState::Open, timeout::kTcpEstablished}});
}

TEST_F(LifeCycle, NewSynOnAClosingFlowAsksForANewFlowAndNotesNothing) {
    Flow& flow = make(Protocol::Tcp);
    play(flow, {{kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                {kDown, kSynAck, FlowState::Open, timeout::kTcpTransitory},
                {kUp, kFin, FlowState::Open, timeout::kTcpEstablished},
                {kDown, kFin, FlowState::Closing, timeout::kTcpTransitory}});
    const TimePoint expires_at = flow.expires_at;
    now_ += seconds(5);
    EXPECT_EQ(packet(flow, kDown, kSyn), PacketVerdict::Accepted);
    EXPECT_EQ(packet(flow, kUp, kAck), PacketVerdict::Accepted);
    now_ += seconds(5);
    const TimePoint moved = flow.expires_at;
    EXPECT_GT(moved, expires_at);
    EXPECT_EQ(packet(flow, kUp, kSyn), PacketVerdict::NewConnection);
    EXPECT_EQ(flow.state, FlowState::Closing);
    EXPECT_EQ(flow.expires_at, moved);
}

TEST_F(LifeCycle, RepeatedSynOfAnOpenFlowChangesNothing) {
    play(make(Protocol::Tcp), {{kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                               {kUp, kSyn, FlowState::Opening, timeout::kTcpTransitory},
                               {kDown, kSynAck, FlowState::Open, timeout::kTcpTransitory},
                               {kUp, kSyn, FlowState::Open, timeout::kTcpTransitory},
                               {kUp, kAck, FlowState::Open, timeout::kTcpEstablished}});
}

// NAT knew it. Whether the node still does, its next packet shows.
TEST_F(LifeCycle, WhatBeginsFromOutsideGivesWayUntilTheNodeSends) {
    Flow& flow = make(Protocol::Udp);
    flow.begun = kDown;
    play(flow, {{kDown, 0, FlowState::Opening, timeout::kUdpUnanswered},
                {kDown, 0, FlowState::Opening, timeout::kUdpUnanswered}});
    EXPECT_TRUE(flow.gives_way);
    EXPECT_TRUE(flow.was_answered) << "for connection tracking";
    play(flow,
         {{kUp, 0, FlowState::Open, timeout::kUdp}, {kDown, 0, FlowState::Open, timeout::kUdp}});
    EXPECT_FALSE(flow.gives_way);
    Flow& stream = make(Protocol::Tcp);
    stream.begun = kDown;
    play(stream, {{kDown, kAck, FlowState::Opening, timeout::kTcpTransitory},
                  {kUp, kAck, FlowState::Open, timeout::kTcpEstablished}});
}

TEST_F(LifeCycle, UdpDnsAndPingHaveTheirOwnTimes) {
    play(make(Protocol::Udp), {{kUp, 0, FlowState::Opening, timeout::kUdpUnanswered},
                               {kUp, 0, FlowState::Opening, timeout::kUdpUnanswered},
                               {kDown, 0, FlowState::Open, timeout::kUdp}});
    play(make(Protocol::Udp, 53),
         {{kUp, 0, FlowState::Opening, timeout::kDns}, {kDown, 0, FlowState::Open, timeout::kDns}});
    play(make(Protocol::Icmp, 0), {{kUp, 0, FlowState::Opening, timeout::kIcmpEcho},
                                   {kDown, 0, FlowState::Open, timeout::kIcmpEcho}});
    // RFC 4787 REQ-5, RFC 5382 REQ-5, RFC 5508 REQ-2: not less than
    EXPECT_GE(timeout::kUdp, seconds(120));
    EXPECT_GE(timeout::kTcpTransitory, seconds(240));
    EXPECT_GE(timeout::kTcpEstablished, seconds(7440));
    EXPECT_GE(timeout::kIcmpEcho, seconds(60));
}

TEST_F(LifeCycle, SilentFlowIsErasedAtItsTimeAndNotBefore) {
    Flow& flow = make(Protocol::Udp);
    packet(flow, kUp);
    now_ += timeout::kUdpUnanswered - milliseconds(1);
    EXPECT_EQ(expire(), 0U);
    packet(flow, kDown);
    now_ += timeout::kUdp - milliseconds(1);
    EXPECT_EQ(expire(), 0U);
    now_ += seconds(1);
    EXPECT_EQ(expire(), 1U);
    EXPECT_EQ(table_.size(), 0U);
    EXPECT_EQ(table_.next_deadline(), base::kNever);
}

TEST_F(LifeCycle, ResetShortensTheLongTimeOfAnEstablishedFlow) {
    Flow& flow = make(Protocol::Tcp);
    packet(flow, kUp, kSyn);
    packet(flow, kDown, kSynAck);
    packet(flow, kUp, kAck);
    now_ += seconds(100);
    packet(flow, kDown, kRst);
    now_ += timeout::kTcpTransitory + seconds(1);
    EXPECT_EQ(expire(), 1U);
}

TEST_F(LifeCycle, IcmpErrorNeitherOpensNorKeepsAFlow) {
    Flow& flow = make(Protocol::Udp);
    const TimePoint expires_at = flow.expires_at;
    now_ += seconds(50);
    packet::PacketSummary error;
    error.is_icmp_error = true;
    EXPECT_EQ(table_.on_packet(flow, kDown, error, now_), PacketVerdict::Accepted);
    EXPECT_EQ(flow.state, FlowState::Opening);
    EXPECT_EQ(flow.expires_at, expires_at);
}

TEST_F(LifeCycle, RefusedFlowStaysForItsLingerWhateverIsTried) {
    Flow& flow = make(Protocol::Tcp);
    table_.refuse(flow, now_);
    now_ += timeout::kRefused - seconds(1);
    packet(flow, kUp, kSyn);
    EXPECT_EQ(flow.state, FlowState::Refused);
    EXPECT_EQ(expire(), 0U);
    now_ += seconds(2);
    EXPECT_EQ(expire(), 1U);
}

TEST_F(LifeCycle, FlowWithQueuedPacketsIsNotErased) {
    Flow& flow = make(Protocol::Udp);
    packet::Packet waiting;
    flow.queue.head = &waiting;
    now_ += timeout::kUdp * 2;
    EXPECT_EQ(expire(), 0U);
    flow.queue.head = nullptr;
    now_ += timeout::kUdp + seconds(1);
    EXPECT_EQ(expire(), 1U);
}

TEST_F(LifeCycle, ExpiryMayEraseOtherFlowsThatAreDueAndCreateNewOnes) {
    Flow& first = make(Protocol::Udp, 1000);
    Flow& second = make(Protocol::Udp, 1001);
    now_ += timeout::kUdp + seconds(1);
    bool made = false;
    const size_t expired = table_.expire(now_, [&](Flow& flow) {
        table_.erase(&flow == &first ? second : first);
        if (!made) {
            made = true;
            make(Protocol::Udp, 1002);
        }
    });
    EXPECT_EQ(expired, 1U);
    EXPECT_EQ(table_.size(), 1U);
}

TEST_F(LifeCycle, ActiveTimeIsTheTimeBetweenPacketsUpToASecondEach) {
    Flow& flow = make(Protocol::Udp);
    for (int i = 0; i < 10; ++i) {
        now_ += milliseconds(100);
        packet(flow, i % 2 == 0 ? kUp : kDown);
    }
    EXPECT_EQ(value(flow.counters->counters.active_us), 1'000'000U);
    now_ += seconds(60);
    packet(flow, kUp);
    EXPECT_EQ(value(flow.counters->counters.active_us), 2'000'000U);
}

}  // namespace
}  // namespace continuo::flow
