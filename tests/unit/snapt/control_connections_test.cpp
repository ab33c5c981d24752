// The other connections that a ControlServer takes: questions of a captive portal, and datagrams
// over plain TCP.
#include "cnapt/bypass/portal_probe.hpp"
#include "common/dataplane/plain_stream.hpp"
#include "common/io/socket_address.hpp"
#include "tests/unit/snapt/control_link_fixture.hpp"

#include <poll.h>

namespace continuo::tests {
namespace {

class PortalQuestionTest : public ControlLinkTest {
  protected:
    cnapt::bypass::PortalQuestion question(uint8_t key, const std::string& realm = "mesh.example") {
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
    EXPECT_EQ(cnapt::bypass::ask_for_portal(question(1)).verdict, control::PortalVerdict::Snapt);
    EXPECT_EQ(cnapt::bypass::ask_for_portal(question(9)).verdict, control::PortalVerdict::Snapt);
    EXPECT_EQ(server->counters().portal_checks, 2U);
    EXPECT_EQ(server->counters().failed_handshakes, 0U);
}

TEST_F(PortalQuestionTest, AWrongKeyGetsAnAnswerThatOnlyItsOwnerCouldTellFromAGoodOne) {
    EXPECT_EQ(cnapt::bypass::ask_for_portal(question(2)).verdict, control::PortalVerdict::Stranger);
    EXPECT_EQ(cnapt::bypass::ask_for_portal(question(1, "other")).verdict,
              control::PortalVerdict::Stranger);
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

}  // namespace
}  // namespace continuo::tests
