// The socket sides of control, ControlClient and ControlServer, over loopback.
#include "cnapt/control_client.hpp"
#include "cnapt/portal_probe.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/udp_socket.hpp"
#include "snapt/control_server.hpp"

#include <deque>
#include <future>
#include <map>

#include <gtest/gtest.h>
#include <poll.h>

namespace continuo {
namespace {

constexpr base::Duration kPatience = base::seconds(20);

class Credentials final : public control::CredentialSource {
  public:
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        return identity == control::Identity{"alice", "k1"} ? std::optional(control::UserKey{1})
                                                            : std::nullopt;
    }
    std::shared_ptr<const std::vector<control::UserKey>> keys() override {
        return std::make_shared<const std::vector<control::UserKey>>(
            std::vector{control::UserKey{9}, control::UserKey{1}});
    }
};

struct SnaptSide final : snapt::ControlHandler {
    void on_hello(snapt::LinkId link,
                  const base::Endpoint& from,
                  const control::HelloReceived& hello) override {
        hellos.push_back(hello);
        last_from = from;
        last_link = link;
        if (!reject_text.empty()) {
            server->reject(link, control::RejectReason::SessionLimit, reject_text);
            return;
        }
        control::Accept accept;
        accept.wire_session_up = 77;
        accept.snapt = "zrh-1";
        accept.realm = "mesh.example";
        accept.protection = hello.hello.offers.front();
        accept.lease_ipv4 = base::IpAddress::parse("100.64.0.2");
        accept.epoch = hello.hello.continuation ? hello.hello.continuation->epoch + 1 : 1;
        accept.continued = hello.hello.continuation.has_value();
        server->accept(link, accept);
    }
    void on_keys(snapt::LinkId link, const control::EpochKeys& given) override {
        keys[given.epoch] = given;
        server->confirm(link, given.epoch);
    }
    void on_apps(snapt::LinkId /*link*/, const control::Apps& apps) override { last_apps = apps; }
    void on_usage_query(snapt::LinkId link, const control::UsageQuery& query) override {
        server->reply_usage(link, {query.request, query.json + query.json});
    }
    void on_session_query(snapt::LinkId link) override { server->tell_session_state(link, false); }
    void on_datagrams(snapt::LinkId link, dataplane::DatagramQueue& queue) override {
        if (!echo) {
            echo = server->open_stream(link);
        }
        queue.pull([&](base::MutableByteView datagram) {
            ++received;
            echoed += echo.push(datagram, 0).is_taken ? 1U : 0U;
            return true;
        });
    }
    void on_stream_room(snapt::LinkId /*link*/) override {}
    void on_closed(snapt::LinkId link, const control::LinkClosed& gone) override {
        closed[link] = gone;
    }

    snapt::ControlServer* server = nullptr;
    dataplane::StreamPort echo;
    size_t received = 0;
    size_t echoed = 0;
    std::string reject_text;
    std::vector<control::HelloReceived> hellos;
    std::map<uint32_t, control::EpochKeys> keys;
    std::map<snapt::LinkId, control::LinkClosed> closed;
    control::Apps last_apps;
    base::Endpoint last_from;
    snapt::LinkId last_link = 0;
};

struct NodeSide final : cnapt::ControlClientHandler {
    void on_established(const base::Endpoint& remote, const control::Established& now) override {
        last_remote = remote;
        established.push_back(now);
    }
    void on_rejected(const control::Reject& reject) override { rejected.push_back(reject); }
    void on_rekeyed(const control::EpochKeys& keys) override { rekeyed.push_back(keys); }
    void on_rekey_wanted() override { ++rekeys_wanted; }
    void on_directory(const control::Directory& now) override { directory = now; }
    void on_keepalive_request() override { ++keepalives; }
    void on_usage(const control::UsageReply& reply) override { usage.push_back(reply); }
    void on_session_state(bool known) override { session_states.push_back(known); }
    void on_datagrams(dataplane::DatagramQueue& queue) override {
        queue.pull([&](base::MutableByteView datagram) {
            datagrams.emplace_back(datagram.begin(), datagram.end());
            return true;
        });
    }
    void on_stream_room() override { ++rooms; }
    void on_stream_lost() override { ++losses; }
    void on_closed(const control::LinkClosed& gone) override { closed.push_back(gone); }

    std::vector<control::Established> established;
    std::vector<control::Reject> rejected;
    std::vector<control::EpochKeys> rekeyed;
    std::vector<control::UsageReply> usage;
    std::vector<bool> session_states;
    std::vector<std::vector<uint8_t>> datagrams;
    std::vector<control::LinkClosed> closed;
    control::Directory directory;
    base::Endpoint last_remote;
    int rekeys_wanted = 0;
    int keepalives = 0;
    int losses = 0;
    int rooms = 0;
};

class ControlLinkTest : public ::testing::Test {
  protected:
    void SetUp() override { start_server(0); }
    void TearDown() override {
        client.reset();
        server.reset();
    }

    void start_server(uint16_t port, bool has_ipv6 = false) {
        server = std::make_unique<snapt::ControlServer>(loop, snapt_side, credentials);
        snapt_side.server = server.get();
        snapt::ControlServerOptions options;
        options.listen = {{base::IpAddress::v4(0x7F000001), port}};
        if (has_ipv6) {
            options.listen.push_back({*base::IpAddress::parse("::1"), port});
        }
        options.parameters.realm = "mesh.example";
        ASSERT_TRUE(server->start(options));
    }
    cnapt::ControlClientOptions options() const {
        cnapt::ControlClientOptions result;
        result.parameters.identity = {"alice", "k1"};
        result.parameters.key = control::UserKey{1};
        result.parameters.realm = "mesh.example";
        result.parameters.expected_snapt = "zrh-1";
        result.parameters.hello.versions = {control::kProtocolVersion};
        result.parameters.hello.node = "laptop";
        result.parameters.hello.offers = {{control::ProtectionKind::ChaCha20Poly1305, 16}};
        result.addresses = server->endpoints();
        return result;
    }
    void start_client(cnapt::ControlClientOptions with) {
        client = std::make_unique<cnapt::ControlClient>(thread, loop, node_side);
        ASSERT_TRUE(client->start(std::move(with)));
    }
    void establish() {
        start_client(options());
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    }
    bool wait(const std::function<bool()>& done) { return loop.run_until(done, kPatience); }

    io::EventLoop loop;
    cnapt::ControlThread thread;
    Credentials credentials;
    SnaptSide snapt_side;
    NodeSide node_side;
    std::unique_ptr<snapt::ControlServer> server;
    std::unique_ptr<cnapt::ControlClient> client;
};

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
    client = std::make_unique<cnapt::ControlClient>(thread, loop, node_side);
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
    EXPECT_EQ(snapt_side.last_apps.apps.at(0).name, "ssh");
    EXPECT_EQ(snapt_side.last_apps.modes.at(0).mode, base::PathMode::Redundant);
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

class PortalQuestionTest : public ControlLinkTest {
  protected:
    cnapt::PortalQuestion question(uint8_t key, const std::string& realm = "mesh.example") {
        const base::Endpoint to = server->endpoints()[0];
        return {
            to, {"lo", to.address}, 0, control::derive_portal_key(control::UserKey{key}, realm)};
    }
    // All that comes back.
    std::string say(std::string_view text) {
        io::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const io::SocketAddress address(server->endpoints()[0]);
        EXPECT_EQ(::connect(fd.value(), address.data(), address.size()), 0);
        EXPECT_EQ(::send(fd.value(), text.data(), text.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(text.size()));
        std::string answer;
        std::array<char, 512> buffer{};
        for (;;) {
            const ssize_t count = ::recv(fd.value(), buffer.data(), buffer.size(), 0);
            if (count <= 0) {
                return answer;
            }
            answer.append(buffer.data(), static_cast<size_t>(count));
        }
    }
};

TEST_F(PortalQuestionTest, TheSnaptAnswersItsUsersWhoeverTheyAre) {
    EXPECT_EQ(cnapt::ask_for_portal(question(1)).verdict, control::PortalVerdict::Snapt);
    EXPECT_EQ(cnapt::ask_for_portal(question(9)).verdict, control::PortalVerdict::Snapt);
    EXPECT_EQ(server->counters().portal_checks, 2U);
    EXPECT_EQ(server->counters().failed_handshakes, 0U);
}

TEST_F(PortalQuestionTest, AWrongKeyGetsAnAnswerThatOnlyItsOwnerCouldTellFromAGoodOne) {
    EXPECT_EQ(cnapt::ask_for_portal(question(2)).verdict, control::PortalVerdict::Portal);
    EXPECT_EQ(cnapt::ask_for_portal(question(1, "other")).verdict, control::PortalVerdict::Portal);
    const auto ask = [&](uint8_t key) {
        const auto portal_key = control::derive_portal_key(control::UserKey{key}, "mesh.example");
        const auto tag = control::portal_tag(portal_key, control::PortalSide::Node, {});
        return say(control::format_portal_request({{}, tag}, "h"));
    };
    const std::string good = ask(1);
    const std::string bad = ask(2);
    EXPECT_EQ(good.size(), bad.size());
    EXPECT_EQ(good.substr(0, good.size() - 32), bad.substr(0, bad.size() - 32));
    EXPECT_NE(good, bad);
    EXPECT_NE(ask(2), bad) << "the same question shows that no key fits";
}

TEST_F(PortalQuestionTest, OtherRequestsGetNoAnswer) {
    EXPECT_EQ(say("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), "");
    EXPECT_EQ(say("GET /continuo/" + std::string(4000, 'a')), "");
    EXPECT_EQ(server->counters().portal_checks, 0U);
}

// A handshake comes in pieces, which may begin with any octet.
TEST_F(PortalQuestionTest, OnlyTheFirstOctetTellsTheKindOfAConnection) {
    const auto tag =
        control::portal_tag(control::derive_portal_key(control::UserKey{1}, "mesh.example"),
                            control::PortalSide::Node, {});
    const std::string request = control::format_portal_request({{}, tag}, "h");
    io::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const io::SocketAddress address(server->endpoints()[0]);
    ASSERT_EQ(::connect(fd.value(), address.data(), address.size()), 0);
    ASSERT_EQ(::send(fd.value(), "\x16", 1, MSG_NOSIGNAL), 1);
    EXPECT_NE(say(request), "") << "what came before it has been read";
    ASSERT_EQ(::send(fd.value(), request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::array<char, 512> buffer{};
    const ssize_t count = ::recv(fd.value(), buffer.data(), buffer.size(), 0);
    EXPECT_FALSE(count > 0 && buffer[0] == 'H');
    EXPECT_EQ(server->counters().portal_checks, 1U);
}

// Over plain connections, as the payload has to stay readable.
class PlainConnectionTest : public ControlLinkTest {
  protected:
    static constexpr base::Duration kMoment = base::milliseconds(300);

    void SetUp() override {
        ControlLinkTest::SetUp();
        auto readable = options();
        readable.parameters.hello.offers = {{control::ProtectionKind::HmacSha256, 16}};
        start_client(readable);
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
        echo_one();
    }
    void echo_one() {
        const size_t before = node_side.datagrams.size();
        ASSERT_TRUE(client->stream().push(std::vector<uint8_t>(100, 0x11), 0).is_taken);
        ASSERT_TRUE(wait([&] { return node_side.datagrams.size() == before + 1; }));
    }
    io::UniqueFd connect_and_say(base::ByteView bytes) {
        io::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const io::SocketAddress address(server->endpoints()[0]);
        EXPECT_EQ(::connect(fd.value(), address.data(), address.size()), 0);
        EXPECT_EQ(::send(fd.value(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
                  static_cast<ssize_t>(bytes.size()));
        return fd;
    }
    io::UniqueFd connect_with_hello(uint32_t number, const control::EpochKeys& keys) {
        std::array<uint8_t, wire::kRecordLengthBytes + wire::Hello::kMaxBytes> bytes{};
        base::ByteWriter writer(bytes);
        const wire::Hello hello = dataplane::make_hello(77, number, keys, 16);
        wire::write_record_length(writer, hello.size());
        hello.serialize(writer);
        return connect_and_say(base::ByteView(bytes).first(writer.size()));
    }
    // Waits for the connection's end or its first byte. The server has a thread of its own.
    static bool is_over(const io::UniqueFd& fd, base::Duration patience = kPatience) {
        pollfd entry{fd.value(), POLLIN, 0};
        uint8_t byte = 0;
        return ::poll(&entry, 1, static_cast<int>(base::to_ms(patience))) == 1 &&
               ::recv(fd.value(), &byte, 1, 0) <= 0;
    }
};

TEST_F(PlainConnectionTest, ManyDatagramsComeBackInOrder) {
    const dataplane::StreamPort stream = client->stream();
    for (uint8_t i = 1; i <= 40; ++i) {
        ASSERT_TRUE(stream.push(std::vector<uint8_t>{0x11, i}, 0).is_taken);
    }
    ASSERT_TRUE(wait([this] { return node_side.datagrams.size() == 41; }));
    for (uint8_t i = 1; i <= 40; ++i) {
        EXPECT_EQ(node_side.datagrams[i], (std::vector<uint8_t>{0x11, i}));
    }
}

TEST_F(PlainConnectionTest, AnOverheardHelloIsNotBelieved) {
    const io::UniqueFd stranger = connect_with_hello(1, snapt_side.keys.at(1));
    ASSERT_TRUE(is_over(stranger));
    EXPECT_EQ(server->counters().failed_handshakes, 1U);
    echo_one();
}

TEST_F(PlainConnectionTest, AHelloWithoutTheKeysIsNotBelieved) {
    const io::UniqueFd stranger = connect_with_hello(9, control::EpochKeys{1, {}, {}});
    ASSERT_TRUE(is_over(stranger));
    const io::UniqueFd vague = connect_and_say(std::vector<uint8_t>{0, 0});
    ASSERT_TRUE(is_over(vague));
    EXPECT_EQ(server->counters().failed_handshakes, 2U);
    echo_one();
}

TEST_F(PlainConnectionTest, ANewerOneOfTheNodeReplacesTheOlder) {
    const io::UniqueFd newer = connect_with_hello(2, snapt_side.keys.at(1));
    EXPECT_FALSE(is_over(newer, kMoment));
    const size_t received = snapt_side.received;
    ASSERT_EQ(::send(newer.value(), "\0\1x", 3, MSG_NOSIGNAL), 3);
    ASSERT_TRUE(wait([&] { return snapt_side.received == received + 1; }));
    ASSERT_TRUE(wait([this] { return node_side.losses == 1; })) << "the node has lost its own";
}

TEST_F(PlainConnectionTest, ItEndsWithItsControlLink) {
    const io::UniqueFd newer = connect_with_hello(2, snapt_side.keys.at(1));
    EXPECT_FALSE(is_over(newer, kMoment));
    server->close(snapt_side.last_link, control::CloseReason::Disconnected, "by operator");
    ASSERT_TRUE(is_over(newer));
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
    EXPECT_EQ(node_side.closed[0].cause, control::CloseCause::HandshakeFailed);
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
    const snapt::LinkId first = snapt_side.last_link;
    client->network_changed(
        {cnapt::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.5")}, std::nullopt});
    ASSERT_TRUE(wait([this] { return node_side.established.size() == 2; }));
    EXPECT_EQ(snapt_side.last_from.address.to_string(), "127.0.0.5");
    EXPECT_TRUE(node_side.established[1].accept.continued);
    ASSERT_TRUE(wait([&] { return snapt_side.closed.contains(first); }));
}

TEST_F(ControlLinkTest, TheLinkFollowsTheDataToTheOtherIpVersion) {
    io::UdpSocketOptions probe;
    probe.local = {*base::IpAddress::parse("::1"), 0};
    if (!io::UdpSocket::open(probe)) {
        GTEST_SKIP() << "needs IPv6";
    }
    server.reset();
    start_server(0, true);
    cnapt::ControlClientOptions with = options();
    with.uplinks = {cnapt::ControlUplink{"lo", with.addresses[0].address},
                    cnapt::ControlUplink{"lo", with.addresses[1].address}};
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

TEST_F(ControlLinkTest, StrangersAreLimitedAndDoNotStopAKnownNode) {
    std::deque<io::UniqueFd> strangers;
    const base::Endpoint to = server->endpoints()[0];
    for (size_t i = 0; i < 12; ++i) {
        strangers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
        const io::SocketAddress address(to);
        ASSERT_EQ(::connect(strangers.back().value(), address.data(), address.size()), 0);
    }
    auto with = options();
    with.uplinks.v4 = cnapt::ControlUplink{"lo", *base::IpAddress::parse("127.0.0.7")};
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

TEST(ControlServer, ReportsAnAddressThatIsTaken) {
    io::EventLoop loop;
    SnaptSide side;
    Credentials credentials;
    snapt::ControlServer first(loop, side, credentials);
    snapt::ControlServerOptions options;
    options.listen = {{*base::IpAddress::parse("127.0.0.1"), 0}};
    ASSERT_TRUE(first.start(options));
    snapt::ControlServer second(loop, side, credentials);
    options.listen = first.endpoints();
    const auto result = second.start(options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().sys_errno, EADDRINUSE);
}

}  // namespace
}  // namespace continuo
