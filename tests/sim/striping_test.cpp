// Mode packet in virtual time (docs/PROTOCOL.md section 5.9): the packets of one flow over two
// paths.
#include "tests/sim/two_paths.hpp"
#include "tests/support/seeds.hpp"

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

// Packets as fast as two links of 10 Mbit/s take them; gives Mbit/s of packets in order.
struct Striped {
    double megabits_per_s = 0;
    size_t out_of_order = 0;
    Duration longest_gap{};
};

Striped stripe(TwoPaths& two,
               Duration span,
               size_t packet_bytes,
               uint64_t bits_per_s,
               Duration rest = seconds(1)) {
    const TimePoint began = two.pair.now;
    const size_t before = two.pair.snapt.delivered.size();
    const double interval_us =
        static_cast<double>(packet_bytes + 28) * 8e6 / static_cast<double>(bits_per_s);
    double due_us = 0;
    while (two.pair.now - began < span) {
        while (due_us <= static_cast<double>(base::to_us(two.pair.now - began))) {
            two.send_up();
            due_us += interval_us;
        }
        two.pair.run_for(microseconds(500));
    }
    two.pair.run_for(rest);
    Striped result;
    const auto numbers = TwoPaths::numbers(two.pair.snapt);
    uint32_t newest = 0;
    size_t in_order = 0;
    for (size_t i = before; i < numbers.size(); ++i) {
        const bool is_late = i > before && numbers[i] < newest;
        result.out_of_order += is_late ? 1U : 0U;
        in_order += is_late ? 0U : 1U;
        newest = std::max(newest, numbers[i]);
    }
    TimePoint previous = began;
    for (size_t i = before; i < numbers.size(); ++i) {
        const TimePoint at = two.pair.snapt.delivered_at[i];
        result.longest_gap = std::max<Duration>(result.longest_gap, at - previous);
        previous = at;
    }
    result.megabits_per_s = static_cast<double>(in_order * (packet_bytes + 28)) * 8 /
                            static_cast<double>(base::to_us(span));
    return result;
}

TEST(MultipathSim, PacketsOfOneFlowOverTwoPathsGetFourFifthsOfTheSumInOrder) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 10'000'000),
                 link_of(milliseconds(30), 10'000'000), 1, 1300);
    const Striped result = stripe(two, seconds(5), 1300, 18'000'000);
    EXPECT_GE(result.megabits_per_s, 16.0);
    EXPECT_EQ(result.out_of_order, 0U);
    EXPECT_LE(result.longest_gap, milliseconds(60));
    EXPECT_EQ(two.pair.snapt.session->resequencing().overflows, 0U);
}

// Nothing is known of the rates in the beginning.
TEST(MultipathSim, SharesFollowTheDeliveryRatesThatAreReported) {
    for (const uint64_t fast : {uint64_t{12'000'000}, uint64_t{40'000'000}}) {
        SCOPED_TRACE(fast);
        TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10), fast),
                     link_of(milliseconds(10), 4'000'000), 1, 1300);
        const uint64_t offered = (fast + 4'000'000) * 9 / 10;
        stripe(two, seconds(5), 1300, offered);
        const Striped result = stripe(two, seconds(5), 1300, offered);
        EXPECT_GE(result.megabits_per_s, static_cast<double>(offered) / 1e6 * 0.95);
        EXPECT_EQ(result.out_of_order, 0U);
    }
}

// A sender that is slowed down by what it loses, as TCP is, does not fill the faster path by
// itself.
TEST(MultipathSim, APathThatCouldTakeMoreIsTriedWithMore) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10), 20'000'000),
                 link_of(milliseconds(10), 2'000'000), 1, 1300);
    uint64_t offered = 3'000'000;
    for (int round = 0; round < 120; ++round) {
        const auto lost = [&] {
            return two.pair.up_link(0).counters().all_dropped() +
                   two.pair.up_link(1).counters().all_dropped();
        };
        const uint64_t before = lost();
        stripe(two, milliseconds(500), 1300, offered, milliseconds(50));
        offered = lost() > before ? offered * 7 / 10 : offered + 300'000;
    }
    EXPECT_GE(offered, 12'000'000U);
}

// The slower path carries nothing of it: what is missing can only have been lost.
TEST(MultipathSim, ALossOfAThinFlowIsKnownByWhatFollows) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 20'000'000),
                 link_of(milliseconds(80), 20'000'000));
    two.talk(seconds(2));
    const TimePoint since = two.pair.now;
    for (int round = 0; round < 5; ++round) {
        two.pair.lose(two.pair.up_link(0), kCertain);
        two.send_up();
        two.pair.run_for(milliseconds(1));
        two.pair.lose(two.pair.up_link(0), 0);
        two.talk(milliseconds(400));
    }
    EXPECT_EQ(TwoPaths::numbers(two.pair.snapt).size() + 5, two.sent_up);
    EXPECT_LE(TwoPaths::longest_gap(two.pair.snapt, since), milliseconds(60));
}

// The slower path would only make the flow wait.
TEST(MultipathSim, WhatTheFasterPathCanTakeStaysThere) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 20'000'000),
                 link_of(milliseconds(80), 20'000'000), 1, 1300);
    stripe(two, seconds(2), 1300, 4'000'000);
    const uint64_t before = two.pair.up_link(1).counters().offered_packets;
    const uint64_t held = two.pair.snapt.session->resequencing().held;
    const Striped result = stripe(two, seconds(5), 1300, 10'000'000);
    EXPECT_GE(result.megabits_per_s, 9.9);
    EXPECT_LE(result.longest_gap, milliseconds(10));
    EXPECT_LE(two.pair.up_link(1).counters().offered_packets - before, 20U) << "of 4700";
    EXPECT_EQ(two.pair.snapt.session->resequencing().held, held);
}

// The socket of the faster path is full: what is striped does not wait for it while another has
// room.
TEST(MultipathSim, APathWithoutRoomIsLeftOut) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 20'000'000),
                 link_of(milliseconds(30), 20'000'000), 1, 1300);
    stripe(two, seconds(2), 1300, 4'000'000);
    two.pair.node.session->paths().path(0).set_room(0);
    const Striped without = stripe(two, seconds(1), 1300, 4'000'000, {});
    EXPECT_GE(without.megabits_per_s, 3.7);
    EXPECT_LE(without.longest_gap, milliseconds(100));
    const uint64_t before = two.pair.up_link(0).counters().offered_packets;
    two.pair.node.session->paths().path(0).set_room(UINT64_MAX);
    stripe(two, seconds(1), 1300, 4'000'000);
    EXPECT_GE(two.pair.up_link(0).counters().offered_packets - before, 300U) << "of 375";
}

TEST(MultipathSim, WhereItWouldBeThereFarLaterItWaitsForRoom) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 20'000'000),
                 link_of(milliseconds(30), 500'000), 1, 1300);
    routing::PathSet& paths = two.pair.node.session->paths();
    paths.path(0).set_room(0);
    stripe(two, seconds(3), 1300, 600'000);  // its rate becomes known
    paths.path(0).set_room(UINT64_MAX);
    stripe(two, seconds(1), 1300, 4'000'000);
    paths.path(0).set_room(0);
    const uint64_t before = two.pair.up_link(1).counters().offered_packets;
    stripe(two, milliseconds(300), 1300, 10'000'000, {});
    EXPECT_LE(two.pair.up_link(1).counters().offered_packets - before, 60U) << "of 280";
}

// As on the road: a link delivers nothing for a while and loses nothing.
TEST(MultipathSim, LittleIsSentIntoTheSilenceOfAPath) {
    SimLink first = link_of(milliseconds(20), 5'000'000);
    first.queue_packets = 2000;
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, first, link_of(milliseconds(30), 5'000'000),
                 1, 1300);
    stripe(two, seconds(5), 1300, 9'000'000);
    SimLink silent = first;
    silent.bits_per_s = 1;
    two.pair.up.change(silent, two.pair.now);
    const uint64_t before = two.pair.up_link(0).counters().offered_packets;
    stripe(two, seconds(2), 1300, 4'000'000, {});
    const uint64_t sent_there = two.pair.up_link(0).counters().offered_packets - before;
    EXPECT_GE(sent_there, 10U) << "until REPORTs are missed";
    EXPECT_LE(sent_there, 190U) << "of 750";
    two.pair.up.change(first, two.pair.now);
    stripe(two, seconds(2), 1300, 4'000'000);
    const Striped after = stripe(two, seconds(5), 1300, 9'000'000);
    EXPECT_GE(after.megabits_per_s, 8.5) << "both are used again";
}

TEST(MultipathSim, ADyingPathStallsAStripedFlowForTheBoundOfItsClassAtMost) {
    for (const uint8_t lost : {uint8_t{0}, uint8_t{1}}) {
        SCOPED_TRACE(int{lost});
        TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 10'000'000),
                     link_of(milliseconds(30), 10'000'000), 1, 1300);
        stripe(two, seconds(1), 1300, 8'000'000);
        two.cut(lost);
        const Striped result = stripe(two, seconds(6), 1300, 8'000'000);
        EXPECT_LE(result.longest_gap, TwoPaths::kBound + milliseconds(40));
        EXPECT_GE(result.megabits_per_s, 6.0) << "the other path takes it all after 2 s at most";
        EXPECT_EQ(result.out_of_order, 0U);
    }
}

// UDP is blocked on both uplinks while a download fills them: TCP takes over, and SNAPT repeats
// there what was under way. What is acknowledged then came by TCP, a second late.
TEST(MultipathSim, WhatIsRepeatedOverTcpSaysNothingOfThePathsThatLostIt) {
    constexpr uint64_t kBitsPerS = 20'000'000;
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10), kBitsPerS),
                 link_of(milliseconds(10), kBitsPerS), 1, 1300);
    routing::NodePaths& node = two.pair.node.session->paths().node();
    two.pair.add_path(wire::kTcpPath, *base::Endpoint::parse("198.51.100.8:42000"),
                      link_of(milliseconds(10), kBitsPerS));
    const auto send = [&](Duration span, Duration interval) {
        for (const TimePoint end = two.pair.now + span; two.pair.now < end;) {
            two.send_down();
            two.pair.run_for(interval);
        }
    };
    const auto expect_rates = [&](const char* when) {
        for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
            const uint64_t told =
                two.pair.snapt.session->paths().path(path).feedback().measured().bytes_per_s;
            EXPECT_NEAR(static_cast<double>(told), kBitsPerS / 8.0, kBitsPerS / 32.0)
                << when << ", path " << int{path};
        }
    };
    send(seconds(2), microseconds(240));  // 47 Mbit/s
    expect_rates("before");
    two.cut(0);
    two.cut(1);
    send(milliseconds(100), microseconds(240));
    two.pair.run_for(milliseconds(900));
    node.activate(wire::kTcpPath, two.pair.now);
    send(seconds(1), milliseconds(5));
    EXPECT_GT(two.pair.snapt.session->counters().repeated_datagrams, 50U);
    expect_rates("repeated");
}

// REPORTs of the living path do not go by the dead one, though that is the active path.
TEST(MultipathSim, WhenTheActivePathDiesAStripedFlowStaysOnTheOther) {
    for (const bool is_down : {false, true}) {
        SCOPED_TRACE(is_down ? "down" : "up");
        TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 10'000'000),
                     link_of(milliseconds(30), 10'000'000), 1, 1300);
        const SessionEnd& receiver = is_down ? two.pair.node : two.pair.snapt;
        const auto send = [&](Duration span) {
            size_t sent = 0;
            for (const TimePoint end = two.pair.now + span; two.pair.now < end; ++sent) {
                is_down ? two.send_down() : two.send_up();
                two.pair.run_for(microseconds(1300));
            }
            return sent;
        };
        send(seconds(1));
        const size_t before = receiver.delivered.size();
        two.cut(0);
        const size_t sent = send(seconds(2));
        EXPECT_GE(receiver.delivered.size() - before, sent * 85 / 100);
    }
}

// Traffic in the other direction says nothing about the dead one.
TEST(MultipathSim, AStripedFlowLeavesAPathOfWhichOneDirectionIsDead) {
    for (const bool is_up_dead : {true, false}) {
        SCOPED_TRACE(is_up_dead ? "up" : "down");
        TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10)),
                     link_of(milliseconds(20)));
        two.talk(seconds(2));
        two.pair.lose(is_up_dead ? two.pair.up_link(1) : two.pair.down_link(1), kCertain);
        two.talk(seconds(3));
        const size_t up = two.pair.snapt.delivered.size();
        const size_t down = two.pair.node.delivered.size();
        two.talk(seconds(40));
        EXPECT_GE(two.pair.snapt.delivered.size() - up, 1950U) << "of 2000";
        EXPECT_GE(two.pair.node.delivered.size() - down, 1950U) << "of 2000";
        EXPECT_EQ(two.pair.node.session->paths().active(), 0);
        // And takes it again.
        two.pair.lose(is_up_dead ? two.pair.up_link(1) : two.pair.down_link(1), 0);
        two.pair.node.session->paths().path(1).node().ask_again(two.pair.now);
        two.talk(seconds(5));
        for (const SessionEnd* end : {&two.pair.node, &two.pair.snapt}) {
            EXPECT_EQ(end->session->paths().selector().spread(seconds(1), two.pair.now),
                      routing::mask_of(0) | routing::mask_of(1));
        }
    }
}

// REPORTs of both paths come by either. The faster path is filled until it is as slow as the other.
TEST(MultipathSim, EachPathHasItsOwnRoundTripThoughItsReportsComeByTheOther) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 1'000'000),
                 link_of(milliseconds(80), 1'000'000), 1, 500);
    for (const TimePoint end = two.pair.now + seconds(20); two.pair.now < end;) {
        two.send_up();
        two.send_down();
        two.pair.run_for(milliseconds(3));
    }
    for (const SessionEnd* end : {&two.pair.node, &two.pair.snapt}) {
        const routing::PathSet& paths = end->session->paths();
        // It is filled until both deliver at the same time, each way: 10 ms and twice 75 ms.
        EXPECT_LE(paths.path(0).feedback().smoothed_rtt(), milliseconds(165));
        EXPECT_GE(paths.path(1).feedback().smoothed_rtt(), milliseconds(155));
        EXPECT_LE(paths.path(1).feedback().smoothed_rtt(), milliseconds(250));
    }
}

// Nothing is missing, so that nothing waits, neither in the beginning.
TEST(MultipathSim, AFlowThatSpeaksNowAndThenWaitsForNothing) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5)),
                 link_of(milliseconds(5)));
    two.pair.run_for(seconds(1));
    for (int i = 0; i < 20; ++i) {
        two.send_up();
        two.send_down();
        two.pair.run_for(milliseconds(300));
    }
    two.expect_all();
    EXPECT_EQ(two.pair.snapt.session->resequencing().held, 0U);
    EXPECT_EQ(two.pair.node.session->resequencing().held, 0U);
}

TEST(MultipathSim, ALowDelayClassWaitsForNothing) {
    TwoPaths call(TrafficClass::HtLd, PathMode::Packet, link_of(milliseconds(5)),
                  link_of(milliseconds(60)));
    call.talk(seconds(2));
    call.pair.run_for(milliseconds(200));
    call.expect_all();
    EXPECT_EQ(call.pair.snapt.session->resequencing().held, 0U);
    EXPECT_EQ(call.pair.node.session->resequencing().held, 0U);
}

TEST(MultipathSim, LossOnOnePathIsKnownWhenAllPathsHaveBroughtLaterPackets) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(5), 10'000'000),
                 link_of(milliseconds(30), 10'000'000), 1, 1300);
    two.pair.lose(two.pair.up_link(1), 20'000);
    const Striped result = stripe(two, seconds(5), 1300, 14'000'000);
    EXPECT_GE(result.megabits_per_s, 13.0);
    EXPECT_LE(result.longest_gap, milliseconds(60)) << "far from the bound";
    EXPECT_LE(two.pair.snapt.session->resequencing().timeouts, 2U) << "at the end";
    EXPECT_GT(two.pair.snapt.session->resequencing().given_up, 0U);
}

// Contexts that were acknowledged on one path are used on the other.
TEST(MultipathSim, StripedTcpIsRestoredByteForByteWhateverIsLost) {
    for (const uint64_t seed : seeds(20)) {
        SCOPED_TRACE(seed);
        SimLink bad = link_of(milliseconds(10));
        bad.loss_ppm = 50'000;
        bad.jitter = milliseconds(20);
        bad.keeps_order = false;
        bad.duplicate_ppm = 20'000;
        SimLink slow = bad;
        slow.delay = milliseconds(80);
        TwoPaths two(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10)), slow, seed);
        two.pair.up.change(bad, two.pair.now);
        two.pair.down.change(bad, two.pair.now);
        packet::HeaderFields fields;
        fields.source = *base::IpAddress::parse("192.0.0.5");
        fields.destination = *base::IpAddress::parse("198.51.100.2");
        fields.protocol = packet::Protocol::Tcp;
        fields.source_port = 8000;
        fields.destination_port = 80;
        fields.ttl = 64;
        fields.flags = packet::tcp_flag::kAck;
        fields.has_timestamps = true;
        packet::FiveTuple tuple;
        tuple.local = fields.source;
        tuple.remote = fields.destination;
        tuple.local_port = fields.source_port;
        tuple.remote_port = fields.destination_port;
        tuple.protocol = fields.protocol;
        flow::Flow& flow = two.pair.node.flow(tuple, TrafficClass::HtHd);
        two.pair.node.session->set_mode(flow, PathMode::Packet);
        std::set<std::vector<uint8_t>> expected;
        two.pair.snapt.delivered.clear();
        for (uint32_t i = 0; i < 600; ++i) {
            fields.sequence += 400;
            fields.ip_id = static_cast<uint16_t>(i);
            fields.acknowledgement += i % 7;
            fields.timestamp_value = 1000 + i;
            std::vector<uint8_t> payload(400);
            two.pair.random.fill(payload);
            two.pair.node.send(flow, make_packet(fields, payload), {}, two.pair.now);
            packet::HeaderFields restored = fields;
            restored.source = kLease;
            expected.insert(make_packet(restored, payload));
            two.pair.run_for(milliseconds(2));
        }
        two.pair.run_for(seconds(1));
        std::set<std::vector<uint8_t>> arrived;
        for (const auto& packet : two.pair.snapt.delivered) {
            EXPECT_TRUE(expected.contains(packet)) << "altered";
            EXPECT_TRUE(arrived.insert(packet).second) << "twice";
        }
        EXPECT_GE(arrived.size(), 540U);
    }
}

// Segments of a super-packet leave in runs by both paths and come back in their order.
TEST(MultipathSim, SuperPacketsAreStripedInRuns) {
    SimLink fast = link_of(milliseconds(5), 50'000'000);
    SimLink slow = link_of(milliseconds(25), 50'000'000);
    fast.queue_packets = slow.queue_packets = 1000;
    TwoPaths two(TrafficClass::HtHd, PathMode::Packet, fast, slow);
    packet::HeaderFields fields;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.protocol = packet::Protocol::Tcp;
    fields.source_port = 8000;
    fields.destination_port = 443;
    fields.ttl = 64;
    fields.flags = packet::tcp_flag::kAck;
    packet::FiveTuple tuple;
    tuple.local = fields.source;
    tuple.remote = fields.destination;
    tuple.local_port = fields.source_port;
    tuple.remote_port = fields.destination_port;
    tuple.protocol = fields.protocol;
    flow::Flow& flow = two.pair.node.flow(tuple, TrafficClass::HtHd);
    two.pair.node.session->set_mode(flow, PathMode::Packet);
    two.pair.node.send(flow, make_packet(fields, std::vector<uint8_t>(10)), {}, two.pair.now);
    two.pair.run_for(seconds(1));
    fields.sequence += 10;
    two.pair.snapt.delivered.clear();
    constexpr uint16_t kSegment = 1300;
    const uint32_t began = fields.sequence;
    // 78 Mbit/s, more than the faster path takes.
    for (int i = 0; i < 40; ++i) {
        std::vector<uint8_t> payload(size_t{kSegment} * 30);
        two.pair.random.fill(payload);
        packet::Offload offload;
        offload.gso = packet::GsoType::Tcp4;
        offload.segment_bytes = kSegment;
        offload.header_bytes = 40;
        two.pair.node.send(flow, make_packet(fields, payload), offload, two.pair.now);
        fields.sequence += static_cast<uint32_t>(payload.size());
        two.pair.run_for(milliseconds(4));
    }
    two.pair.run_for(seconds(1));
    EXPECT_GT(two.pair.node.session->queues().counters(TrafficClass::HtHd).super_packets, 10U);
    EXPECT_GT(two.pair.up_link(1).counters().delivered_packets, 200U);
    ASSERT_EQ(two.pair.snapt.delivered.size(), 1200U);
    for (uint32_t i = 0; i < 1200; ++i) {
        ASSERT_EQ(base::load_big_endian<uint32_t>(&two.pair.snapt.delivered[i][24]),
                  began + i * kSegment);
    }
}

}  // namespace
}  // namespace continuo::tests
