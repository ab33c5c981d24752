// Sessions of a relay without devices: what control tells of them.
#include "tests/unit/snapt/relay/relay_fixture.hpp"

namespace continuo::snapt::relay {
namespace {

using base::PathMode;
using Modes = std::vector<control::AppMode>;

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
        return relay.table().session_of(grant) != nullptr;
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
    EXPECT_EQ(relay.table().count_of("alice"), 3U);
    relay.close_stream(first);
    ASSERT_NE(join("alice", "fifth"), 0);
    EXPECT_FALSE(has("alice", "first"));
    for (const auto& node : relay.sessions()) {
        relay.open_stream(node->wire_id, {});
    }
    EXPECT_EQ(join("alice", "sixth"), 0) << "all are here";
    EXPECT_NE(relay.table().find(third), nullptr);
    EXPECT_EQ(relay.table().count_of("alice"), 3U);
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
    EXPECT_TRUE(small.table().wants_sign_of_life(wire_id));
    EXPECT_FALSE(small.table().wants_sign_of_life(wire_id)) << "once";
    run_for(base::milliseconds(2));
    EXPECT_FALSE(small.table().is_here(*small.sessions().back()));
    EXPECT_TRUE(small.reserve(second));
    ASSERT_EQ(small.sessions().size(), 1U);
    EXPECT_EQ(small.sessions().back()->grant.node, "second");
}

// As after a reload.
TEST_F(RelayTest, NobodyGivesWayWhereThatMakesNoPlace) {
    const auto grant_of = [](const char* name) {
        SessionGrant grant;
        grant.user = "alice";
        grant.node = name;
        grant.told_node = name;
        return grant;
    };
    for (const char* name : {"here", "here too", "absent"}) {
        ASSERT_TRUE(relay.reserve(grant_of(name)));
    }
    relay.open_stream(relay.sessions()[0]->wire_id, {});
    relay.open_stream(relay.sessions()[1]->wire_id, {});
    relay.set_limits(100, 2, 0);
    EXPECT_FALSE(relay.reserve(grant_of("new")));
    EXPECT_EQ(relay.sessions().size(), 3U);
    relay.set_limits(100, 3, 0);
    EXPECT_TRUE(relay.reserve(grant_of("new")));
    EXPECT_EQ(relay.table().session_of(grant_of("absent")), nullptr);
}

TEST_F(RelayTest, ANodeThatWasHeardIsNotAsked) {
    RelaySettings settings;
    settings.keepalive = base::seconds(3600);
    Relay small(loop, settings, slots, random, events);
    ASSERT_TRUE(small.reserve({}));
    run_for(base::milliseconds(2));
    EXPECT_FALSE(small.table().wants_sign_of_life(small.sessions().back()->wire_id));
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
        EXPECT_EQ(small.table().count_of("alice"), is_silent ? 0U : 1U) << "the longest silent";
        EXPECT_EQ(small.table().count_of("bob"), 1U);
        EXPECT_EQ(small.table().count_of("dave"), 1U) << "its control link is open";
    }
}

class SameNumber final : public base::Random {
  public:
    void fill(base::MutableByteView bytes) override {
        std::fill(bytes.begin(), bytes.end(), uint8_t{7});
    }
};

// The CLOSE of one that ends otherwise before it is done, and whose id is drawn again.
TEST_F(RelayTest, ACloseEndsTheSessionThatItCameIn) {
    SameNumber same;
    Relay own(loop, {}, slots, same, events);
    SessionGrant grant;
    grant.user = "alice";
    grant.node = "laptop";
    grant.lease_ipv4 = *base::IpAddress::parse("100.64.0.2");
    const uint16_t first = own.reserve(grant)->wire_id;
    own.flows().on_peer_closed(own.table().find(first)->session, loop.now());
    const uint16_t second = own.reserve(grant)->wire_id;
    ASSERT_EQ(second, first);
    run_for(base::milliseconds(5));
    ASSERT_NE(own.table().find(second), nullptr) << "it has closed nothing";
    own.flows().on_peer_closed(own.table().find(second)->session, loop.now());
    run_for(base::milliseconds(5));
    EXPECT_EQ(own.table().find(second), nullptr);
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
    EXPECT_EQ(many.session.queues().packets(), 31U);
    EXPECT_EQ(large.session.queues().packets(), 3U);
    EXPECT_TRUE(relay.make_room(true));
    EXPECT_EQ(many.session.queues().packets(), 31U);
    EXPECT_EQ(large.session.queues().packets(), 2U);
    EXPECT_EQ(pool.in_use(), 33U);
    EXPECT_FALSE(relay.make_room(false)) << "so little is not looked for at each packet";
}

}  // namespace
}  // namespace continuo::snapt::relay
