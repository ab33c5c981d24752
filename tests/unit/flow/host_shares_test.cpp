// The table of a gateway, which the hosts of its LAN share.
#include "common/flow/flow_table.hpp"

#include <gtest/gtest.h>

namespace continuo::flow {
namespace {

using packet::FiveTuple;
using packet::Protocol;

constexpr base::TimePoint kBegin{std::chrono::hours(1)};
constexpr size_t kPlaces = 32;
constexpr size_t kOrdinary = kPlaces - kPlaces / kReserveDivisor;

class HostSharesTest : public testing::Test {
  protected:
    static base::IpAddress host(uint32_t number) {
        return base::IpAddress::v4(0x0A070000 + number);
    }
    static FiveTuple tuple_of(Protocol protocol, uint16_t port) {
        FiveTuple tuple;
        tuple.local = base::IpAddress::v4(0xC0000205);
        tuple.remote = base::IpAddress::v4(0xC6336402);
        tuple.local_port = port;
        tuple.remote_port = 10'000;
        tuple.protocol = protocol;
        return tuple;
    }
    // As the node makes it: whose it is turns out later. Null: refused.
    Flow* open(uint32_t of, uint16_t port, bool is_answered, Protocol protocol = Protocol::Udp) {
        const FiveTuple tuple = tuple_of(protocol, port);
        const auto end = [this](Flow& flow) {
            ended.push_back(flow.tuple.local_port);
            table.erase(flow);
        };
        FlowOrigin origin;
        origin.share = &hosts.unknown();
        const auto traffic_class = base::TrafficClass::HtLd;
        if (!table.make_room(is_favoured(tuple, traffic_class), hosts, limit, end)) {
            return nullptr;
        }
        Flow* flow = table.create(tuple, traffic_class, kBegin, origin);
        FlowTable::set_share(*flow, hosts.of(host(of)));
        if (is_answered) {
            packet::PacketSummary summary;
            summary.tuple = tuple;
            table.on_packet(*flow, Direction::Down, summary, kBegin);
        }
        return flow;
    }
    size_t flows_of(uint32_t number) { return hosts.of(host(number)).flows(); }

    std::vector<uint16_t> ended;
    size_t limit = kPlaces;  // of all hosts together
    HeapSlots slots{64};
    HostShares hosts;
    FlowTable table{kPlaces, slots};
};
using Ports = std::vector<uint16_t>;

TEST_F(HostSharesTest, TheHostThatHasMostGivesWay) {
    ASSERT_NE(open(2, 1, false), nullptr);
    for (uint16_t port = 100; table.size() < kOrdinary; ++port) {
        ASSERT_NE(open(1, port, false), nullptr);
    }
    EXPECT_NE(open(3, 2, false), nullptr);
    EXPECT_NE(open(1, 3, false), nullptr) << "its own";
    EXPECT_EQ(ended, (Ports{100, 101})) << "not the oldest of all, which is another host's";
    EXPECT_NE(table.find(tuple_of(Protocol::Udp, 1)), nullptr);
}

TEST_F(HostSharesTest, WhatWasAnsweredGivesWayWhereAHostHasMoreThanItsPart) {
    for (uint16_t port = 100; table.size() < kOrdinary; ++port) {
        ASSERT_NE(open(1, port, true), nullptr);
    }
    // Until another one has as many.
    for (uint16_t port = 1; port <= kPlaces; ++port) {
        EXPECT_NE(open(2, port, true), nullptr);
    }
    EXPECT_NEAR(static_cast<double>(flows_of(1)), kOrdinary / 2.0, 1);
    EXPECT_NEAR(static_cast<double>(flows_of(2)), kOrdinary / 2.0, 1);
    EXPECT_EQ(ended.front(), 100) << "the oldest first";
}

TEST_F(HostSharesTest, AnOrdinaryFlowTakesNothingOfTheReserve) {
    for (uint16_t port = 100; table.size() < kOrdinary; ++port) {
        ASSERT_NE(open(2, port, true), nullptr);
    }
    for (uint16_t port = 200; table.size() < kPlaces; ++port) {
        ASSERT_NE(open(1, port, true, Protocol::Tcp), nullptr);
    }
    EXPECT_NE(open(3, 1, false), nullptr);
    EXPECT_EQ(ended, Ports{100});
}

TEST_F(HostSharesTest, WhereNoneHasMoreThanItsPartNoAnsweredOneGivesWay) {
    constexpr uint32_t kHosts = 7;
    uint16_t port = 100;
    for (uint32_t of = 1; table.size() < kOrdinary; of = of % kHosts + 1) {
        ASSERT_NE(open(of, port++, true), nullptr);
    }
    EXPECT_EQ(open(kHosts + 1, 1, false), nullptr) << "four of each, an eighth of the table";
    EXPECT_EQ(table.limit_hits(), 1U);
    EXPECT_TRUE(ended.empty());
}

// As where the SNAPT allows its user less.
TEST_F(HostSharesTest, ALimitBelowTheTableIsSharedLikeTheTable) {
    limit = kPlaces / 2;
    const size_t ordinary = limit - limit / kReserveDivisor;
    for (uint16_t port = 100; port < 100 + 2 * kPlaces; ++port) {
        ASSERT_NE(open(1, port, true), nullptr);
    }
    EXPECT_EQ(table.size(), ordinary);
    EXPECT_NE(open(2, 1, true), nullptr);
    EXPECT_NE(open(2, 2, true, Protocol::Tcp), nullptr);
    EXPECT_EQ(flows_of(1), ordinary - 1) << "TCP has the reserve";
    EXPECT_EQ(table.limit_hits(), 0U);
}

TEST_F(HostSharesTest, WhatIsBeyondALoweredLimitGivesWayOneByOne) {
    for (uint16_t port = 100; table.size() < kOrdinary; ++port) {
        ASSERT_NE(open(1, port, true), nullptr);
    }
    limit = kPlaces / 2;
    EXPECT_NE(open(2, 1, true), nullptr);
    EXPECT_EQ(table.size(), limit - limit / kReserveDivisor);
    limit = 2 * kPlaces;
    for (uint16_t port = 200; port < 200 + 2 * kPlaces; ++port) {
        open(1, port, true);
    }
    EXPECT_EQ(table.size(), kOrdinary) << "the table's own holds where it is less";
}

// A flood is faster than hosts are looked up.
TEST_F(HostSharesTest, FlowsOfHostsThatAreNotKnownYetGiveWayBeforeAnothers) {
    ASSERT_NE(open(2, 1, false), nullptr);
    ASSERT_NE(open(2, 2, false), nullptr);
    ASSERT_NE(open(1, 3, false), nullptr);
    for (uint16_t port = 100; port < 100 + 2 * kPlaces; ++port) {
        Flow* flow = open(1, port, false);
        ASSERT_NE(flow, nullptr);
        FlowTable::set_share(*flow, hosts.unknown());
    }
    EXPECT_NE(table.find(tuple_of(Protocol::Udp, 1)), nullptr);
    EXPECT_NE(table.find(tuple_of(Protocol::Udp, 2)), nullptr);
}

TEST_F(HostSharesTest, HostsBeyondTheLimitShareOne) {
    for (uint32_t of = 0; of < kMaxHosts; ++of) {
        hosts.of(host(of));
    }
    EXPECT_EQ(hosts.hosts(), kMaxHosts);
    FlowShare& fresh = hosts.of(host(kMaxHosts));
    EXPECT_EQ(hosts.hosts(), 1U) << "shares without flows are given up";
    EXPECT_EQ(&hosts.of(host(kMaxHosts)), &fresh);
}

}  // namespace
}  // namespace continuo::flow
