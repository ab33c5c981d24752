// Connections to a SNAPT that are asked for by an uplink, beside the link that is open or under
// way.
#include "cnapt/control_link/connect_race.hpp"
#include "tests/unit/snapt/links/control_link_fixture.hpp"

namespace continuo::tests {
namespace {

cnapt::control_link::ControlUplink uplink_at(const char* source) {
    return {"lo", *base::IpAddress::parse(source)};
}

// A question for TCP by another uplink does not cost the link that works.
TEST_F(ControlLinkTest, TheOpenLinkStaysUntilTheOneBesideItIsProven) {
    establish();
    const dataplane::StreamPort stream = client->stream();
    const std::vector<uint8_t> datagram(1000, 0x11);
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    ASSERT_TRUE(stream.push(datagram, 0).is_taken);
    ASSERT_TRUE(wait([this] { return node_side.datagrams.size() == 1; }));
    EXPECT_EQ(snapt_side.hellos.size(), 1U);
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
    EXPECT_TRUE(node_side.established[1].accept.continued);
    EXPECT_TRUE(node_side.closed.empty());
}

// No host has that source address.
TEST_F(ControlLinkTest, AnAttemptBesideTheLinkThatFailsTellsNothing) {
    establish();
    client->connect_by(uplink_at("192.0.2.7"));
    client->connect_by(uplink_at("192.0.2.8"));
    client->query_session();
    ASSERT_TRUE(wait([this] { return node_side.session_states.size() == 1; }));
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_TRUE(node_side.closed.empty());
    EXPECT_EQ(snapt_side.hellos.size(), 2U);
}

TEST_F(ControlLinkTest, AnAttemptBesideTheLinkEndsWhenItIsNotWantedAnyMore) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    client->stay();
    credentials.hold(false);
    client->query_session();
    ASSERT_TRUE(wait([this] { return node_side.session_states.size() == 1; }));
    EXPECT_EQ(snapt_side.hellos.size(), 1U);
    client->connect_by(uplink_at("127.0.0.8"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.8");
}

// A move to another uplink begins anew, and what was asked for beside it goes on.
TEST_F(ControlLinkTest, AnotherUplinkForTheLinkKeepsWhatWasAskedForBesideIt) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    client->network_changed({uplink_at("192.0.2.7"), {}});
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
    EXPECT_TRUE(node_side.closed.empty());
}

// The link that is lost meanwhile is replaced by the one that is under way.
TEST_F(ControlLinkTest, WhatIsUnderWayBesideALinkThatIsLostGoesOn) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    server->close(snapt_side.last_link, control::CloseReason::ProtocolError, {});
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
}

// The network's news ask the link whether it lives, and end nothing.
TEST_F(ControlLinkTest, TheSameUplinkKeepsTheAttemptBesideTheLink) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    client->network_changed({});
    client->query_session();
    ASSERT_TRUE(wait([this] { return node_side.session_states.size() == 1; }));
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
}

TEST_F(ControlLinkTest, ANodeThatIsSentAwayEndsTheAttemptBesideTheLink) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    server->close(snapt_side.last_link, control::CloseReason::Disconnected, "disabled");
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    credentials.hold(false);
    EXPECT_FALSE(loop.run_until([this] { return node_side.established.size() == 2; },
                                cnapt::control_link::kMinReconnectDelay));
}

TEST_F(ControlLinkTest, ANodeWhoseSessionARivalTookDoesNotHurryByTheAttemptBesideTheLink) {
    establish();
    credentials.hold(true);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(credentials.wait_for_question(kPatience));
    const base::TimePoint closed_at = loop.refresh_now();
    server->close(snapt_side.last_link, control::CloseReason::Replaced, {});
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_GE(loop.refresh_now() - closed_at, cnapt::control_link::kMinReconnectDelay);
}

}  // namespace
}  // namespace continuo::tests
