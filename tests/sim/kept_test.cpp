// Packets that a node sent into a silence, in virtual time (docs/PROTOCOL.md section 5.6): they
// arrive once, by the path that takes over.
#include "tests/sim/two_paths.hpp"
#include "tests/support/seeds.hpp"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

using base::Duration;
using base::microseconds;
using base::milliseconds;
using base::PathMode;
using base::seconds;
using base::TimePoint;
using base::TrafficClass;

// A transfer up goes on at once, not when its own TCP tries again.
TEST(MultipathSim, WhatANodeSentIntoASilenceComesByThePathThatTakesOver) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(seconds(1));
    call.cut(0);
    call.talk(milliseconds(200));
    const uint32_t first = call.sent_up;
    for (int i = 0; i < 10; ++i) {
        call.send_up();
        call.pair.run_for(milliseconds(100));
    }
    const uint32_t end = call.sent_up;
    call.move();
    call.pair.run_for(milliseconds(500));
    call.talk(milliseconds(500));
    call.expect_up(first, end);
}

// References are not relied on during the silence: the flow is opened again, and a packet that
// filled a datagram before is then too long for one.
TEST(MultipathSim, ASegmentThatFillsItsDatagramComesByThePathThatTakesOver) {
    constexpr size_t kPayload = 1427;  // of an MSS of 1439 with timestamps
    constexpr size_t kHeaders = 52;
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    packet::HeaderFields fields = node_fields(packet::Protocol::Tcp, 6000, 5201);
    fields.flags = packet::tcp_flag::kAck;
    fields.has_timestamps = true;
    flow::Flow& flow = call.pair.node.flow(tuple_of(fields), TrafficClass::HtHd);
    const auto send = [&](size_t bytes) {
        const std::vector<uint8_t> payload(bytes, 'x');
        call.pair.node.send(flow, make_packet(fields, payload), {}, call.pair.now);
        ++fields.ip_id;
    };
    for (int i = 0; i < 50; ++i) {
        send(100);
        fields.sequence += 100;
        call.pair.run_for(milliseconds(20));
    }
    const auto whole = [&] {
        return std::count_if(
            call.pair.snapt.delivered.begin(), call.pair.snapt.delivered.end(),
            [](const auto& packet) { return packet.size() == kPayload + kHeaders; });
    };
    send(kPayload);
    call.pair.run_for(milliseconds(100));
    ASSERT_EQ(whole(), 1) << "it fits while the references are good";
    const uint64_t fragments =
        call.pair.node.session->queues().counters(TrafficClass::HtHd).fragments;
    EXPECT_EQ(fragments, 0U);
    fields.sequence += kPayload;
    call.cut(0);
    for (int i = 0; i < 3; ++i) {
        send(kPayload);  // the sender's timer doubles
        call.pair.run_for(milliseconds(400 << i));
    }
    call.move();
    call.pair.run_for(milliseconds(100));
    EXPECT_GE(whole(), 2);
}

// Nor packets kept before another path was heard, even if that takes over only later, or in vain.
TEST(MultipathSim, WhatANodeSentIntoASilenceIsKeptUntilAPathThatWorksTakesOver) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(seconds(1));
    call.cut(0);
    call.talk(milliseconds(200));
    const uint32_t first = call.sent_up;
    call.send_up();
    call.pair.run_for(milliseconds(200));
    call.pair.node.session->paths().path(1).node().probe(call.pair.now);
    call.pair.run_for(milliseconds(200));
    call.send_up();
    call.pair.run_for(milliseconds(200));
    const uint32_t end = call.sent_up;
    call.cut(1);
    call.move();
    call.pair.run_for(milliseconds(500));
    call.pair.node.session->paths().node().activate(0, call.pair.now);
    call.pair.run_for(milliseconds(100));
    call.pair.lose(call.pair.up_link(1), 0);
    call.pair.lose(call.pair.down_link(1), 0);
    call.move();
    call.pair.run_for(seconds(1));
    call.expect_up(first, end);
}

// Datagrams in the connection before are lost, and a new one has new keys.
TEST(MultipathSim, WhatANodeSentIntoAConnectionComesByTheOneThatReplacesIt) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    const auto connect = [&](const char* from) {
        call.pair.add_path(wire::kTcpPath, *base::Endpoint::parse(from), link_of(milliseconds(10)));
        call.pair.node.session->paths().node().activate(wire::kTcpPath, call.pair.now);
    };
    connect("198.51.100.8:42000");
    call.talk(seconds(1));
    call.cut(wire::kTcpPath);
    call.pair.run_for(milliseconds(200));
    const uint32_t first = call.sent_up;
    for (int i = 0; i < 3; ++i) {
        call.send_up();  // the sender's timer doubles
        call.pair.run_for(milliseconds(200 << i));
    }
    const uint32_t end = call.sent_up;
    call.pair.install_epoch(2);
    connect("198.51.100.8:42001");
    call.pair.run_for(milliseconds(500));
    call.expect_up(first, end);
}

// Thousands of packets sent meanwhile do not arrive as a burst.
TEST(MultipathSim, OfAStreamIntoASilenceOnlyTheNewestComesLater) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)), 1, 1300);
    call.talk(seconds(1));
    call.cut(0);
    for (int i = 0; i < 1000; ++i) {
        call.send_up();
        call.pair.run_for(milliseconds(1));
    }
    const size_t before = call.pair.snapt.delivered.size();
    call.move();
    call.pair.run_for(milliseconds(500));
    EXPECT_GE(call.pair.snapt.delivered.size() - before, 30U);
    EXPECT_LE(call.pair.snapt.delivered.size() - before, 34U) << "32, and what still waited";
    EXPECT_EQ(TwoPaths::numbers(call.pair.snapt).back(), call.sent_up - 1);
}

// Nor does a transfer wait for its own TCP when it was on a path that is not the active one.
TEST(MultipathSim, WhatAFlowSentIntoTheSilenceOfItsPathComesByAnother) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                 link_of(milliseconds(10)), 1, 1300);
    two.talk(milliseconds(500));
    two.move();
    two.talk(milliseconds(300));
    ASSERT_EQ(two.up_flow_->paths.pinned, 0);
    two.cut(0);
    two.talk(milliseconds(240));
    const uint32_t first = two.sent_up;
    for (int i = 0; i < 100 && two.up_flow_->paths.pinned == 0; ++i) {
        two.send_up();
        two.pair.run_for(milliseconds(20));
    }
    const uint32_t end = two.sent_up;
    ASSERT_GE(end - first, 5U) << "sent before the silence is noticed";
    two.pair.run_for(seconds(1));
    two.expect_up(first, end);
}

}  // namespace
}  // namespace continuo::tests
