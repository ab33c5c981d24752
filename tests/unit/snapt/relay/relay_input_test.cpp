// A relay with devices, in a network namespace of its own: what one node sends costs it alone.
#include "tests/unit/snapt/relay/relay_input_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

TEST_F(RelayInput, AFloodOfPacketsKeepsNoOtherUserWaiting) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    constexpr size_t kDatagrams = 25;
    for (size_t i = 0; i < kDatagrams; ++i) {
        hostile->send(hostile->packets(kInOne));
    }
    other->send(other->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), kInOne) << "that had come before";
    const auto is_done = [&] {
        return hostile->packets_up() + hostile->at_relay().dropped_inputs() == kDatagrams * kInOne;
    };
    EXPECT_TRUE(loop.run_until(is_done, base::seconds(20)));
    EXPECT_EQ(hostile->packets_up(), kDatagrams * kInOne) << "it takes its time, nothing else";
    EXPECT_EQ(other->at_relay().dropped_inputs(), 0U);
}

// However the flow was opened. Back only after a while: what is late of the class before shall not
// change it to and fro.
TEST_F(RelayInput, PacketsAreChargedInTheClassOfTheirDatagrams) {
    const auto node = make_node(2);
    const auto send = [&](size_t count, TrafficClass traffic_class) {
        const uint64_t until = node->packets_up() + count;
        node->send(node->packets(count, traffic_class));
        return loop.run_until([&] { return node->packets_up() == until; }, base::seconds(20));
    };
    const auto packets_of = [&](TrafficClass traffic_class) {
        uint64_t packets = flow::value(slots.released_totals(traffic_class).packets_up);
        relay->flows().table().for_each([&](const flow::Flow& flow) {
            packets += flow.traffic_class == traffic_class
                           ? flow::value(flow.counters->counters.packets_up)
                           : 0;
        });
        return packets;
    };
    ASSERT_TRUE(send(3, TrafficClass::HtHd));
    ASSERT_TRUE(send(100, TrafficClass::HtLd));
    EXPECT_EQ(packets_of(TrafficClass::HtHd), 3U);
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 100U);
    ASSERT_TRUE(send(5, TrafficClass::HtHd));
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 105U) << "late";
    const base::TimePoint until = loop.refresh_now() + kClassStays;
    ASSERT_TRUE(loop.run_until([&] { return loop.refresh_now() >= until; }, base::seconds(20)));
    ASSERT_TRUE(send(7, TrafficClass::HtHd));
    EXPECT_EQ(packets_of(TrafficClass::HtHd), 10U);
    ASSERT_TRUE(send(1, TrafficClass::HtLd));
    EXPECT_EQ(packets_of(TrafficClass::HtLd), 106U) << "at once";
}

// Control, padding, copies, repeats: of a session and class, as it goes on and to the last byte.
TEST_F(RelayInput, WhatTheTunnelCarriesBesidePacketsIsCounted) {
    const auto node = make_node(2);
    const auto& counters = node->at_relay().session.counters();
    const auto tunnel_bytes = [&] {
        uint64_t bytes = 0;
        for (const TrafficClass traffic_class : base::kAllTrafficClasses) {
            const flow::LiveCounters& sums = slots.released_totals(traffic_class);
            bytes += flow::value(sums.tunnel_up) + flow::value(sums.tunnel_down);
        }
        return bytes;
    };
    Bytes padding(1300);
    base::ByteWriter writer(padding);
    wire::Pad{padding.size()}.serialize(writer);
    for (size_t i = 0; i < 20; ++i) {
        node->send(node->seal(padding, 0));
    }
    ASSERT_TRUE(loop.run_until([&] { return counters.overhead_received() > 20 * padding.size(); },
                               base::seconds(20)));
    EXPECT_EQ(slots.in_use(), 0U);
    relay->look_at_rates(loop.now());
    EXPECT_EQ(slots.in_use(), 1U) << "what is less than a step waits";
    const uint64_t bytes = counters.overhead_received() + counters.overhead_sent();
    relay->close(node->wire_id());
    EXPECT_EQ(slots.in_use(), 0U);
    EXPECT_EQ(tunnel_bytes(), bytes);
}

// Nobody waits for it; the test above has two.
TEST_F(RelayInput, OneThatSendsAloneIsServedInLongRounds) {
    const auto node = make_node(2);
    node->send(node->packets(kInOne));
    ASSERT_TRUE(loop.run_until([&] { return node->packets_up() > 0; }, base::seconds(20)));
    EXPECT_EQ(node->packets_up(), kInOne) << "in one round";
}

// To read it is a system call: a node that sends alone shall not pay for what it cannot owe
// anybody.
TEST_F(RelayInput, ProcessorTimeIsReadOnlyWhereSeveralSend) {
    const auto node = make_node(2);
    const auto send = [&](Node& sender, size_t datagrams) {
        for (size_t i = 0; i < datagrams; ++i) {
            const uint64_t before = sender.packets_up();
            pass(base::milliseconds(1));
            sender.send(sender.packets(1));
            ASSERT_TRUE(
                loop.run_until([&] { return sender.packets_up() > before; }, base::seconds(20)));
        }
    };
    worked_reads = 0;
    send(*node, 10);
    EXPECT_EQ(worked_reads, 0U);
    const auto other = make_node(3);
    worked_reads = 0;
    send(*node, 10);
    EXPECT_GE(worked_reads, 10U) << "a turn that is long by the clock is measured by it";
}

TEST_F(RelayInput, WhatIsBeyondItsQueueIsTheSendersLoss) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const size_t fits = turns::kInputQueueBytes / packet::kSmallBufferBytes;
    const size_t more = 200;
    for (size_t i = 0; i < fits + more; ++i) {
        hostile->send(hostile->packets(200));
    }
    other->send(other->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_GE(hostile->at_relay().dropped_inputs(), more - 100);
    EXPECT_LE(hostile->at_relay().dropped_inputs(), more);
    EXPECT_EQ(drops(DropReason::InputFull), hostile->at_relay().dropped_inputs());
    const uint64_t dropped = drops(DropReason::InputFull);
    relay->close(hostile->wire_id());
    EXPECT_EQ(drops(DropReason::InputFull), dropped) << "counted beyond the session's end";
}

// More comes than can be handled, and to take it in alone takes longer than a round.
TEST_F(RelayInput, AFloodDoesNotKeepTheRelayFromItsWork) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const auto flood = [&](size_t datagrams) {
        for (size_t i = 0; i < datagrams; ++i) {
            hostile->send(hostile->packets(1));
        }
    };
    on_reads(hostile->at_relay().lane.queue, flood);
    other->send(other->packets(1));
    flood(200);
    constexpr int kMostWakes = 2;
    int wakes = 0;
    const auto is_done = [&] { return other->packets_up() == 1 || wakes++ == kMostWakes; };
    ASSERT_TRUE(loop.run_until(is_done, base::seconds(20)));
    EXPECT_EQ(other->packets_up(), 1U);
    EXPECT_GT(hostile->packets_up(), 0U);
}

TEST_F(RelayInput, ANodeThatComesByTcpHasItsTurnsToo) {
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    const auto queue = std::make_shared<dataplane::DatagramQueue>();
    constexpr size_t kDatagrams = 25;
    for (size_t i = 0; i < kDatagrams; ++i) {
        const Bytes body = [&] {
            Bytes made{0x40, 0x3F, 0x01, 0x05, 0xC6, 0x33, 0x64, 0x07, 0x9C, 0x40,
                       0x00, 0x35, 0x01, 0x00, 0x40, 0x00, 0x01, 0x10, 0x00};
            made.insert(made.end(), kInOne - 1, 0x05);
            return made;
        }();
        ASSERT_TRUE(queue->push(hostile->seal(body, wire::kTcpPath), 0).is_taken);
    }
    other->send(other->packets(1));
    relay->on_stream(hostile->wire_id(), *queue, kRelay);
    EXPECT_LT(hostile->packets_up(), kInOne);
    ASSERT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
    EXPECT_LT(hostile->packets_up(), 2 * kInOne);
    const auto is_done = [&] { return hostile->packets_up() == kDatagrams * kInOne; };
    EXPECT_TRUE(loop.run_until(is_done, base::seconds(20)));
}

// A network may end TCP and let UDP pass.
TEST_F(RelayInput, ANodeThatIsHeardIsHereWithoutItsLink) {
    const auto node = make_node(2);
    relay->open_stream(node->wire_id(), {});
    relay->close_stream(node->wire_id());
    const base::TimePoint lost_at = loop.refresh_now();
    EXPECT_FALSE(relay->table().is_here(node->at_relay())) << "it may have ended";
    ASSERT_TRUE(loop.run_until([&] { return loop.now() > lost_at; }, base::seconds(20)));
    node->send(node->packets(1));
    ASSERT_TRUE(loop.run_until([&] { return node->packets_up() == 1; }, base::seconds(20)));
    EXPECT_TRUE(relay->table().is_here(node->at_relay()));
}

TEST_F(RelayInput, ASessionMayEndWhileItsWorkWaits) {
    const auto hostile = make_node(2);
    const auto queue = std::make_shared<dataplane::DatagramQueue>();
    for (size_t i = 0; i < 25; ++i) {
        hostile->send(hostile->packets(kInOne));
    }
    ASSERT_TRUE(loop.run_until([&] { return hostile->packets_up() > 0; }, base::seconds(20)));
    const auto& backlog = hostile->at_relay().lane.backlog;
    ASSERT_TRUE(loop.run_until([&] { return !backlog.is_empty(); }, base::seconds(20)));
    const uint64_t packets = backlog.packets();
    ASSERT_GT(packets, 0U);
    relay->close(hostile->wire_id());
    EXPECT_EQ(drops(DropReason::NoSession), packets);
    const uint64_t datagrams = drops(DropReason::UnknownSession);
    EXPECT_GT(datagrams, 15U);
    EXPECT_LT(datagrams, 25U);
    const auto other = make_node(3);
    other->send(other->packets(1));
    EXPECT_TRUE(loop.run_until([&] { return other->packets_up() == 1; }, base::seconds(20)));
}

// The kernel has forgotten that flow, and would track it again.
TEST_F(RelayInput, WhatWaitsWhenItsFlowGivesWayIsNotWritten) {
    relay->set_limits(100, 8, 1);
    const auto hostile = make_node(2);
    for (size_t i = 0; i < 25; ++i) {
        hostile->send(hostile->packets(kInOne));
    }
    const auto& backlog = hostile->at_relay().lane.backlog;
    ASSERT_TRUE(loop.run_until([&] { return !backlog.is_empty(); }, base::seconds(20)));
    const uint64_t packets = backlog.packets();
    session::FlowOpening opening;
    opening.index = 77;
    opening.tuple.local = hostile->lease();
    opening.tuple.remote = kFar;
    opening.tuple.remote_port = 53;
    opening.tuple.protocol = packet::Protocol::Udp;
    ASSERT_NE(relay->flows().on_flow_opened(hostile->at_relay().session, opening, loop.now()),
              nullptr);
    EXPECT_TRUE(
        loop.run_until([&] { return drops(DropReason::FlowLimit) >= packets; }, base::seconds(20)));
}

// Frames that wait for company belong to other flows.
TEST_F(RelayInput, AFlowThatGivesWayEndsNobodysWait) {
    relay->set_limits(100, 8, 2);
    const auto hostile = make_node(2);
    const auto other = make_node(3);
    session::FlowOpening opening;
    opening.tuple.remote = kFar;
    opening.tuple.protocol = packet::Protocol::Tcp;
    const auto open = [&](const Node& node, uint16_t port) {
        opening.index = port;
        opening.tuple.local = node.lease();
        opening.tuple.local_port = port;
        opening.tuple.remote_port = 80;
        return relay->flows().on_flow_opened(node.at_relay().session, opening, loop.now());
    };
    const auto send = [&](const Node& node, flow::Flow& flow) {
        packet::HeaderFields fields;
        fields.protocol = packet::Protocol::Tcp;
        fields.source = flow.tuple.local;
        fields.destination = flow.tuple.remote;
        fields.source_port = flow.tuple.local_port;
        fields.destination_port = flow.tuple.remote_port;
        fields.flags = packet::tcp_flag::kAck;
        fields.ttl = 64;
        relay->flows().deliver(node.at_relay().session, flow, fields, Bytes(100), loop.now());
    };
    flow::Flow* const waiting = open(*other, 1);
    flow::Flow* const displaced = open(*hostile, 1);
    ASSERT_NE(waiting, nullptr);
    ASSERT_NE(displaced, nullptr);
    send(*other, *waiting);
    send(*hostile, *displaced);
    const packet::Coalescer& coalescer = relay->engine().tun().coalescer();
    const uint64_t before = coalescer.frames();
    ASSERT_NE(open(*hostile, 2), nullptr);
    ASSERT_NE(open(*hostile, 3), nullptr);
    ASSERT_EQ(relay->flows().table().gave_way(), 1U);
    EXPECT_EQ(coalescer.frames(), before + 1) << "its own";
    relay->engine().tun().coalescer().flush();
    EXPECT_EQ(coalescer.frames(), before + 2);
}

// As what a resequencer lets go when its wait is over, outside of any turn.
TEST_F(RelayInput, WhatWasHeldForItsOrderGoesOnAtOnceWhileNobodyWaits) {
    const auto node = make_node(2);
    const Bytes packet = udp_packet(*node, 1400);
    for (size_t i = 0; i < reception::Resequencer::kPackets; ++i) {
        EXPECT_NE(deliver(*node, packet), nullptr);
    }
    relay->engine().tun().coalescer().flush();
    EXPECT_EQ(node->at_relay().up_bytes, reception::Resequencer::kPackets * packet.size());
    EXPECT_EQ(node->at_relay().dropped_inputs(), 0U);
    EXPECT_EQ(relay->engine().kept_memory().used_bytes(), 0U);
}

TEST_F(RelayInput, IcmpErrorsOfNoFlowAreDropped) {
    const auto node = make_node(2);
    const uint64_t before = relay->engine().tun().coalescer().frames();
    EXPECT_EQ(deliver(*node, icmp_error(node->lease(), kFar)), nullptr);
    EXPECT_EQ(drops(DropReason::NoBinding), 1U);
    EXPECT_EQ(relay->engine().tun().coalescer().frames(), before);
    // The other way, by the kernel.
    const io::UniqueFd raw(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW));
    const Bytes packet = icmp_error(kFar, node->lease());
    sockaddr_in to{};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, node->lease().octets.data(), 4);
    ASSERT_EQ(::sendto(raw.value(), packet.data(), packet.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof to),
              static_cast<ssize_t>(packet.size()));
    EXPECT_TRUE(
        loop.run_until([&] { return drops(DropReason::NoBinding) == 2; }, base::seconds(20)));
    EXPECT_EQ(relay->flows().table().size(), 0U);
}

TEST_F(RelayInput, FragmentsOfOneUserDisplaceNoOthers) {
    const auto node = make_node(2);
    const auto hostile = make_node(3);
    EXPECT_NE(deliver(*node, fragment(*node, 1, true)), nullptr);
    for (uint16_t id = 0; id < 1000; ++id) {
        EXPECT_NE(deliver(*hostile, fragment(*hostile, id, true)), nullptr);
    }
    EXPECT_NE(deliver(*node, fragment(*node, 1, false)), nullptr);
    EXPECT_EQ(drops(DropReason::NoBinding), 0U);
}

}  // namespace
}  // namespace continuo::snapt::relay
