// Sessions of a relay without devices: what control tells of them.
#include "common/flow/slot_source.hpp"
#include "snapt/relay.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt {
namespace {

using base::PathMode;
using Modes = std::vector<control::AppMode>;

class NoEvents final : public RelayEvents {
  public:
    void on_session_closed(const NodeSession& /*session*/) override {}
    void on_session_moved(const NodeSession& /*session*/) override {}
    void on_session_silent(const NodeSession& /*session*/) override {}
    void on_flows_gave_way(std::vector<packet::FiveTuple> flows) override {
        gone = std::move(flows);
    }
    std::vector<packet::FiveTuple> gone;
};

class RelayTest : public ::testing::Test {
  protected:
    static constexpr size_t kMaxFlows = 1000;

    NodeSession& add_session(uint8_t number) {
        SessionGrant grant;
        grant.user = "user" + std::to_string(number);
        grant.node = "node";
        grant.lease_ipv4 = *base::IpAddress::parse("100.64.0." + std::to_string(number));
        const auto reservation = relay.reserve(grant);
        EXPECT_TRUE(reservation);
        return *relay.find(reservation->wire_id);
    }
    flow::Flow& add_flow(NodeSession& node, uint16_t app) {
        session::FlowOpening opening;
        opening.index = next_index_++;
        opening.tuple.local = *node.grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse("198.51.100.2");
        opening.tuple.local_port = static_cast<uint16_t>(opening.index);
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = packet::Protocol::Tcp;
        opening.open.app = app;
        return *relay.on_flow_opened(node.session, opening, loop.now());
    }
    void run_for(base::Duration span) {
        io::DeadlineTimer end(loop, [this] { loop.stop(); });
        end.set(loop.refresh_now() + span);
        loop.run();
    }

    io::EventLoop loop;
    flow::HeapSlots slots{kMaxFlows};
    base::SeededRandom random{1};
    NoEvents events;
    packet::PacketPool pool{100, 4};
    Relay relay{loop, {}, slots, random, events};

  private:
    uint32_t next_index_ = 1;
};

TEST_F(RelayTest, AModeIsOfTheFlowsWithThatTagOfThatSession) {
    NodeSession& node = add_session(2);
    NodeSession& other = add_session(3);
    flow::Flow& tagged = add_flow(node, 7);
    flow::Flow& untagged = add_flow(node, 0);
    flow::Flow& foreign = add_flow(other, 7);
    relay.set_modes(node.wire_id, Modes{{7, PathMode::Packet}});
    EXPECT_EQ(tagged.paths.mode, PathMode::Packet);
    EXPECT_EQ(untagged.paths.mode, PathMode::Handover);
    EXPECT_EQ(foreign.paths.mode, PathMode::Handover);
    EXPECT_EQ(add_flow(node, 7).paths.mode, PathMode::Packet);
}

// However often a node tells something, all flows are looked at ten times a second at most.
TEST_F(RelayTest, ModesThatFollowEachOtherAreAppliedTogether) {
    NodeSession& node = add_session(2);
    flow::Flow& first = add_flow(node, 7);
    flow::Flow& second = add_flow(node, 8);
    relay.set_modes(node.wire_id, Modes{{7, PathMode::Packet}});
    relay.set_modes(node.wire_id, Modes{{8, PathMode::Flow}});
    relay.set_modes(node.wire_id, Modes{{7, PathMode::Redundant}});
    EXPECT_EQ(first.paths.mode, PathMode::Packet);
    EXPECT_EQ(second.paths.mode, PathMode::Handover);
    EXPECT_EQ(add_flow(node, 8).paths.mode, PathMode::Flow) << "a new one has it at once";
    run_for(kModesInterval * 2);
    EXPECT_EQ(first.paths.mode, PathMode::Redundant);
    EXPECT_EQ(second.paths.mode, PathMode::Flow);
}

TEST_F(RelayTest, AModeThatIsKnownCostsNothing) {
    NodeSession& node = add_session(2);
    Modes modes;
    for (uint32_t tag = 0; tag < 2000; ++tag) {
        modes.push_back({tag, PathMode::Handover});
    }
    relay.set_modes(node.wire_id, modes);
    EXPECT_TRUE(node.modes.empty()) << "all have it anyway";
    EXPECT_FALSE(node.has_new_modes);
    modes.assign(1, {7, PathMode::Packet});
    relay.set_modes(node.wire_id, modes);
    relay.set_modes(node.wire_id, modes);
    EXPECT_FALSE(node.has_new_modes) << "it was applied, and is no news";
    relay.set_modes(node.wire_id, Modes{{70'000, PathMode::Flow}});
    EXPECT_FALSE(node.has_new_modes) << "no flow has such a tag";
    for (uint32_t tag = 0; tag < 2000; ++tag) {
        relay.set_modes(node.wire_id, Modes{{tag, PathMode::Flow}});
    }
    EXPECT_LE(node.modes.size(), 1024U);
}

TEST_F(RelayTest, AtTheLimitOfAUserTheNodeThatWasSilentLongestGivesWay) {
    relay.set_limits(100, 3, 0);
    const auto join = [&](const char* user, const char* name) {
        SessionGrant grant;
        grant.user = user;
        grant.node = name;
        grant.told_node = name;
        const auto reserved = relay.reserve(grant);
        run_for(base::milliseconds(2));  // the next one is heard later
        return reserved ? reserved->wire_id : uint16_t{0};
    };
    const auto has = [&](const char* user, const char* name) {
        SessionGrant grant;
        grant.user = user;
        grant.told_node = name;
        return relay.session_of(grant) != nullptr;
    };
    ASSERT_NE(join("bob", "old"), 0);
    const uint16_t first = join("alice", "first");
    join("alice", "second");
    const uint16_t third = join("alice", "third");
    relay.open_stream(first, {});
    ASSERT_NE(join("alice", "fourth"), 0);
    EXPECT_TRUE(has("alice", "first")) << "its control link is open";
    EXPECT_FALSE(has("alice", "second"));
    EXPECT_TRUE(has("bob", "old")) << "another's";
    EXPECT_EQ(relay.sessions_of("alice"), 3U);
    relay.close_stream(first);
    ASSERT_NE(join("alice", "fifth"), 0);
    EXPECT_FALSE(has("alice", "first"));
    for (const auto& node : relay.sessions()) {
        relay.open_stream(node->wire_id, {});
    }
    EXPECT_EQ(join("alice", "sixth"), 0) << "all are here";
    EXPECT_NE(relay.find(third), nullptr);
    EXPECT_EQ(relay.sessions_of("alice"), 3U);
}

// With keepalives an hour apart nobody is silent, and without any pause between them everybody.
TEST_F(RelayTest, ANodeThatDoesNotAnswerGivesWayThoughItsLinkIsOpen) {
    RelaySettings settings;
    settings.keepalive = base::seconds(0);
    settings.sign_of_life_wait = base::seconds(0);
    settings.max_user_sessions = 1;
    Relay small(loop, settings, slots, random, events);
    SessionGrant first;
    first.user = "alice";
    first.node = "first";
    SessionGrant second = first;
    second.node = "second";
    ASSERT_TRUE(small.reserve(first));
    const uint16_t wire_id = small.sessions().back()->wire_id;
    small.open_stream(wire_id, {});
    run_for(base::milliseconds(2));
    EXPECT_FALSE(small.reserve(second)) << "it may have nothing to send";
    EXPECT_TRUE(small.wants_sign_of_life(wire_id));
    EXPECT_FALSE(small.wants_sign_of_life(wire_id)) << "once";
    run_for(base::milliseconds(2));
    EXPECT_FALSE(small.is_here(*small.sessions().back()));
    EXPECT_TRUE(small.reserve(second));
    ASSERT_EQ(small.sessions().size(), 1U);
    EXPECT_EQ(small.sessions().back()->grant.node, "second");
}

TEST_F(RelayTest, ANodeThatWasHeardIsNotAsked) {
    RelaySettings settings;
    settings.keepalive = base::seconds(3600);
    Relay small(loop, settings, slots, random, events);
    ASSERT_TRUE(small.reserve({}));
    run_for(base::milliseconds(2));
    EXPECT_FALSE(small.wants_sign_of_life(small.sessions().back()->wire_id));
}

TEST_F(RelayTest, AtTheLimitOfAllOnlyANodeThatWasSilentGivesWay) {
    for (const bool is_silent : {false, true}) {
        RelaySettings settings;
        settings.keepalive = is_silent ? base::seconds(0) : base::seconds(3600);
        settings.max_sessions = 3;
        Relay small(loop, settings, slots, random, events);
        const auto join = [&](const char* user) {
            SessionGrant grant;
            grant.user = user;
            const bool is_in = small.reserve(grant).has_value();
            run_for(base::milliseconds(2));  // the next one is heard later
            return is_in;
        };
        ASSERT_TRUE(join("dave"));
        small.open_stream(small.sessions().back()->wire_id, {});
        ASSERT_TRUE(join("alice") && join("bob"));
        EXPECT_EQ(join("carol"), is_silent);
        EXPECT_EQ(small.sessions_of("alice"), is_silent ? 0U : 1U) << "the longest silent";
        EXPECT_EQ(small.sessions_of("bob"), 1U);
        EXPECT_EQ(small.sessions_of("dave"), 1U) << "its control link is open";
    }
}

TEST_F(RelayTest, AUsersFlowsAreLimitedOverAllItsNodesAndBothIpVersions) {
    relay.set_limits(100, 8, 3);
    const auto join = [&](const char* user, const char* node, uint8_t number) -> NodeSession& {
        SessionGrant grant;
        grant.user = user;
        grant.node = node;
        grant.lease_ipv4 = *base::IpAddress::parse("100.64.0." + std::to_string(number));
        grant.lease_ipv6 = *base::IpAddress::parse("fd93:47::" + std::to_string(number));
        return *relay.find(relay.reserve(grant)->wire_id);
    };
    const auto opens = [&](NodeSession& node, bool is_v4, uint16_t port) {
        session::FlowOpening opening;
        opening.index = port;
        opening.tuple.local = is_v4 ? *node.grant.lease_ipv4 : *node.grant.lease_ipv6;
        opening.tuple.remote = *base::IpAddress::parse(is_v4 ? "198.51.100.2" : "2001:db8::2");
        opening.tuple.local_port = port;
        opening.tuple.remote_port = 53;
        opening.tuple.protocol = packet::Protocol::Udp;
        flow::Flow* flow = relay.on_flow_opened(node.session, opening, loop.now());
        if (flow != nullptr) {
            packet::PacketSummary answer;
            answer.tuple = opening.tuple;
            relay.flows().on_packet(*flow, flow::Direction::Down, answer, loop.now());
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
    EXPECT_NE(relay.flows().find(other.tuple), nullptr);
    EXPECT_EQ(relay.flows().gave_way(), 84U);
    EXPECT_EQ(relay.drops().count(base::DropReason::FlowLimit), 0U);
}

// It goes to its node in a packet like any other.
TEST_F(RelayTest, WhoAsksForAFlowTooManyIsAnswered) {
    relay.set_limits(100, 8, 1);
    NodeSession& node = add_session(2);
    packet::PacketSummary answer;
    flow::Flow& only = add_flow(node, 0);
    answer.tuple = only.tuple;
    relay.flows().on_packet(only, flow::Direction::Down, answer, loop.now());
    session::FlowOpening opening;
    opening.index = 99;
    opening.tuple = only.tuple;
    opening.tuple.protocol = packet::Protocol::Udp;
    opening.tuple.remote_port = 10'000;
    EXPECT_EQ(relay.on_flow_opened(node.session, opening, loop.now()), nullptr);
    EXPECT_EQ(node.session.queued_packets(), 1U);
    for (uint16_t port = 1; port <= 1000; ++port) {
        opening.tuple.local_port = port;
        EXPECT_EQ(relay.on_flow_opened(node.session, opening, loop.now()), nullptr);
    }
    EXPECT_EQ(node.session.queued_packets(), kMaxRefusalsPerSecond);
    EXPECT_EQ(relay.drops().count(base::DropReason::FlowLimit), 1001U);
}

// To where nodes may not send: nobody is charged, and the ledger has no slot of it.
TEST_F(RelayTest, ARefusedFlowIsNobodysAndCostsTheRulesLittle) {
    RelayOptions options;
    options.lease_ipv4 = base::IpPrefix::parse("100.64.0.0/16");
    RelaySettings settings;
    settings.refusals = Refusals(options);
    Relay refusing(loop, settings, slots, random, events);
    SessionGrant grant;
    grant.user = "alice";
    grant.accounting_number = 5;
    grant.lease_ipv4 = *base::IpAddress::parse("100.64.0.2");
    NodeSession& node = *refusing.find(refusing.reserve(grant)->wire_id);
    const auto open = [&](const char* remote, uint16_t index) {
        session::FlowOpening opening;
        opening.index = index;
        opening.tuple.local = *grant.lease_ipv4;
        opening.tuple.remote = *base::IpAddress::parse(remote);
        opening.tuple.local_port = index;
        opening.tuple.remote_port = 80;
        opening.tuple.protocol = packet::Protocol::Udp;
        return refusing.on_flow_opened(node.session, opening, loop.now());
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
    EXPECT_TRUE(refusing.flows().reclassify(*refused, base::TrafficClass::HtHd, loop.now()));
    EXPECT_EQ(slots.in_use(), 1U);
    refusing.close(node.wire_id);
    EXPECT_EQ(slots.in_use(), 0U);
}

// A node that takes nothing keeps the packets of others out of the device otherwise.
TEST_F(RelayTest, RoomIsMadeAtTheCostOfWhoHoldsMost) {
    const auto fill = [&](NodeSession& node, size_t packets, uint32_t bytes) {
        flow::Flow& flow = add_flow(node, 0);
        for (size_t i = 0; i < packets; ++i) {
            auto packet = pool.take(bytes);
            packet->length = bytes;
            node.session.on_packet(flow, std::move(packet), loop.now());
        }
    };
    EXPECT_FALSE(relay.make_room(false)) << "nobody holds any";
    run_for(base::milliseconds(10));
    NodeSession& many = add_session(2);
    NodeSession& large = add_session(3);
    fill(many, 61, 60);
    fill(large, 3, 60'000);
    EXPECT_TRUE(relay.make_room(false));
    EXPECT_EQ(many.session.queued_packets(), 31U);
    EXPECT_EQ(large.session.queued_packets(), 3U);
    EXPECT_TRUE(relay.make_room(true));
    EXPECT_EQ(many.session.queued_packets(), 31U);
    EXPECT_EQ(large.session.queued_packets(), 2U);
    EXPECT_EQ(pool.in_use(), 33U);
    EXPECT_FALSE(relay.make_room(false)) << "so little is not looked for at each packet";
}

}  // namespace
}  // namespace continuo::snapt
