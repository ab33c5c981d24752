// The control link between ControlClient and ControlServer, over loopback.
#include "common/io/socket_address.hpp"
#include "tests/unit/snapt/links/control_link_fixture.hpp"

#include <deque>
#include <future>
#include <thread>

namespace continuo::tests {
namespace {

TEST_F(ControlLinkTest, EstablishesWithEqualKeys) {
    establish();
    EXPECT_EQ(node_side.established[0].keys, snapt_side.keys.at(1));
    EXPECT_EQ(node_side.last_remote, server->endpoints()[0]);
    EXPECT_EQ(snapt_side.hellos[0].identity.user, "alice");
    EXPECT_TRUE(snapt_side.last_from.address.is_loopback());
    EXPECT_EQ(server->counters().links, 1U);
}

// The network changes while the daemon still starts, and the control thread is late.
TEST_F(ControlLinkTest, WhatIsToldBeforeItStartsIsForNobody) {
    std::promise<void> may_go_on;
    ASSERT_TRUE(thread.loop().post([&] { may_go_on.get_future().wait(); }));
    client = std::make_unique<cnapt::control_link::ControlClient>(thread, loop, node_side);
    client->restart();
    client->set_addresses({});
    ASSERT_TRUE(client->start(options()));
    may_go_on.set_value();
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
}

TEST_F(ControlLinkTest, CarriesRequestsAndAnswers) {
    establish();
    client->request_rekey();
    client->send_apps({{{5, "ssh"}}, {{5, base::PathMode::Redundant}}});
    client->query_usage(9, "[]");
    client->query_session();
    const std::vector<uint8_t> datagram(1400, 0xAB);
    const dataplane::StreamPort stream = client->stream();
    for (int i = 0; i < 30; ++i) {
        ASSERT_TRUE(stream.push(datagram, 0).is_taken);
    }
    ASSERT_TRUE(wait([this] {
        return node_side.rekeyed.size() == 1 && node_side.usage.size() == 1 &&
               node_side.session_states.size() == 1 && node_side.datagrams.size() == 30;
    }));
    EXPECT_EQ(node_side.rekeyed[0], snapt_side.keys.at(2));
    EXPECT_EQ(node_side.usage[0].json, "[][]");
    EXPECT_EQ(snapt_side.desk->last.at(0).name, "ssh");
    EXPECT_EQ(snapt_side.last_modes.at(0).mode, base::PathMode::Redundant);
    EXPECT_EQ(node_side.datagrams[29], datagram);
    server->ask_for_rekey(snapt_side.last_link);
    server->ask_for_keepalive(snapt_side.last_link);
    server->send_directory(snapt_side.last_link,
                           {{{"bsl-1", "mesh.example", server->endpoints(), 1, 2}}});
    ASSERT_TRUE(wait([this] {
        return node_side.rekeys_wanted == 1 && node_side.keepalives == 1 &&
               node_side.directory.entries.size() == 1;
    }));
}

TEST_F(ControlLinkTest, DatagramsThatWaitedForTheNodeComeAfterItIsEstablished) {
    snapt_side.waiting.assign(30, std::vector<uint8_t>(100, 0x11));
    start_client(options());
    ASSERT_TRUE(wait([this] { return node_side.datagrams.size() == 30; }));
    EXPECT_EQ(node_side.early, 0);
}

TEST_F(ControlLinkTest, DatagramsWaitForADataLoopThatIsBehind) {
    snapt_side.waiting.assign(1, std::vector<uint8_t>(1000, 0x11));
    start_client(options());
    ASSERT_TRUE(wait([this] { return node_side.datagrams.size() == 1; }));
    // Its loop does not run meanwhile, and the threads of both ends do.
    constexpr size_t kCount = 400;
    const auto end = std::chrono::steady_clock::now() + base::milliseconds(500);
    size_t sent = 0;
    while (sent < kCount && std::chrono::steady_clock::now() < end) {
        sent += snapt_side.echo.push(std::vector<uint8_t>(1000, 0x11), 0).is_taken ? 1U : 0U;
        std::this_thread::yield();
    }
    ASSERT_GT(sent, 100U);
    EXPECT_TRUE(wait([&] { return node_side.datagrams.size() == 1 + sent; }))
        << node_side.datagrams.size() << " of " << sent;
}

// Upward the same, in TLS and over a plain connection.
TEST_F(ControlLinkTest, DatagramsWaitForASnaptThatIsBehind) {
    for (const auto kind :
         {control::ProtectionKind::ChaCha20Poly1305, control::ProtectionKind::HmacSha256}) {
        auto with = options();
        with.parameters.hello.offers = {{kind, 16}};
        node_side.established.clear();
        start_client(with);
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
        const dataplane::StreamPort stream = client->stream();
        const std::vector<uint8_t> datagram(1000, 0x11);
        snapt_side.received = 0;
        ASSERT_TRUE(stream.push(datagram, 0).is_taken);
        ASSERT_TRUE(wait([this] { return snapt_side.received == 1; }));
        constexpr size_t kCount = 400;
        const auto end = std::chrono::steady_clock::now() + base::milliseconds(500);
        size_t sent = 0;
        while (sent < kCount && std::chrono::steady_clock::now() < end) {
            sent += stream.push(datagram, 0).is_taken ? 1U : 0U;
            std::this_thread::yield();
        }
        ASSERT_GT(sent, 100U);
        EXPECT_TRUE(wait([&] { return snapt_side.received == 1 + sent; }))
            << snapt_side.received << " of " << sent;
    }
}

// Nothing more comes on the link, which has to say again by itself what it could not say.
TEST_F(ControlLinkTest, ADatagramComesThoughTheDataLoopCouldNotBeToldOfIt) {
    start_client(options());
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    const dataplane::StreamPort stream = client->stream();
    const std::vector<uint8_t> datagram(1000, 0x11);
    ASSERT_TRUE(stream.push(datagram, 0).is_taken);
    ASSERT_TRUE(wait([this] { return snapt_side.received == 1; }));
    while (loop.post([] {})) {
    }
    const uint64_t refused = loop.counters().refused_posts;
    ASSERT_TRUE(stream.push(datagram, 0).is_taken);
    const auto end = std::chrono::steady_clock::now() + kPatience;
    while (loop.counters().refused_posts == refused && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();
    }
    ASSERT_GT(loop.counters().refused_posts, refused);
    EXPECT_TRUE(wait([this] { return snapt_side.received == 2; }));
}

TEST_F(ControlLinkTest, RejectionIsTold) {
    snapt_side.reject_text = "8 sessions are open";
    start_client(options());
    ASSERT_TRUE(wait([this] { return node_side.rejected.size() == 1; }));
    EXPECT_EQ(node_side.rejected[0].text, "8 sessions are open");
}

TEST_F(ControlLinkTest, WrongKeyReachesNoHandlerOfTheSnapt) {
    auto wrong = options();
    wrong.parameters.key = control::UserKey{2};
    start_client(wrong);
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].cause, control::CloseCause::LoginRefused);
    EXPECT_TRUE(node_side.closed[0].is_connected);
    EXPECT_TRUE(snapt_side.hellos.empty());
}

TEST_F(ControlLinkTest, ReconnectsAndContinuesAfterTheSnaptRestarts) {
    establish();
    const uint16_t port = server->endpoints()[0].port;
    server.reset();
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].cause, control::CloseCause::Peer);
    EXPECT_EQ(node_side.closed[0].peer.reason, control::CloseReason::Shutdown);
    start_server(port);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.hellos.back().hello.continuation, (control::Continuation{77, 1}));
    EXPECT_EQ(node_side.established[1].keys.epoch, 2U);
    EXPECT_EQ(node_side.established[1].keys, snapt_side.keys.at(2));
}

TEST_F(ControlLinkTest, AnotherUplinkMeansANewConnectionFromThere) {
    establish();
    const snapt::links::LinkId first = snapt_side.last_link;
    client->network_changed(
        {cnapt::control_link::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.5")},
         std::nullopt});
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.5");
    EXPECT_TRUE(node_side.established[1].accept.continued);
    ASSERT_TRUE(wait([&] { return snapt_side.closed.contains(first); }));
}

TEST_F(ControlLinkTest, TheLinkFollowsTheDataToTheOtherIpVersion) {
    io::UdpSocketOptions probe;
    probe.local = {*base::IpAddress::parse("::1"), 0};
    if (!io::UdpSocket::open(probe)) {
        GTEST_SKIP() << "needs IPv6 on the loopback device";
    }
    server.reset();
    start_server(0, true);
    cnapt::control_link::ControlClientOptions with = options();
    with.uplinks = {cnapt::control_link::ControlUplink{"lo", with.addresses[0].address},
                    cnapt::control_link::ControlUplink{"lo", with.addresses[1].address}};
    start_client(with);
    ASSERT_TRUE(wait([&] { return node_side.last_remote == with.addresses[0]; }));
    // Where data goes at first is no change.
    client->network_changed({with.uplinks.v4, with.uplinks.v6, base::IpVersion::V6});
    client->query_usage(1, "x");
    ASSERT_TRUE(wait([this] { return node_side.usage.size() == 1; }));
    EXPECT_EQ(node_side.last_remote, with.addresses[0]);
    client->network_changed({with.uplinks.v4, with.uplinks.v6, base::IpVersion::V4});
    client->network_changed({with.uplinks.v4, with.uplinks.v6, base::IpVersion::V6});
    EXPECT_TRUE(wait([&] { return node_side.last_remote == with.addresses[1]; }));
}

TEST_F(ControlLinkTest, TheSameUplinkKeepsTheLink) {
    establish();
    client->network_changed({});
    client->query_usage(1, "x");
    ASSERT_TRUE(wait([this] { return node_side.usage.size() == 1; }));
    EXPECT_EQ(node_side.established.size(), 1U);
    EXPECT_TRUE(node_side.closed.empty());
}

TEST_F(ControlLinkTest, RestartBeginsANewAssociation) {
    establish();
    client->restart();
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_FALSE(snapt_side.hellos.back().hello.continuation.has_value());
}

TEST_F(ControlLinkTest, TriesTheNextAddressWhenOneRefuses) {
    auto with = options();
    with.addresses = {{*base::IpAddress::parse("127.0.0.9"), 1}, server->endpoints()[0]};
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_EQ(node_side.last_remote, server->endpoints()[0]);
}

// Takes connections at an address of its own and says nothing, as a network may, or closes them.
class Taker {
  public:
    explicit Taker(bool closes) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
        const io::SocketAddress any({*base::IpAddress::parse("127.0.0.9"), 0});
        CTN_ASSERT(::bind(fd_.value(), any.data(), any.size()) == 0);
        CTN_ASSERT(::listen(fd_.value(), 16) == 0);
        if (closes) {
            thread_ = std::thread([this] {
                for (int taken = 0; taken >= 0; taken = ::accept(fd_.value(), nullptr, nullptr)) {
                    if (taken > 0) {
                        ::close(taken);
                    }
                }
            });
        }
    }
    Taker(const Taker&) = delete;
    Taker& operator=(const Taker&) = delete;
    ~Taker() {
        ::shutdown(fd_.value(), SHUT_RDWR);
        if (thread_.joinable()) {
            thread_.join();
        }
    }
    base::Endpoint address() const {
        sockaddr_storage storage{};
        socklen_t length = sizeof storage;
        CTN_ASSERT(::getsockname(fd_.value(), reinterpret_cast<sockaddr*>(&storage), &length) == 0);
        return {*base::IpAddress::parse("127.0.0.9"),
                ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port)};
    }

  private:
    io::UniqueFd fd_;
    std::thread thread_;
};

cnapt::control_link::ControlUplinks race_from_loopback() {
    cnapt::control_link::ControlUplinks uplinks;
    uplinks.v4 = cnapt::control_link::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.1")};
    uplinks.is_race = true;
    return uplinks;
}

TEST_F(ControlLinkTest, AConnectionThatSaysNothingCostsNoLoginTimeout) {
    const Taker silent(false);
    auto with = options();
    with.addresses.insert(with.addresses.begin(), silent.address());
    with.uplinks = race_from_loopback();
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_TRUE(node_side.closed.empty()) << "the attempt went on";
    EXPECT_TRUE(node_side.failed_ways.empty()) << "and did not wait for the silent one's end";
    EXPECT_EQ(node_side.last_remote, server->endpoints()[0]);
    EXPECT_EQ(snapt_side.hellos.size(), 1U);
}

TEST_F(ControlLinkTest, AConnectionThatIsClosedGivesWayToTheNextWay) {
    const Taker closing(true);
    auto with = options();
    with.addresses.insert(with.addresses.begin(), closing.address());
    with.uplinks = race_from_loopback();
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_TRUE(node_side.closed.empty()) << "the attempt went on";
    ASSERT_EQ(node_side.failed_ways.size(), 1U);
    EXPECT_EQ(node_side.failed_ways[0].remote, closing.address());
}

TEST_F(ControlLinkTest, WhereNoWayLeadsToASnaptTheAttemptFailsOnce) {
    const Taker closing(true);
    const Taker too(true);
    auto with = options();
    with.addresses = {closing.address(), too.address()};
    with.uplinks = race_from_loopback();
    start_client(with);
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.failed_ways.size(), 2U);
    EXPECT_TRUE(node_side.closed[0].is_connected);
    EXPECT_EQ(node_side.closed[0].remote, closing.address());
    EXPECT_EQ(node_side.closed[0].failed_by, (std::vector{*with.uplinks.v4, *with.uplinks.v4}));
}

// Nothing is known of a way that was closed because another one had won.
TEST_F(ControlLinkTest, AWinnerThatFailsAfterwardsFailsByItself) {
    const Taker silent(false);
    auto with = options();
    with.parameters.expected_snapt = "zrh-2";
    with.addresses.insert(with.addresses.begin(), silent.address());
    with.uplinks = race_from_loopback();
    with.uplinks.others = {{"lo", *base::IpAddress::parse("127.0.0.7")}};
    start_client(with);
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].cause, control::CloseCause::WrongSnapt);
    ASSERT_EQ(node_side.closed[0].failed_by.size(), 1U);
    EXPECT_EQ(node_side.closed[0].failed_by[0], node_side.closed[0].uplink);
}

// It is called by one way only, so the others may lead to it.
TEST_F(ControlLinkTest, WhatIsKnownByHearsayFailsByTheWayThatWasTried) {
    const Taker closing(true);
    auto with = options();
    with.addresses = {closing.address()};
    with.uplinks = race_from_loopback();
    with.uplinks.others = {{"lo", *base::IpAddress::parse("127.0.0.7")}};
    with.is_hearsay = true;
    start_client(with);
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].failed_by, std::vector{*with.uplinks.v4});
}

TEST_F(ControlLinkTest, ARefusalOfASnaptTellsMoreThanWhatIsNone) {
    const Taker closing(true);
    auto with = options();
    with.parameters.key = control::UserKey{2};
    with.addresses.insert(with.addresses.begin(), closing.address());
    with.uplinks = race_from_loopback();
    start_client(with);
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].cause, control::CloseCause::LoginRefused);
    EXPECT_EQ(node_side.closed[0].remote, server->endpoints()[0]);
}

TEST_F(ControlLinkTest, StrangersAreLimitedAndDoNotStopAKnownNode) {
    std::deque<io::UniqueFd> strangers;
    const base::Endpoint to = server->endpoints()[0];
    for (size_t i = 0; i < 12; ++i) {
        strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const io::SocketAddress address(to);
        ASSERT_EQ(::connect(strangers.back().value(), address.data(), address.size()), 0);
    }
    auto with = options();
    with.uplinks.v4 =
        cnapt::control_link::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.7")};
    start_client(with);
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    EXPECT_EQ(server->counters().refused, 4U);
}

TEST_F(ControlLinkTest, ClosingFromTheSnaptTellsBothHandlers) {
    establish();
    server->close(snapt_side.last_link, control::CloseReason::Disconnected, "by operator");
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty() && !snapt_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed[0].peer.text, "by operator");
    EXPECT_EQ(snapt_side.closed.begin()->second.cause, control::CloseCause::Local);
}

TEST_F(ControlLinkTest, ANodeThatIsSentAwayDoesNotHurryBack) {
    establish();
    server->close(snapt_side.last_link, control::CloseReason::Disconnected, "disabled");
    ASSERT_TRUE(wait([this] { return !node_side.closed.empty(); }));
    for (int i = 0; i < 5; ++i) {
        client->query_session();
        client->try_now();
        client->network_changed({});
    }
    // Another uplink may lead to another answer.
    client->network_changed(
        {cnapt::control_link::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.5")},
         std::nullopt});
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(server->counters().accepted, 2U);
}

TEST(ControlServer, ReportsAnAddressThatIsTaken) {
    io::EventLoop loop;
    SnaptSide side;
    Credentials credentials;
    snapt::links::ControlServer first(loop, side, credentials);
    snapt::links::ControlServerOptions options;
    options.listen = {{*base::IpAddress::parse("127.0.0.1"), 0}};
    ASSERT_TRUE(first.start(options));
    snapt::links::ControlServer second(loop, side, credentials);
    options.listen = first.endpoints();
    const auto result = second.start(options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().sys_errno, EADDRINUSE);
}

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

}  // namespace
}  // namespace continuo::tests
