// What a node sent into a silence, in virtual time (docs/PROTOCOL.md section 5.6): it comes by the
// path that takes over, and once.
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

// The path in use is cut, and has been silent for a while.
void fall_silent(TwoPaths& call) {
    call.talk(seconds(1));
    call.cut(0);
    call.talk(milliseconds(200));
}

void send_up_then_wait(TwoPaths& call) {
    call.send_up();
    call.pair.run_for(milliseconds(200));
}

// A transfer up goes on at once, not when its own TCP tries again.
TEST(MultipathSim, WhatANodeSentIntoASilenceComesByThePathThatTakesOver) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    fall_silent(call);
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

// In the silence references are not relied on any more: the flow is opened again, and what filled a
// datagram before is too long for one then.
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
    const uint64_t fragments = call.pair.node.session->class_counters(TrafficClass::HtHd).fragments;
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

// Nor what was kept before another path was heard, though that takes over only later, or in vain.
TEST(MultipathSim, WhatANodeSentIntoASilenceIsKeptUntilAPathThatWorksTakesOver) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    fall_silent(call);
    const uint32_t first = call.sent_up;
    send_up_then_wait(call);
    call.pair.node.session->paths().path(1).probe(call.pair.now);
    call.pair.run_for(milliseconds(200));
    send_up_then_wait(call);
    const uint32_t end = call.sent_up;
    call.cut(1);
    call.move();
    call.pair.run_for(milliseconds(500));
    call.pair.node.session->paths().activate(0, call.pair.now);
    call.pair.run_for(milliseconds(100));
    call.mend(1);
    call.move();
    call.pair.run_for(seconds(1));
    call.expect_up(first, end);
}

// Control that is made anew brings new keys: a copy then names what was sealed with those before.
TEST(MultipathSim, WhatANodeSentIntoASilenceComesThoughControlBringsNewKeys) {
    for (const bool is_grant_lost : {false, true}) {
        TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                      link_of(milliseconds(10)));
        fall_silent(call);
        const uint32_t first = call.sent_up;
        send_up_then_wait(call);
        if (is_grant_lost) {
            call.pair.install_epoch(2);
            send_up_then_wait(call);
        }
        // An epoch that was never heard is granted anew, under its number.
        call.pair.install_epoch_at(call.pair.snapt, 2, 1);
        call.pair.install_epoch_at(call.pair.node, 2, 1);
        send_up_then_wait(call);
        const uint32_t end = call.sent_up;
        call.move();
        call.pair.run_for(milliseconds(500));
        call.expect_up(first, end);
        // And not once more when it is left and taken again.
        call.mend(0);
        call.pair.node.session->paths().activate(0, call.pair.now);
        call.pair.run_for(milliseconds(500));
        call.move();
        call.pair.run_for(milliseconds(500));
        call.expect_up(first, end);
    }
}

// UDP is blocked, and TCP has to be connected anew: what was in its former connection comes by the
// next one, though it was tried by UDP between.
TEST(MultipathSim, WhatANodeSentIntoADeadConnectionComesByTheNextOne) {
    constexpr uint8_t kTcp = wire::kTcpPath;
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    session::Session& node = *call.pair.node.session;
    const SimLink plain = link_of(milliseconds(10));
    call.pair.add_path(kTcp, *base::Endpoint::parse("198.51.100.8:42000"), plain);
    node.paths().path(kTcp).probe(call.pair.now);
    call.pair.run_for(milliseconds(200));
    node.paths().activate(kTcp, call.pair.now);
    call.talk(seconds(1));
    call.cut(0);
    call.cut(kTcp);
    call.talk(milliseconds(200));
    const uint32_t first = call.sent_up;
    for (int i = 0; i < 5; ++i) {
        send_up_then_wait(call);
    }
    const uint32_t end = call.sent_up;
    node.paths().activate(0, call.pair.now);
    call.pair.run_for(milliseconds(500));
    call.mend(kTcp);
    node.paths().activate(kTcp, call.pair.now);
    node.on_stream_opened(call.pair.now);
    call.pair.run_for(seconds(1));
    call.expect_up(first, end);
}

TEST(MultipathSim, WhatArrivedUnderTheKeysBeforeIsNotDeliveredAgain) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(seconds(1));
    call.pair.lose(call.pair.down_link(0), kCertain);  // it arrives, and no acknowledgement does
    call.talk(milliseconds(200));
    const uint32_t first = call.sent_up;
    for (int i = 0; i < 5; ++i) {
        call.send_up();
        call.pair.run_for(milliseconds(100));
    }
    const uint32_t end = call.sent_up;
    call.pair.install_epoch(2);
    call.cut(0);
    call.move();
    call.pair.run_for(milliseconds(500));
    EXPECT_GT(call.pair.snapt.session->counters().copies_dropped, 0U);
    call.expect_up(first, end);
}

// The return path may follow long after SNAPT has heard the new keys, by a path that is only asked.
TEST(MultipathSim, WhatWentToTheOldAddressComesThoughControlBringsNewKeys) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(seconds(1));
    call.cut(0);
    const uint32_t first = call.sent_down;
    for (int i = 0; i < 5; ++i) {
        call.send_down();
    }
    const uint32_t end = call.sent_down;
    call.pair.install_epoch(2);
    call.pair.node.session->paths().path(1).probe(call.pair.now);
    call.pair.run_for(seconds(3));
    call.move();
    call.pair.run_for(milliseconds(500));
    const std::vector<uint32_t> all = TwoPaths::numbers(call.pair.node);
    for (uint32_t number = first; number < end; ++number) {
        EXPECT_EQ(std::count(all.begin(), all.end(), number), 1) << number;
    }
}

// What was sent meanwhile by the thousands does not come as a burst.
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
    // 32, what left within two round trips of the last ACK, and what still waited.
    EXPECT_LE(call.pair.snapt.delivered.size() - before, 32U + 2 * 22U + 2U);
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
    two.talk(milliseconds(400));
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
