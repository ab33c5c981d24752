// Several paths at once in virtual time (docs/PROTOCOL.md section 5.9): copies while links are in
// doubt, and the modes redundant and flow.
#include "common/routing/router.hpp"
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

// --- Make before break

TEST(MultipathSim, AMoveWithBothLinksUpLosesNothingOfALowDelayClassAndDeliversNothingTwice) {
    for (const TrafficClass traffic_class : {TrafficClass::LtLd, TrafficClass::HtLd}) {
        for (const uint64_t seed : seeds(10)) {
            SCOPED_TRACE(seed);
            TwoPaths call(traffic_class, PathMode::Handover, link_of(milliseconds(10)),
                          link_of(milliseconds(40)), seed);
            call.talk(milliseconds(300 + static_cast<int64_t>(seed % 100) * 7));
            call.move();
            call.talk(milliseconds(500));
            call.cut(0);
            call.pair.node.session->paths().node().remove(0);
            call.talk(milliseconds(500));
            call.pair.run_for(seconds(1));
            call.expect_all();
            EXPECT_GT(call.pair.node.session->counters().copies_sent, 0U);
            EXPECT_GT(call.pair.snapt.session->counters().copies_sent, 0U);
            EXPECT_LT(call.pair.node.session->counters().copies_sent, 12U) << "until it answers";
            EXPECT_LT(call.pair.snapt.session->counters().copies_sent, 30U);
        }
    }
}

// The new path takes the announcements, and its answers come late or never.
TEST(MultipathSim, TheOldPathServesWhileTheNewOneDoesNotDeliverDown) {
    TwoPaths call(TrafficClass::HtLd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(milliseconds(200));
    call.pair.lose(call.pair.down_link(1), kCertain);
    call.move();
    call.talk(seconds(3));
    call.pair.run_for(milliseconds(100));
    call.expect_all();
}

TEST(MultipathSim, TheOldPathServesWhileTheNewOneDeliversNothing) {
    TwoPaths call(TrafficClass::LtLd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(milliseconds(200));
    call.cut(1);
    call.move();
    call.talk(seconds(3));
    call.pair.run_for(milliseconds(100));
    call.expect_all();
}

// A path in reserve that was heard last does not take the keepalives of the active one.
TEST(MultipathSim, AnIdleNodeKeepsItsActivePathAliveAndSendsLittle) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(seconds(1));
    const auto sent = [&](uint8_t path) {
        return call.pair.up_link(path).counters().offered_packets;
    };
    const uint64_t before[] = {sent(0), sent(1)};
    for (int i = 0; i < 120; ++i) {
        call.pair.node.session->paths().path(1).node().probe(call.pair.now);
        call.pair.run_for(seconds(1));
    }
    EXPECT_GE(sent(0) - before[0], 3U) << "in 120 s";
    EXPECT_LE(sent(0) - before[0] + sent(1) - before[1], 250U);
}

// Nor does it ask a path in reserve, until its flows go on.
TEST(MultipathSim, PathsInReserveAreKeptReadyWhilePacketsGo) {
    TwoPaths call(TrafficClass::HtHd, PathMode::Packet, link_of(milliseconds(20)),
                  link_of(milliseconds(10)));
    const auto sent = [&] { return call.pair.up_link(1).counters().offered_packets; };
    call.talk(seconds(1));
    uint64_t before = sent();
    call.pair.run_for(seconds(60));
    EXPECT_GE(sent() - before, 2U) << "kept ready for a while";
    before = sent();
    call.pair.run_for(seconds(600));
    EXPECT_LE(sent() - before, 1U);
    before = sent();
    call.talk(seconds(2));
    EXPECT_GE(sent() - before, 20U) << "it takes its part again";
    call.pair.run_for(seconds(1));
    call.expect_all();
}

// It may have died meanwhile.
TEST(MultipathSim, APathThatWasNotHeardForLongIsAskedBeforeItIsUsed) {
    for (const PathMode mode : {PathMode::Packet, PathMode::Flow}) {
        TwoPaths call(TrafficClass::HtHd, mode, link_of(milliseconds(20)),
                      link_of(milliseconds(10)));
        call.talk(seconds(1));
        call.pair.run_for(seconds(120));
        call.cut(1);
        call.talk(seconds(2));
        call.pair.run_for(seconds(1));
        call.expect_up(0, call.sent_up);
    }
}

// Packets under way when the path fell silent are lost, and those sent until that is detected.
TEST(MultipathSim, ADoubtfulPathsLowDelayPacketsAreCopiedToOneThatWorks) {
    TwoPaths call(TrafficClass::LtLd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    call.talk(milliseconds(200));
    const uint32_t before = call.sent_up;
    call.cut(0);
    call.talk(milliseconds(2500));
    call.pair.run_for(milliseconds(200));
    const auto numbers = TwoPaths::numbers(call.pair.snapt);
    const std::set<uint32_t> arrived(numbers.begin(), numbers.end());
    EXPECT_EQ(arrived.size(), numbers.size()) << "nothing twice";
    size_t lost = 0;
    for (uint32_t number = before; number < call.sent_up; ++number) {
        lost += arrived.count(number) == 0 ? 1U : 0U;
    }
    EXPECT_LE(lost, 40U) << "0.5 s until it is asked, and a round trip";
}

TEST(MultipathSim, CopiesToAnUnprovenAddressStayBelowThreeTimesWhatItSent) {
    TwoPaths call(TrafficClass::LtLd, PathMode::Redundant, link_of(milliseconds(10)),
                  link_of(milliseconds(10)), 1, 1000);
    // Another NAT mapping, from which nothing comes but a few datagrams.
    call.pair.path_addresses[1] = *base::Endpoint::parse("198.51.100.99:1234");
    const path::Tuple& tuple =
        call.pair.snapt.session->paths().path(1).validation().tuple(TrafficClass::LtLd);
    for (int i = 0; i < 10 && tuple.remote() == kOther; ++i) {
        call.send_up();
        call.pair.run_for(milliseconds(3));
    }
    call.pair.lose(call.pair.up_link(1), kCertain);
    ASSERT_FALSE(tuple.is_proven());
    call.talk(seconds(3));
    EXPECT_FALSE(tuple.is_proven());
    EXPECT_GT(tuple.unproven_sent_bytes(), 1000U) << "copies are sent as far as that";
    EXPECT_LE(tuple.unproven_sent_bytes(),
              wire::kAmplificationFactor * tuple.unproven_received_bytes());
}

TEST(MultipathSim, CopiesOfADownloadInALowDelayClassAreBounded) {
    TwoPaths bulk(TrafficClass::HtLd, PathMode::Handover, link_of(milliseconds(10)),
                  link_of(milliseconds(10)), 1, 1200);
    bulk.pair.lose(bulk.pair.down_link(1), kCertain);
    bulk.move();
    for (int i = 0; i < 2000; ++i) {
        bulk.send_up();
        bulk.pair.run_for(microseconds(500));
    }
    const session::SessionCounters& counters = bulk.pair.node.session->counters();
    EXPECT_GT(counters.copies_unsent, 0U);
    EXPECT_LE(counters.copies_sent * 1200,
              static_cast<uint64_t>(session::CopyBudget::kBurstBytes +
                                    session::CopyBudget::kBytesPerSecond * 11 / 10));
}

// --- Redundant

TEST(MultipathSim, ARedundantFlowGoesOnWithoutAGapWhenEitherPathIsLost) {
    for (const uint8_t lost : {uint8_t{0}, uint8_t{1}}) {
        for (const TrafficClass traffic_class : {TrafficClass::LtLd, TrafficClass::HtHd}) {
            SCOPED_TRACE(int{lost});
            TwoPaths call(traffic_class, PathMode::Redundant, link_of(milliseconds(10)),
                          link_of(milliseconds(25)));
            auto classes = call.pair.node.session->settings().classes;
            for (auto& settings : classes) {
                settings.hold = milliseconds(1);
            }
            call.pair.node.session->set_class_settings(classes);
            call.pair.snapt.session->set_class_settings(classes);
            call.talk(milliseconds(400));
            const TimePoint since = call.pair.now - milliseconds(100);
            call.cut(lost);
            call.talk(seconds(4));
            call.pair.run_for(milliseconds(200));
            call.expect_all();
            for (const SessionEnd* end : {&call.pair.node, &call.pair.snapt}) {
                EXPECT_LE(TwoPaths::longest_gap(*end, since), milliseconds(60));
            }
        }
    }
}

TEST(MultipathSim, ARedundantFlowLosesLittleOnTwoBadPaths) {
    TwoPaths call(TrafficClass::HtLd, PathMode::Redundant, link_of(milliseconds(10)),
                  link_of(milliseconds(10)));
    for (const uint8_t path : {uint8_t{0}, uint8_t{1}}) {
        call.pair.lose(call.pair.up_link(path), 200'000);
        call.pair.lose(call.pair.down_link(path), 200'000);
    }
    const size_t before = call.pair.snapt.delivered.size();
    const uint32_t sent_before = call.sent_up;
    call.talk(seconds(20));
    call.pair.run_for(milliseconds(200));
    const auto numbers = TwoPaths::numbers(call.pair.snapt);
    EXPECT_EQ(std::set<uint32_t>(numbers.begin(), numbers.end()).size(), numbers.size());
    EXPECT_GE(call.pair.snapt.delivered.size() - before, (call.sent_up - sent_before) * 92 / 100)
        << "4 % are lost on both";
}

// --- Flow

TEST(MultipathSim, FlowsAreSpreadOverThePathsAndEachKeepsItsOrder) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                 link_of(milliseconds(30)));
    std::vector<flow::Flow*> flows;
    packet::HeaderFields fields;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.protocol = packet::Protocol::Udp;
    fields.destination_port = 6000;
    fields.ttl = 64;
    for (uint16_t port = 6000; port < 6040; ++port) {
        packet::FiveTuple tuple;
        tuple.local = fields.source;
        tuple.remote = fields.destination;
        tuple.local_port = port;
        tuple.remote_port = 6000;
        tuple.protocol = fields.protocol;
        flows.push_back(&two.pair.node.flow(tuple, TrafficClass::HtHd));
        two.pair.node.session->set_mode(*flows.back(), PathMode::Flow);
    }
    two.pair.snapt.delivered.clear();
    for (uint32_t round = 0; round < 20; ++round) {
        for (size_t i = 0; i < flows.size(); ++i) {
            fields.source_port = static_cast<uint16_t>(6000 + i);
            std::vector<uint8_t> payload(100);
            base::store_big_endian<uint32_t>(payload.data(), round);
            two.pair.node.send(*flows[i], make_packet(fields, payload), {}, two.pair.now);
        }
        two.pair.run_for(milliseconds(10));
    }
    two.pair.run_for(seconds(1));
    std::array<size_t, 2> on{};
    for (const flow::Flow* flow : flows) {
        ASSERT_LT(flow->paths.pinned, 2);
        ++on[flow->paths.pinned];
    }
    EXPECT_GE(on[0], 15U);
    EXPECT_GE(on[1], 15U);
    std::map<uint16_t, uint32_t> next;
    for (const auto& packet : two.pair.snapt.delivered) {
        const auto port = base::load_big_endian<uint16_t>(&packet[20]);
        EXPECT_EQ(base::load_big_endian<uint32_t>(&packet[28]), next[port]++);
    }
    EXPECT_EQ(two.pair.snapt.delivered.size(), 20U * flows.size());
}

TEST(MultipathSim, MoreFlowsGoToTheFasterPath) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                 link_of(milliseconds(10)));
    two.tell_rate(0, 1'000'000);
    two.tell_rate(1, 3'000'000);
    std::array<size_t, 2> on{};
    for (uint16_t port = 7000; port < 7040; ++port) {
        packet::HeaderFields fields;
        fields.source = *base::IpAddress::parse("192.0.0.5");
        fields.destination = *base::IpAddress::parse("198.51.100.2");
        fields.protocol = packet::Protocol::Udp;
        fields.source_port = port;
        fields.destination_port = 7000;
        fields.ttl = 64;
        packet::FiveTuple tuple;
        tuple.local = fields.source;
        tuple.remote = fields.destination;
        tuple.local_port = port;
        tuple.remote_port = 7000;
        tuple.protocol = fields.protocol;
        flow::Flow& flow = two.pair.node.flow(tuple, TrafficClass::HtHd);
        two.pair.node.session->set_mode(flow, PathMode::Flow);
        two.pair.node.send(flow, make_packet(fields, std::vector<uint8_t>(50)), {}, two.pair.now);
        two.pair.run_for(milliseconds(200));
        ASSERT_LT(flow.paths.pinned, 2);
        ++on[flow.paths.pinned];
    }
    EXPECT_NEAR(static_cast<double>(on[1]), 30, 8) << "three standard deviations";
}

// A flow that goes along with another one is pinned by its own mode.
TEST(MultipathSim, InADatagramOfTwoModesTheFlowOfModeFlowAloneIsPinned) {
    for (const bool is_pinned_first : {true, false}) {
        SCOPED_TRACE(is_pinned_first);
        TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                     link_of(milliseconds(10)));
        SessionEnd& node = two.pair.node;
        packet::HeaderFields fields = node_fields(packet::Protocol::Udp, 6000, 6001);
        const auto packet_of_moving = make_packet(fields, std::vector<uint8_t>(50));
        flow::Flow& moving = node.flow(tuple_of(fields), TrafficClass::HtHd);
        // Its hash takes the active path.
        flow::Flow* pinned = nullptr;
        const routing::Router router(node.session->paths());
        const auto& settings = node.session->settings().classes[base::index_of(TrafficClass::HtHd)];
        const routing::SpreadKnobs knobs{settings.resequence, settings.striping};
        for (uint8_t path = UINT8_MAX; path != 0 && fields.source_port < 6040;) {
            ++fields.source_port;
            pinned = &node.flow(tuple_of(fields), TrafficClass::HtHd);
            node.session->set_mode(*pinned, PathMode::Flow);
            path = router.route(*pinned, packet::Packet{}, knobs, two.pair.now)->destination.path;
        }
        const auto packet_of_pinned = make_packet(fields, std::vector<uint8_t>(50));
        const auto& counters = node.session->queues().counters(TrafficClass::HtHd);
        const uint64_t packets = counters.packets;
        const uint64_t datagrams = counters.datagrams;
        if (is_pinned_first) {
            node.send(*pinned, packet_of_pinned, {}, two.pair.now);
        }
        node.send(moving, packet_of_moving, {}, two.pair.now);
        if (!is_pinned_first) {
            node.send(*pinned, packet_of_pinned, {}, two.pair.now);
        }
        two.pair.run_for(milliseconds(100));
        ASSERT_EQ(counters.packets - packets, 2U);
        ASSERT_EQ(counters.datagrams - datagrams, 1U);
        EXPECT_EQ(pinned->paths.pinned, 0);
        EXPECT_EQ(moving.paths.pinned, flow::FlowPaths::kNone);
    }
}

TEST(MultipathSim, AFlowLeavesAPathThatDeliversNothing) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                 link_of(milliseconds(10)));
    two.talk(milliseconds(500));
    ASSERT_LT(two.up_flow_->paths.pinned, 2);
    const uint8_t first = two.up_flow_->paths.pinned;
    two.cut(first);
    two.talk(seconds(3));
    const size_t before = two.pair.snapt.delivered.size();
    EXPECT_NE(two.up_flow_->paths.pinned, first);
    two.talk(seconds(1));
    EXPECT_GE(two.pair.snapt.delivered.size() - before, 45U);
}

// SNAPT learns of the silence from the node's move: it sends nothing more there, though it has not
// waited for the path's answer itself.
TEST(MultipathSim, AFlowDownLeavesASilentPathWithTheNode) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Flow, link_of(milliseconds(10)),
                 link_of(milliseconds(10)));
    two.talk(milliseconds(500));
    two.down_flow_->paths.pinned = 0;
    two.cut(0);
    two.talk(milliseconds(700));
    two.move();
    two.pair.run_for(milliseconds(100));
    const uint32_t first = two.sent_down;
    for (int i = 0; i < 10; ++i) {
        two.send_down();
        two.pair.run_for(milliseconds(20));
    }
    two.pair.run_for(milliseconds(100));
    const std::vector<uint32_t> came = TwoPaths::numbers(two.pair.node);
    for (uint32_t number = first; number < two.sent_down; ++number) {
        EXPECT_EQ(std::count(came.begin(), came.end(), number), 1) << number;
    }
}

// Its first packet is too long for a datagram: the copies of its pieces come first, and tell of no
// flow.
TEST(MultipathSim, AFlowWhoseFirstPacketCameAsACopyIsKnown) {
    TwoPaths two(TrafficClass::LtLd, PathMode::Redundant, link_of(milliseconds(40)),
                 link_of(milliseconds(10)));
    two.talk(milliseconds(300));
    packet::HeaderFields fields;
    fields.source = *base::IpAddress::parse("192.0.0.5");
    fields.destination = *base::IpAddress::parse("198.51.100.2");
    fields.protocol = packet::Protocol::Udp;
    fields.source_port = 7000;
    fields.destination_port = 7001;
    fields.ttl = 64;
    packet::FiveTuple tuple;
    tuple.local = fields.source;
    tuple.remote = fields.destination;
    tuple.local_port = 7000;
    tuple.remote_port = 7001;
    tuple.protocol = fields.protocol;
    flow::Flow& flow = two.pair.node.flow(tuple, TrafficClass::LtLd);
    two.pair.node.session->set_mode(flow, PathMode::Redundant);
    std::vector<uint8_t> payload(1460);
    two.pair.random.fill(payload);
    two.pair.node.send(flow, make_packet(fields, payload), {}, two.pair.now);
    two.pair.run_for(milliseconds(500));
    tuple.local = kLease;
    const flow::Flow* known = two.pair.snapt.find(tuple);
    ASSERT_NE(known, nullptr);
    EXPECT_EQ(known->owner, two.pair.snapt.session.get());
    EXPECT_EQ(known->index, flow.index);
}

TEST(MultipathSim, APathThatWasDeadForLongIsFoundAtOnceWhileTheActiveOneIsDeadToo) {
    TwoPaths two(TrafficClass::HtHd, PathMode::Handover, link_of(milliseconds(10)),
                 link_of(milliseconds(10)));
    two.talk(milliseconds(500));
    two.cut(0);
    two.cut(1);
    two.talk(seconds(50));
    ASSERT_EQ(two.pair.node.session->paths().path(1).state(), path::PathState::Dead);
    two.pair.lose(two.pair.up_link(1), 0);
    two.pair.lose(two.pair.down_link(1), 0);
    two.talk(milliseconds(1200));
    EXPECT_EQ(two.pair.node.session->paths().path(1).state(), path::PathState::Usable);
}

}  // namespace
}  // namespace continuo::tests
