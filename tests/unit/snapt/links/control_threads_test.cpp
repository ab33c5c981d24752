// The two threads of a ControlServer: what holds one up does not hold up the other, and nothing is
// lost on the way between them.
#include "common/control/client_control.hpp"
#include "common/host/system_random.hpp"
#include "snapt/links/control_door.hpp"
#include "snapt/links/control_links.hpp"
#include "tests/unit/snapt/links/control_link_fixture.hpp"

#include <poll.h>
#include <sys/socket.h>

namespace continuo::tests {
namespace {

class StuckHandshakeTest : public ControlLinkTest {
  protected:
    void establish_with(control::ProtectionKind kind) {
        auto with = options();
        with.parameters.hello.offers = {{kind, 16}};
        start_client(std::move(with));
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
        echo(1);
    }
    void echo(size_t count) {
        const size_t before = node_side.datagrams.size();
        for (size_t i = 0; i < count; ++i) {
            ASSERT_TRUE(client->stream().push(std::vector<uint8_t>(100, 0x11), 0).is_taken);
        }
        ASSERT_TRUE(wait([&] { return node_side.datagrams.size() == before + count; }));
    }
    // Another node's handshake waits for its key, and the thread with it.
    void get_stuck() {
        credentials.hold(true);
        other = std::make_unique<cnapt::control_link::ControlClient>(thread, loop, other_side);
        ASSERT_TRUE(other->start(options()));
        ASSERT_TRUE(credentials.wait_for_question(kPatience));
    }
    void come_free() {
        credentials.hold(false);
        ASSERT_TRUE(wait([this] { return other_side.established.size() == 1; }));
    }
    void TearDown() override {
        other.reset();
        ControlLinkTest::TearDown();
    }

    NodeSide other_side;
    std::unique_ptr<cnapt::control_link::ControlClient> other;
};

TEST_F(StuckHandshakeTest, ALinkThatIsOpenGoesOn) {
    establish_with(control::ProtectionKind::ChaCha20Poly1305);
    get_stuck();
    echo(40);
    client->query_session();
    client->request_rekey();
    server->ask_for_keepalive(snapt_side.last_link);
    ASSERT_TRUE(wait([this] {
        return node_side.session_states.size() == 1 && node_side.rekeyed.size() == 1 &&
               node_side.keepalives == 1;
    }));
    come_free();
}

TEST_F(StuckHandshakeTest, APlainConnectionGoesOn) {
    establish_with(control::ProtectionKind::HmacSha256);
    get_stuck();
    echo(40);
    come_free();
}

TEST_F(StuckHandshakeTest, ALinkThatIsOpenCanBeClosed) {
    establish_with(control::ProtectionKind::ChaCha20Poly1305);
    const snapt::links::LinkId open = snapt_side.last_link;
    get_stuck();
    server->close(open, control::CloseReason::Disconnected, "by operator");
    ASSERT_TRUE(
        wait([&] { return snapt_side.closed.contains(open) && !node_side.closed.empty(); }));
    EXPECT_EQ(node_side.closed.at(0).peer.text, "by operator");
    come_free();
}

TEST_F(ControlLinkTest, StoppingAmidHandshakesLeavesNothingBehind) {
    constexpr size_t kNodes = 6;
    for (size_t round = 0; round < 8; ++round) {
        std::vector<std::unique_ptr<cnapt::control_link::ControlClient>> nodes;
        std::vector<std::unique_ptr<NodeSide>> sides;
        for (size_t i = 0; i < kNodes; ++i) {
            sides.push_back(std::make_unique<NodeSide>());
            nodes.push_back(
                std::make_unique<cnapt::control_link::ControlClient>(thread, loop, *sides.back()));
            ASSERT_TRUE(nodes.back()->start(options()));
        }
        const size_t before = snapt_side.hellos.size();
        ASSERT_TRUE(wait([&] { return snapt_side.hellos.size() > before; }));
        server->stop();
        EXPECT_EQ(server->counters().links, 0U);
        start_server(0);
    }
}

// An authenticated connection over a pair of sockets, without the door.
class HandoverTest : public ::testing::Test {
  protected:
    void SetUp() override {
        shared.context.emplace(*control::TlsContext::server());
        shared.parameters.realm = "mesh.example";
    }
    static control::ClientParameters parameters() {
        control::ClientParameters result;
        result.identity = {"alice", "k1"};
        result.key = control::UserKey{1};
        result.realm = "mesh.example";
        result.hello.versions = {control::kProtocolVersion};
        result.hello.node = "laptop";
        result.hello.offers = {{control::ProtectionKind::ChaCha20Poly1305, 16}};
        return result;
    }
    std::unique_ptr<snapt::links::ControlConnection> authenticated() {
        std::array<int, 2> fds{};
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
        node_end.reset(fds[0]);
        auto connection = std::make_unique<snapt::links::ControlConnection>(
            shared, 5, base::Endpoint{base::IpAddress::v4(0x7F000001), 1}, io::UniqueFd(fds[1]));
        EXPECT_TRUE(connection->control.start(loop.now()));
        EXPECT_TRUE(node.start(parameters(), loop.now()));
        while (!connection->control.is_authenticated() && node.has_bytes()) {
            move(node, connection->control);
            move(connection->control, node);
        }
        EXPECT_TRUE(connection->control.is_authenticated());
        return connection;
    }
    template <typename From, typename To>
    void move(From& from, To& to) {
        std::array<uint8_t, 4096> bytes{};
        while (const size_t count = from.poll_bytes(bytes)) {
            to.on_bytes(base::ByteView(bytes).first(count), loop.now());
        }
    }
    // Until the end of the stream.
    void read_all() {
        std::array<uint8_t, 4096> bytes{};
        for (;;) {
            pollfd entry{node_end.value(), POLLIN, 0};
            ASSERT_EQ(::poll(&entry, 1, static_cast<int>(base::to_ms(kPatience))), 1);
            const ssize_t count = ::recv(node_end.value(), bytes.data(), bytes.size(), 0);
            if (count <= 0) {
                return;
            }
            node.on_bytes(base::ByteView(bytes).first(static_cast<size_t>(count)), loop.now());
        }
    }
    // So that it takes no more; it does not run yet.
    static void fill(snapt::links::ControlLinks& links) {
        for (size_t i = 0; i < io::kMaxPostedFunctions; ++i) {
            ASSERT_TRUE(links.with_link(1, [](control::ServerControl&, base::TimePoint) {}));
        }
    }

    io::EventLoop loop;
    host::SystemRandom random;
    Credentials credentials;
    SnaptSide handler;
    snapt::links::ControlShared shared{credentials};
    control::TlsContext context = *control::TlsContext::client();
    control::ClientControl node{context, random, nullptr};
    io::UniqueFd node_end;
};

TEST_F(HandoverTest, ALinkOnItsWayIsToldOfTheStop) {
    snapt::links::ControlLinks links(loop, handler, shared);
    ASSERT_TRUE(links.adopt(authenticated()));
    EXPECT_EQ(shared.counts.links, 1U) << "counted on its way, too";
    links.start();
    links.stop();
    read_all();
    const auto event = node.poll_event();
    ASSERT_TRUE(event && std::holds_alternative<control::LinkClosed>(*event));
    EXPECT_EQ(std::get<control::LinkClosed>(*event).peer.reason, control::CloseReason::Shutdown);
    EXPECT_EQ(shared.counts.links, 0U);
}

TEST_F(HandoverTest, WhatCameWithTheLastFlightIsToldByTheNewThread) {
    snapt::links::ControlLinks links(loop, handler, shared);
    snapt::links::ControlServer nobody(loop, handler, credentials);
    handler.server = &nobody;
    links.start();
    ASSERT_TRUE(links.adopt(authenticated()));
    ASSERT_TRUE(loop.run_until([this] { return handler.hellos.size() == 1; }, kPatience));
    EXPECT_EQ(handler.last_link, 5U);
}

TEST_F(HandoverTest, ALinkForWhichThereIsNoRoomIsClosed) {
    snapt::links::ControlLinks links(loop, handler, shared);
    fill(links);
    EXPECT_FALSE(links.adopt(authenticated()));
    read_all();
    EXPECT_EQ(shared.counts.links, 0U);
    std::array<int, 2> fds{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    node_end.reset(fds[0]);
    EXPECT_FALSE(links.attach(
        5, std::make_unique<dataplane::PlainStream>(io::TcpStream(io::UniqueFd(fds[1])))));
    read_all();
}

TEST_F(HandoverTest, TheDoorCountsWhatTheLinksDoNotTake) {
    snapt::links::ControlLinks links(loop, handler, shared);
    fill(links);
    snapt::links::ControlDoor door(shared, links);
    const auto endpoints = door.open({{base::IpAddress::v4(0x7F000001), 0}}, 10);
    ASSERT_TRUE(endpoints);
    door.start();
    cnapt::control_link::ControlThread thread;
    NodeSide side;
    cnapt::control_link::ControlClient client(thread, loop, side);
    cnapt::control_link::ControlClientOptions options;
    options.parameters = parameters();
    options.addresses = *endpoints;
    ASSERT_TRUE(client.start(options));
    ASSERT_TRUE(loop.run_until([&] { return !side.closed.empty(); }, kPatience));
    client.stop();
    door.stop();
    EXPECT_GE(shared.counts.refused, 1U);
    EXPECT_EQ(shared.counts.failed_handshakes, 0U);
    EXPECT_EQ(shared.counts.links, 0U);
}

}  // namespace
}  // namespace continuo::tests
