#include "common/flow/flow_table.hpp"
#include "common/packet/header_fields.hpp"

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

using packet::FiveTuple;
using packet::Protocol;

constexpr base::TimePoint kNow{std::chrono::hours(1)};
constexpr size_t kLimit = 16;
constexpr size_t kReserve = kLimit / kReserveDivisor;

FiveTuple udp(uint16_t port, uint16_t remote_port = 10'000) {
    FiveTuple tuple;
    tuple.local = base::IpAddress::v4(0xC0000202);
    tuple.remote = base::IpAddress::v4(0xC6336402);
    tuple.local_port = port;
    tuple.remote_port = remote_port;
    tuple.protocol = Protocol::Udp;
    return tuple;
}
FiveTuple tcp(uint16_t port) {
    FiveTuple tuple = udp(port, 443);
    tuple.protocol = Protocol::Tcp;
    return tuple;
}

class FlowShareTest : public testing::Test {
  protected:
    // Null: refused.
    Flow* open(const FiveTuple& tuple,
               FlowShare* share,
               size_t limit = kLimit,
               base::TrafficClass traffic_class = base::TrafficClass::HtLd) {
        const auto end = [this](Flow& flow) {
            ended.push_back(flow.tuple.local_port);
            table.erase(flow);
        };
        FlowOrigin origin;
        origin.share = share;
        return table.make_room(is_favoured(tuple, traffic_class), share, limit, end)
                   ? table.create(tuple, traffic_class, kNow, origin)
                   : nullptr;
    }
    void pass(Flow* flow, Direction direction, uint8_t tcp_flags = 0) {
        packet::PacketSummary summary;
        summary.tuple = flow->tuple;
        summary.tcp_flags = tcp_flags;
        table.on_packet(*flow, direction, summary, kNow);
    }
    Flow* open_answered(const FiveTuple& tuple, FlowShare* share) {
        Flow* flow = open(tuple, share);
        if (flow != nullptr) {
            pass(flow, Direction::Down);
        }
        return flow;
    }

    std::vector<uint16_t> ended;
    HeapSlots slots{64};
    FlowShare alice;
    FlowShare bob;
    FlowTable table{40, slots};
};
using Ports = std::vector<uint16_t>;

TEST_F(FlowShareTest, TheOldestThatWasNeverAnsweredGivesWay) {
    for (uint16_t port = 1; port <= kLimit - kReserve; ++port) {
        ASSERT_NE(open(udp(port), &alice), nullptr);
    }
    EXPECT_TRUE(ended.empty());
    pass(table.find(udp(1)), Direction::Down);
    pass(table.find(udp(2)), Direction::Up);
    EXPECT_NE(open(udp(100), &alice), nullptr);
    EXPECT_NE(open(udp(101), &alice), nullptr);
    EXPECT_EQ(ended, (Ports{2, 3}));
    EXPECT_NE(table.find(udp(1)), nullptr);
    EXPECT_EQ(table.gave_way(), 2U);
    EXPECT_EQ(table.limit_hits(), 0U);
    EXPECT_EQ(alice.flows(), kLimit - kReserve);
}

TEST_F(FlowShareTest, AfterALimitWasLoweredAsManyGiveWayAsHaveTo) {
    for (uint16_t port = 1; port <= kLimit - kReserve; ++port) {
        ASSERT_NE(open(udp(port), &alice), nullptr);
    }
    constexpr size_t kLower = 8;
    EXPECT_NE(open(udp(100), &alice, kLower), nullptr);
    EXPECT_EQ(alice.flows(), kLower - kLower / kReserveDivisor);
}

TEST_F(FlowShareTest, TheReserveIsForDnsTcpAndLowDelay) {
    uint16_t port = 1;
    while (open_answered(udp(port), &alice) != nullptr) {
        ++port;
    }
    EXPECT_EQ(alice.flows(), kLimit - kReserve);
    EXPECT_EQ(table.limit_hits(), 1U);
    EXPECT_TRUE(ended.empty()) << "all were answered";
    EXPECT_NE(open(udp(100, 53), &alice), nullptr);
    EXPECT_NE(open(tcp(101), &alice), nullptr);
    EXPECT_EQ(alice.flows(), kLimit);
    EXPECT_EQ(open(udp(102), &alice), nullptr) << "no favoured one gives way to an ordinary one";
    EXPECT_NE(open(udp(103), &alice, kLimit, base::TrafficClass::LtLd), nullptr);
    EXPECT_EQ(ended, Ports{100});
    EXPECT_NE(open(udp(104), &bob), nullptr) << "another user";
}

TEST_F(FlowShareTest, AFloodOfDatagramsMovesNoHandshake) {
    ASSERT_NE(open(tcp(1), &alice), nullptr);
    ASSERT_NE(open(udp(2, 53), &alice), nullptr);
    for (uint16_t port = 100; port < 200; ++port) {
        ASSERT_NE(open(udp(port), &alice), nullptr);
        ASSERT_LE(alice.flows(), kLimit);
    }
    EXPECT_NE(table.find(tcp(1)), nullptr);
    EXPECT_NE(table.find(udp(2, 53)), nullptr);
    ASSERT_NE(open(tcp(3), &alice), nullptr);
    EXPECT_NE(table.find(tcp(1)), nullptr);
}

TEST_F(FlowShareTest, AClosedConnectionThatLingersGivesWay) {
    for (uint16_t port = 1; port <= kLimit; ++port) {
        ASSERT_NE(open_answered(tcp(port), &alice), nullptr);
    }
    EXPECT_EQ(open(tcp(100), &alice), nullptr);
    pass(table.find(tcp(7)), Direction::Down, packet::tcp_flag::kRst);
    EXPECT_NE(open(tcp(101), &alice), nullptr);
    EXPECT_EQ(ended, Ports{7});
}

TEST_F(FlowShareTest, TheTableHasARoomOfItsOwn) {
    for (uint16_t port = 1; port <= 30; ++port) {
        ASSERT_NE(open(udp(port), &alice, 0), nullptr);
    }
    for (uint16_t port = 101; port <= 110; ++port) {
        ASSERT_NE(open(udp(port), &bob, 0), nullptr);
    }
    EXPECT_EQ(ended, (Ports{1, 2, 3, 4, 5})) << "an eighth of 40 is the reserve";
    EXPECT_EQ(table.size(), 35U);
    EXPECT_EQ(alice.flows() + bob.flows(), 35U);
}

TEST_F(FlowShareTest, AFlowThatGetsTheClassOfLowDelayIsFavouredFromThenOn) {
    for (uint16_t port = 1; port <= kLimit - kReserve; ++port) {
        ASSERT_NE(open_answered(udp(port), &alice), nullptr);
    }
    ASSERT_TRUE(table.reclassify(*table.find(udp(1)), base::TrafficClass::LtLd, kNow));
    EXPECT_NE(open(udp(100), &alice), nullptr);
    EXPECT_NE(open_answered(udp(101), &alice), nullptr);
    EXPECT_EQ(ended, Ports{100});
}

TEST_F(FlowShareTest, ARefusedOneCountsAndNothingIsLeftWhenAllHaveGone) {
    for (uint16_t port = 1; port <= 5; ++port) {
        ASSERT_NE(open(udp(port), &alice), nullptr);
    }
    table.refuse(*table.find(udp(3)), kNow);
    EXPECT_EQ(alice.flows(), 5U);
    table.for_each([this](Flow& flow) { table.erase(flow); });
    EXPECT_EQ(alice.flows(), 0U);
    EXPECT_EQ(alice.gives_way_to(true), nullptr);
}

}  // namespace
}  // namespace continuo::flow
