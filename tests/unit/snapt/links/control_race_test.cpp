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
    client->set_addresses({{*base::IpAddress::parse("127.0.0.9"), 1}});  // nobody listens
    server->close(snapt_side.last_link, control::CloseReason::ProtocolError, {});
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    credentials.hold(false);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
}

// Segments to the port are dropped from now on, as by a firewall.
TEST_F(ControlLinkTest, AnotherPortTakesOverFromTheOneThatLetTheNodeIn) {
    server.reset();
    start_server(0, "127.0.0.1");
    establish();
    const base::Endpoint first = node_side.last_remote;
    ASSERT_GT(let_pass(first.port, 1), 1) << "the port and a connection";
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_NE(node_side.last_remote, first);
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
    EXPECT_TRUE(node_side.closed.empty());
}

// Its handshake passes where full segments do not.
TEST_F(ControlLinkTest, WhereAConnectionWasJustMadeTheNextOneBeginsWithAnotherPort) {
    server.reset();
    start_server(0, "127.0.0.1");
    auto with = options();
    with.uplinks.v4 = uplink_at("127.0.0.7");
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_EQ(node_side.last_remote, with.addresses[0]);
    client->connect_by(uplink_at("127.0.0.7"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(node_side.last_remote, with.addresses[1]);
    client->connect_by(uplink_at("127.0.0.8"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 3; }));
    EXPECT_EQ(node_side.last_remote, with.addresses[1]) << "the one that let it in";
}

TEST_F(ControlLinkTest, AddressesBeyondTheLimitHaveTheirTurnInTheNextRace) {
    server.reset();
    start_server(0, "127.0.0.1");
    establish();
    std::vector<base::Endpoint> addresses;
    for (uint16_t port = 1; port <= cnapt::control_link::kMaxConnectWays; ++port) {
        addresses.push_back({*base::IpAddress::parse("127.0.0.9"), port});  // nobody listens
    }
    addresses.push_back(server->endpoints()[1]);
    client->set_addresses(addresses);
    io::DeadlineTimer timer(loop, [&] {
        client->connect_by(uplink_at("127.0.0.7"));
        timer.set(loop.now() + cnapt::control_link::kAttemptDelay);
    });
    timer.set(loop.now());
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_TRUE(node_side.closed.empty());
}

// Without a link, what is asked for does not take the turn of the uplink that data uses.
TEST_F(ControlLinkTest, AnAttemptThatIsAskedForTriesTheOtherWaysToo) {
    auto with = options();
    with.uplinks.v4 = uplink_at("192.0.2.7");
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    EXPECT_EQ(node_side.closed[0].uplink, with.uplinks.v4);
    with.uplinks.v4 = uplink_at("127.0.0.7");
    client->set_uplinks(with.uplinks);
    client->connect_by(uplink_at("192.0.2.8"));
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.7");
    EXPECT_EQ(node_side.closed.size(), 1U);
}

TEST_F(ControlLinkTest, WhatIsAskedForAndFailsIsToldOfItsOwnUplink) {
    auto with = options();
    with.uplinks.v4 = uplink_at("192.0.2.7");
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.closed.size() == 1; }));
    client->connect_by(uplink_at("192.0.2.8"));
    const auto is_asked = [](const cnapt::control_link::LinkEnd& end) {
        return end.uplink == uplink_at("192.0.2.8");
    };
    const auto& closed = node_side.closed;
    ASSERT_TRUE(wait([&] { return std::any_of(closed.begin(), closed.end(), is_asked); }));
    EXPECT_EQ(std::find_if(closed.begin(), closed.end(), is_asked)->failed_by,
              (std::vector{uplink_at("192.0.2.8"), *with.uplinks.v4}));
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

// The attempt beside it gets no answer.
TEST_F(ControlLinkTest, ALinkThatIsLostIsMadeAnewBesideWhatIsUnderWay) {
    server.reset();
    start_server(0, "127.0.0.1");
    establish();
    const std::vector<base::Endpoint> ports = server->endpoints();
    ASSERT_GT(let_pass(ports[1].port, 1), 0);
    client->set_addresses({ports[1]});
    client->connect_by(uplink_at("127.0.0.7"));
    client->set_addresses({ports[0]});
    client->query_session();
    ASSERT_TRUE(wait([this] { return node_side.session_states.size() == 1; }));
    server->close(snapt_side.last_link, control::CloseReason::ProtocolError, {});
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.1");
    EXPECT_EQ(node_side.closed.size(), 1U);
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

// Each attempt is younger than its time-out. Names would not be asked for anew.
TEST_F(ControlLinkTest, ARaceWithoutAnEndIsTold) {
    ASSERT_GT(let_pass(server->endpoints()[0].port, 1), 0);
    uint8_t asked = 0;
    io::DeadlineTimer timer(loop, [&] {
        client->connect_by({"lo", base::IpAddress::v4(0x7F000010U + ++asked)});
        timer.set(loop.now() + cnapt::control_link::kConnectTimeout / 4);
    });
    timer.set(loop.now());
    start_client(options());
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].remote, server->endpoints()[0]);
    EXPECT_FALSE(node_side.closed[0].is_connected);
}

}  // namespace
}  // namespace continuo::tests
