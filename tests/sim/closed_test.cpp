// CLOSED: a node learns of flows that have ended at its SNAPT, and a SNAPT of those that its node
// has ended to make room, from frames piggybacked on other datagrams.
#include "tests/support/session_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::milliseconds;
using base::TrafficClass;

packet::FiveTuple udp(uint16_t port) {
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse("192.0.0.5");
    tuple.remote = *base::IpAddress::parse("198.51.100.2");
    tuple.local_port = port;
    tuple.remote_port = 80;
    tuple.protocol = packet::Protocol::Udp;
    return tuple;
}

class ClosedSim : public testing::Test {
  protected:
    // The node sends in a flow, and SNAPT acknowledges it.
    void send(uint16_t port, size_t packets) {
        packet::HeaderFields fields;
        const packet::FiveTuple tuple = udp(port);
        fields.source = tuple.local;
        fields.destination = tuple.remote;
        fields.protocol = tuple.protocol;
        fields.source_port = tuple.local_port;
        fields.destination_port = tuple.remote_port;
        fields.ttl = 64;
        std::vector<uint8_t> payload(1000);
        pair.random.fill(payload);
        for (size_t i = 0; i < packets; ++i) {
            pair.node.send(pair.node.flow(tuple, TrafficClass::HtHd), make_packet(fields, payload),
                           {}, pair.now);
            pair.run_for(milliseconds(2));
        }
        pair.run_for(milliseconds(200));
    }
    static packet::FiveTuple at_snapt(uint16_t port) {
        packet::FiveTuple tuple = udp(port);
        tuple.local = *base::IpAddress::parse("100.64.0.2");
        return tuple;
    }
    void displace_at_node(uint16_t port) {
        flow::Flow* flow = pair.node.find(udp(port));
        ASSERT_NE(flow, nullptr);
        pair.node.session->detach(*flow, pair.now, session::EndNotice::Closed);
        pair.node.end_flow(udp(port), pair.now);
    }
    void end_at_snapt(uint16_t port) {
        ASSERT_NE(pair.snapt.find(at_snapt(port)), nullptr);
        pair.snapt.end_flow(at_snapt(port), pair.now);
    }

    SessionPair pair{SimLink{}};
};

TEST_F(ClosedSim, TheNodeHearsOfFlowsThatEndedAtTheSnapt) {
    constexpr uint16_t kFlows = 100;
    for (uint16_t i = 0; i < kFlows; ++i) {
        send(static_cast<uint16_t>(5000 + i), 1);
    }
    for (uint16_t i = 0; i < kFlows; ++i) {
        end_at_snapt(static_cast<uint16_t>(5000 + i));
    }
    const uint64_t before = pair.snapt.session->counters().overhead_sent();
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.session->counters().overhead_sent(), before) << "nothing leaves for that";
    send(6000, 40);
    EXPECT_EQ(pair.node.closed_flows, kFlows);
    send(6000, 40);
    EXPECT_EQ(pair.node.closed_flows, kFlows) << "once";
}

// Piggybacked on packets, like acknowledgements.
TEST_F(ClosedSim, TheNodeHearsOfThemBesidePackets) {
    send(5000, 1);
    send(5001, 1);
    end_at_snapt(5000);
    packet::HeaderFields fields;
    const packet::FiveTuple tuple = at_snapt(5001);
    fields.source = tuple.remote;
    fields.destination = tuple.local;
    fields.protocol = tuple.protocol;
    fields.source_port = tuple.remote_port;
    fields.destination_port = tuple.local_port;
    fields.ttl = 64;
    pair.snapt.send(*pair.snapt.find(tuple), make_packet(fields, std::vector<uint8_t>(100)), {},
                    pair.now);
    pair.run_for(milliseconds(200));
    EXPECT_EQ(pair.node.delivered.size(), 1U);
    EXPECT_EQ(pair.node.closed_flows, 1U);
}

TEST_F(ClosedSim, NothingIsSaidOfAnIndexThatAnotherFlowHas) {
    send(5000, 1);
    end_at_snapt(5000);
    const uint32_t index = pair.node.flow(udp(5000), TrafficClass::HtHd).index;
    pair.node.end_flow(udp(5000), pair.now);
    ASSERT_EQ(pair.node.flow(udp(6000), TrafficClass::HtHd).index, index);
    send(6000, 40);
    EXPECT_EQ(pair.node.closed_flows, 0U);
    EXPECT_GT(pair.snapt.session->counters().acks_sent, 0U);
}

TEST_F(ClosedSim, HowManyAreToBeToldHasALimit) {
    send(5000, 1);
    flow::Flow& flow = *pair.snapt.find(at_snapt(5000));
    for (size_t i = 0; i < session::kMaxClosedToTell + 3; ++i) {
        pair.snapt.session->detach(flow, pair.now);
        ASSERT_TRUE(pair.snapt.session->attach(flow));
    }
    EXPECT_EQ(pair.snapt.session->counters().closed_untold, 3U);
}

// The SNAPT may be at a limit: it hears of the end before it is to take the new flow.
TEST_F(ClosedSim, TheSnaptHearsOfWhatTheNodeDisplacedBeforeThePacketsBeside) {
    send(5000, 1);
    send(5001, 1);
    ASSERT_EQ(pair.snapt.delivered.size(), 2U);
    displace_at_node(5000);
    pair.run_for(base::seconds(1));
    EXPECT_EQ(pair.snapt.closed_flows, 0U) << "nothing leaves for that";
    send(6000, 1);
    EXPECT_EQ(pair.snapt.closed_flows, 1U);
    EXPECT_EQ(pair.snapt.delivered_when_closed, 2U);
    EXPECT_EQ(pair.snapt.delivered.size(), 3U);
    pair.node.end_flow(udp(5001), pair.now);
    send(6000, 40);
    EXPECT_EQ(pair.snapt.closed_flows, 1U) << "what has only timed out is not told";
}

// A CLOSED that comes late would end the next flow.
TEST_F(ClosedSim, TheIndexOfADisplacedFlowRestsUntilTheWordOfItHasArrived) {
    send(5000, 1);
    const uint32_t index = pair.node.flow(udp(5000), TrafficClass::HtHd).index;
    displace_at_node(5000);
    EXPECT_NE(pair.node.flow(udp(6000), TrafficClass::HtHd).index, index);
    send(6000, 1);
    EXPECT_EQ(pair.snapt.closed_flows, 1U);
    EXPECT_NE(pair.node.flow(udp(6001), TrafficClass::HtHd).index, index) << "only just told";
    pair.run_for(base::seconds(3));
    EXPECT_EQ(pair.node.flow(udp(6002), TrafficClass::HtHd).index, index);
}

}  // namespace
}  // namespace continuo::tests
