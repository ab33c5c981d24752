// Flows of a relay without devices: limits, what gives way, what is refused.
#include "common/dataplane/conntrack_timeouts.hpp"
#include "tests/unit/snapt/relay/relay_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

TEST_F(RelayTest, AUsersFlowsAreLimitedOverAllItsNodesAndBothIpVersions) {
    relay.set_limits(100, 8, 3);
    const auto join = [&](const char* user, const char* node, uint8_t number) -> NodeSession& {
        SessionGrant grant;
        grant.user = user;
        grant.node = node;
        grant.lease_ipv4 = *base::IpAddress::parse("100.64.0." + std::to_string(number));
        grant.lease_ipv6 = *base::IpAddress::parse("fd93:47::" + std::to_string(number));
        return *relay.table().find(relay.reserve(grant)->wire_id);
    };
    const auto opens = [&](NodeSession& node, bool is_v4, uint16_t port) {
        session::FlowOpening opening;
        opening.index = port;
        opening.tuple.local = is_v4 ? *node.grant.lease_ipv4 : *node.grant.lease_ipv6;
        opening.tuple.remote = *base::IpAddress::parse(is_v4 ? "198.51.100.2" : "2001:db8::2");
        opening.tuple.local_port = port;
        opening.tuple.remote_port = 53;
        opening.tuple.protocol = packet::Protocol::Udp;
        flow::Flow* flow = relay.flows().on_flow_opened(node.session, opening, loop.now());
        if (flow != nullptr) {
            packet::PacketSummary answer;
            answer.tuple = opening.tuple;
            relay.flows().table().on_packet(*flow, flow::Direction::Down, answer, loop.now());
        }
        return flow != nullptr;
    };
    NodeSession& laptop = join("alice", "laptop", 2);
    NodeSession& phone = join("alice", "phone", 3);
    NodeSession& other = join("bob", "laptop", 4);
    EXPECT_TRUE(opens(laptop, true, 1));
    EXPECT_TRUE(opens(laptop, false, 2));
    EXPECT_TRUE(opens(phone, true, 3));
    EXPECT_FALSE(opens(phone, false, 4));
    EXPECT_FALSE(opens(laptop, true, 5));
    EXPECT_EQ(relay.drops().count(base::DropReason::FlowLimit), 2U);
    EXPECT_TRUE(opens(other, true, 6));
    // Everything of a session is free again with its end.
    relay.close(laptop.wire_id);
    EXPECT_TRUE(opens(phone, false, 7));
    EXPECT_TRUE(opens(phone, true, 8));
    EXPECT_FALSE(opens(phone, true, 9));
}

TEST_F(RelayTest, AFlowThatWasNeverAnsweredGivesWayToANewOneOfItsUser) {
    relay.set_limits(100, 8, 16);
    NodeSession& alice = add_session(2);
    NodeSession& bob = add_session(3);
    const flow::Flow& other = add_flow(bob, 0);
    for (int i = 0; i < 100; ++i) {
        add_flow(alice, 0);
    }
    EXPECT_EQ(alice.flows, 16U);
    EXPECT_EQ(alice.share->flows.flows(), 16U);
    EXPECT_EQ(alice.session.flows(), 16U) << "their indexes are free again";
    EXPECT_NE(relay.flows().table().find(other.tuple), nullptr);
    EXPECT_EQ(relay.flows().table().gave_way(), 84U);
    EXPECT_EQ(relay.drops().count(base::DropReason::FlowLimit), 0U);
}

// In one session after the other, as fast as may be: what connection tracking has still to forget
// counts.
TEST_F(RelayTest, UnansweredFlowsOfAUserAreBoundedInTheKernelToo) {
    constexpr size_t kUserFlows = 100;
    relay.set_limits(1000, 8, kUserFlows);
    size_t opened = 0;
    for (uint8_t round = 0; round < 20; ++round) {
        SessionGrant grant;
        grant.user = "alice";
        grant.node = "node" + std::to_string(round);
        grant.lease_ipv4 = base::IpAddress::v4(0x64400002U + round);
        NodeSession& node = *relay.table().find(relay.reserve(grant)->wire_id);
        for (int i = 0; i < 100; ++i) {
            opened += open_flow(node) ? 1U : 0U;
        }
        relay.close(node.wire_id);
    }
    EXPECT_GE(opened, nat::kMostGone);
    EXPECT_LE(opened, kUserFlows + nat::kMostGone);
    EXPECT_GT(relay.drops().count(base::DropReason::FlowLimit), 0U);
    ASSERT_GT(events.gone.size(), 0U);
    NodeSession& other = add_session(9);
    EXPECT_NE(open_flow(other), nullptr) << "another user's";
    const size_t told = events.gone.size();
    relay.on_flows_forgotten();
    SessionGrant grant;
    grant.user = "alice";
    grant.lease_ipv4 = base::IpAddress::v4(0x64400063U);
    NodeSession& again = *relay.table().find(relay.reserve(grant)->wire_id);
    for (size_t i = 0; i < std::min(told, kUserFlows); ++i) {
        EXPECT_NE(open_flow(again), nullptr) << "their places are free";
    }
}

// A node makes room for a flow among its own, and the limit here counts them, too.
TEST_F(RelayTest, WhatTheNodeEndsMakesRoomAtOnce) {
    constexpr size_t kUserFlows = 16;
    relay.set_limits(100, 8, kUserFlows);
    NodeSession& node = add_session(2);
    std::vector<flow::Flow*> flows;
    for (size_t i = 0; i < kUserFlows; ++i) {
        flows.push_back(open_flow(node));
        packet::PacketSummary answer;
        answer.tuple = flows.back()->tuple;
        relay.flows().table().on_packet(*flows.back(), flow::Direction::Down, answer, loop.now());
    }
    EXPECT_EQ(open_flow(node), nullptr);
    relay.flows().on_flows_closed(node.session, *flows.front(), loop.now());
    EXPECT_EQ(node.share->flows.flows(), kUserFlows - 1);
    EXPECT_NE(open_flow(node), nullptr);
    EXPECT_EQ(node.share->tracked->gone.flows, 0U) << "the kernel keeps what was answered";
}

// The word of its end was lost.
TEST_F(RelayTest, AFlowWhoseIndexAnotherTakesEndsSoon) {
    NodeSession& node = add_session(2);
    flow::Flow& former = add_flow(node, 0);
    session::FlowOpening opening;
    opening.index = former.index;
    opening.tuple = former.tuple;
    ++opening.tuple.remote_port;
    ASSERT_NE(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
    EXPECT_LE(former.expires_at, loop.now() + flow::timeout::kEndedThere);
}

// Nothing else is remembered for so short a time that the bound of a user holds.
TEST_F(RelayTest, OnlyUdpOfAUserWithFewFlowsStaysWithTheNat) {
    relay.set_limits(100, 8, 16);
    NodeSession& node = add_session(2);
    const auto tuple_at = [&](uint16_t port) {
        packet::FiveTuple tuple;
        tuple.local = *node.grant.lease_ipv4;
        tuple.remote = *base::IpAddress::parse("198.51.100.2");
        tuple.remote_port = port;
        tuple.protocol = packet::Protocol::Udp;
        return tuple;
    };
    const auto stays = [&](packet::Protocol protocol, uint16_t port) {
        session::FlowOpening opening;
        opening.index = port;
        opening.tuple = tuple_at(port);
        opening.tuple.protocol = protocol;
        return relay.flows().connections().may_stay_with_nat(
            *relay.flows().on_flow_opened(node.session, opening, loop.now()));
    };
    EXPECT_TRUE(stays(packet::Protocol::Udp, 1000));
    flow::Flow& ended = *relay.flows().table().find(tuple_at(1000));
    relay.flows().table().on_ended_there(ended, loop.now());
    EXPECT_FALSE(relay.flows().connections().may_stay_with_nat(ended)) << "the node ended it";
    EXPECT_FALSE(stays(packet::Protocol::Udp, 53)) << "lives shorter than 30 s";
    EXPECT_FALSE(stays(packet::Protocol::Tcp, 80)) << "without SYN it would be known for hours";
    EXPECT_FALSE(stays(packet::Protocol::Icmp, 0));
    EXPECT_FALSE(stays(packet::Protocol::Udp, 1001)) << "more than a quarter";
    relay.set_limits(100, 8, 0);
    EXPECT_TRUE(stays(packet::Protocol::Udp, 1002)) << "no limit";
    // The bound is made of as many in each life of a flow, for what is left of the kernel's.
    const auto settings = dataplane::conntrack_timeouts();
    const auto udp = std::find_if(settings.begin(), settings.end(), [](const auto& setting) {
        return setting.key == "net/netfilter/nf_conntrack_udp_timeout";
    });
    ASSERT_NE(udp, settings.end());
    const auto kernel = base::seconds(std::stoi(udp->value));
    EXPECT_LE(kernel - flow::timeout::kUdpUnanswered, 3 * flow::timeout::kUdpUnanswered);
}

TEST_F(RelayTest, TheKernelKeepsWhatWasAnswered) {
    NodeSession& node = add_session(2);
    for (int i = 0; i < 100; ++i) {
        flow::Flow& flow = add_flow(node, 0);
        packet::PacketSummary answer;
        answer.tuple = flow.tuple;
        relay.flows().table().on_packet(flow, flow::Direction::Down, answer, loop.now());
    }
    const TrackedShare& share = *node.share->tracked;
    add_flow(node, 0);
    relay.close(node.wire_id);
    EXPECT_EQ(share.gone.flows, 1U) << "it lives until that one is forgotten";
    EXPECT_EQ(share.left.count(), 100U);
}

// It goes to its node in a packet like any other.
TEST_F(RelayTest, WhoAsksForAFlowTooManyIsAnswered) {
    relay.set_limits(100, 8, 1);
    NodeSession& node = add_session(2);
    packet::PacketSummary answer;
    flow::Flow& only = add_flow(node, 0);
    answer.tuple = only.tuple;
    relay.flows().table().on_packet(only, flow::Direction::Down, answer, loop.now());
    session::FlowOpening opening;
    opening.index = 99;
    opening.tuple = only.tuple;
    opening.tuple.protocol = packet::Protocol::Udp;
    opening.tuple.remote_port = 10'000;
    EXPECT_EQ(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
    EXPECT_EQ(node.session.queues().packets(), 1U);
    // A SYN gets its reset.
    packet::HeaderFields fields;
    fields.protocol = packet::Protocol::Tcp;
    fields.flags = packet::tcp_flag::kSyn;
    fields.sequence = 12345;
    opening.tuple.protocol = packet::Protocol::Tcp;
    opening.fields = &fields;
    EXPECT_EQ(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
    EXPECT_EQ(node.session.queues().packets(), 2U);
    opening.fields = nullptr;
    EXPECT_EQ(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
    EXPECT_EQ(node.session.queues().packets(), 2U) << "nobody would believe it";
    opening.tuple.protocol = packet::Protocol::Udp;
    for (uint16_t port = 1; port <= 1000; ++port) {
        opening.tuple.local_port = port;
        EXPECT_EQ(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
    }
    EXPECT_EQ(node.session.queues().packets(), kMaxRefusalsPerSecond);
    EXPECT_EQ(relay.drops().count(base::DropReason::FlowLimit), 1003U);
}

TEST_F(RelayTest, WhoAsksForTooMuchTakesNobodyElsesAnswer) {
    relay.set_limits(100, 8, 1);
    const auto is_answered = [&](NodeSession& node) {
        const size_t before = node.session.queues().packets();
        session::FlowOpening opening;
        opening.index = 99;
        opening.tuple.local = *node.grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse("198.51.100.2");
        opening.tuple.protocol = packet::Protocol::Udp;
        opening.tuple.remote_port = 10'000;
        EXPECT_EQ(relay.flows().on_flow_opened(node.session, opening, loop.now()), nullptr);
        return node.session.queues().packets() > before;
    };
    NodeSession& greedy = add_session(2);
    NodeSession& modest = add_session(3);
    for (NodeSession* node : {&greedy, &modest}) {
        packet::PacketSummary answer;
        flow::Flow& only = add_flow(*node, 0);
        answer.tuple = only.tuple;
        relay.flows().table().on_packet(only, flow::Direction::Down, answer, loop.now());
    }
    for (uint32_t i = 0; i < kMaxRefusalsPerSecond; ++i) {
        EXPECT_TRUE(is_answered(greedy));
    }
    EXPECT_FALSE(is_answered(greedy));
    EXPECT_TRUE(is_answered(modest));
}

// To where nodes may not send: nobody is charged, and the ledger has no slot of it.
TEST_F(RelayTest, ARefusedFlowIsNobodysAndCostsTheRulesLittle) {
    nat::RelayOptions options;
    options.lease_ipv4 = base::IpPrefix::parse("100.64.0.0/16");
    RelaySettings settings;
    settings.refusals = nat::Refusals(options);
    Relay refusing(loop, settings, slots, random, events);
    SessionGrant grant;
    grant.user = "alice";
    grant.accounting_number = 5;
    grant.lease_ipv4 = *base::IpAddress::parse("100.64.0.2");
    NodeSession& node = *refusing.table().find(refusing.reserve(grant)->wire_id);
    const auto open = [&](const char* remote, uint16_t index) {
        session::FlowOpening opening;
        opening.index = index;
        opening.tuple.local = *grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse(remote);
        opening.tuple.local_port = index;
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = packet::Protocol::Udp;
        return refusing.flows().on_flow_opened(node.session, opening, loop.now());
    };
    flow::Flow* const refused = open("10.1.1.1", 1);
    ASSERT_NE(refused, nullptr);
    EXPECT_EQ(refused->state, flow::FlowState::Refused);
    EXPECT_EQ(slots.in_use(), 0U);
    EXPECT_EQ(open("100.64.0.9", 2)->state, flow::FlowState::Refused);
    flow::Flow* const good = open("203.0.113.10", 3);
    EXPECT_EQ(good->state, flow::FlowState::Opening);
    EXPECT_EQ(good->counters->session_number, 5U);
    EXPECT_EQ(slots.in_use(), 1U);
    refusing.set_local_addresses({*base::IpAddress::parse("203.0.113.10")});
    EXPECT_EQ(open("203.0.113.10", 4)->state, flow::FlowState::Refused);
    EXPECT_EQ(good->state, flow::FlowState::Opening) << "it had begun";
    // Reclassified, it is still nobody's.
    EXPECT_TRUE(
        refusing.flows().table().reclassify(*refused, base::TrafficClass::HtHd, loop.now()));
    EXPECT_EQ(slots.in_use(), 1U);
    refusing.close(node.wire_id);
    EXPECT_EQ(slots.in_use(), 0U);
}

TEST(ChargedSlots, CountFlowsByClass) {
    flow::HeapSlots charged(8);
    ChargedSlots slots(charged, 8);
    const auto take = [&](base::TrafficClass traffic_class, uint32_t session) {
        flow::SlotRequest request;
        request.traffic_class = traffic_class;
        request.session_number = session;
        return slots.take(request);
    };
    const auto flows = [&](base::TrafficClass traffic_class) {
        return slots.by_class()[base::index_of(traffic_class)];
    };
    flow::LiveSlot* bulk = take(base::TrafficClass::HtHd, 1);
    flow::LiveSlot* refused = take(base::TrafficClass::HtHd, ChargedSlots::kNobody);
    flow::LiveSlot* call = take(base::TrafficClass::HtLd, 1);
    flow::LiveSlot* tunnel = slots.take_for_tunnel({});
    EXPECT_EQ(flows(base::TrafficClass::HtHd), 2U);
    EXPECT_EQ(flows(base::TrafficClass::HtLd), 1U);
    EXPECT_EQ(flows(base::TrafficClass::LtHd), 0U) << "the tunnel itself is no flow";
    slots.release(bulk, flow::Cause::Closed);
    slots.release(call, flow::Cause::ClassChange);
    slots.release_of_tunnel(tunnel, flow::Cause::SessionEnd);
    EXPECT_EQ(flows(base::TrafficClass::HtHd), 1U);
    EXPECT_EQ(flows(base::TrafficClass::HtLd), 0U);
    EXPECT_EQ(flows(base::TrafficClass::LtHd), 0U);
    slots.release(refused, flow::Cause::Closed);
    EXPECT_EQ(flows(base::TrafficClass::HtHd), 0U);
}

}  // namespace
}  // namespace continuo::snapt::relay
