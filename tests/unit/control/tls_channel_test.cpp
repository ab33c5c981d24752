#include "common/control/tls_channel.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

class OnePsk final : public PskSource {
  public:
    std::optional<Psk> find_psk(base::ByteView wire_identity) override {
        identity.assign(wire_identity.begin(), wire_identity.end());
        return psk;
    }
    std::optional<Psk> psk = Psk{5};
    std::vector<uint8_t> identity;
};

struct ChannelPair {
    void open(const Psk& client_psk = Psk{5}) {
        client = std::move(TlsChannel::connect(client_context, {1, 'x'}, client_psk)).value();
        server = std::move(TlsChannel::accept(server_context, source)).value();
    }
    static std::vector<uint8_t> take(TlsChannel& from) {
        std::vector<uint8_t> all;
        std::array<uint8_t, 4096> buffer{};
        while (const size_t taken = from.poll_bytes(buffer)) {
            all.insert(all.end(), buffer.begin(),
                       buffer.begin() + static_cast<std::ptrdiff_t>(taken));
        }
        return all;
    }
    void run() {
        while (client->has_bytes() || server->has_bytes()) {
            static_cast<void>(server->on_bytes(take(*client)).has_value());
            static_cast<void>(client->on_bytes(take(*server)).has_value());
        }
    }
    TlsContext client_context = std::move(TlsContext::client()).value();
    TlsContext server_context = std::move(TlsContext::server()).value();
    OnePsk source;
    std::unique_ptr<TlsChannel> client;
    std::unique_ptr<TlsChannel> server;
};

TEST(TlsChannel, EstablishesAndCarriesBothWays) {
    ChannelPair pair;
    pair.open();
    pair.run();
    ASSERT_TRUE(pair.client->is_established());
    ASSERT_TRUE(pair.server->is_established());
    EXPECT_EQ(pair.source.identity, (std::vector<uint8_t>{1, 'x'}));

    const std::vector<uint8_t> text(40000, 'a');
    ASSERT_TRUE(pair.client->send(text));
    ASSERT_TRUE(pair.server->send(base::ByteView(text).first(3)));
    pair.run();
    std::vector<uint8_t> received;
    std::array<uint8_t, 1000> buffer{};
    while (const size_t taken = pair.server->receive(buffer).value()) {
        received.insert(received.end(), buffer.begin(),
                        buffer.begin() + static_cast<std::ptrdiff_t>(taken));
    }
    EXPECT_EQ(received, text);
    EXPECT_EQ(pair.client->receive(buffer).value(), 3U);
}

TEST(TlsChannel, FirstServerFlightIsNoLongerThanTheClientHello) {
    ChannelPair pair;
    pair.client =
        std::move(TlsChannel::connect(pair.client_context, std::vector<uint8_t>(61, 2), Psk{5}))
            .value();
    pair.server = std::move(TlsChannel::accept(pair.server_context, pair.source)).value();
    const auto hello = ChannelPair::take(*pair.client);
    ASSERT_TRUE(pair.server->on_bytes(hello));
    EXPECT_LE(ChannelPair::take(*pair.server).size(), hello.size());
}

TEST(TlsChannel, SendsNoTicketAfterTheHandshake) {
    ChannelPair pair;
    pair.open();
    ASSERT_TRUE(pair.server->on_bytes(ChannelPair::take(*pair.client)));
    ASSERT_TRUE(pair.client->on_bytes(ChannelPair::take(*pair.server)));
    ASSERT_TRUE(pair.server->on_bytes(ChannelPair::take(*pair.client)));
    EXPECT_TRUE(pair.server->is_established());
    EXPECT_FALSE(pair.server->has_bytes());
}

TEST(TlsChannel, WrongKeyFailsOnBothEnds) {
    ChannelPair pair;
    pair.open(Psk{6});
    pair.run();
    EXPECT_TRUE(pair.client->has_failed());
    EXPECT_TRUE(pair.server->has_failed());
}

TEST(TlsChannel, ExportsEqualKeysThatDifferByContextAndLabel) {
    ChannelPair pair;
    pair.open();
    pair.run();
    const std::array<uint8_t, 2> context = {1, 2};
    const std::array<uint8_t, 2> other = {1, 3};
    using Out = std::array<uint8_t, 44>;
    Out client{};
    Out server{};
    Out different{};
    ASSERT_TRUE(pair.client->export_keys("EXPORTER-x", context, client));
    ASSERT_TRUE(pair.server->export_keys("EXPORTER-x", context, server));
    EXPECT_EQ(client, server);
    ASSERT_TRUE(pair.server->export_keys("EXPORTER-x", other, different));
    EXPECT_NE(client, different);
    ASSERT_TRUE(pair.server->export_keys("EXPORTER-y", context, different));
    EXPECT_NE(client, different);
}

TEST(TlsChannel, RefusesToSendAndExportBeforeEstablishment) {
    ChannelPair pair;
    pair.open();
    std::array<uint8_t, 4> bytes{};
    EXPECT_EQ(pair.client->send(bytes).error().code, base::Errc::InvalidState);
    EXPECT_EQ(pair.client->export_keys("l", bytes, bytes).error().code, base::Errc::InvalidState);
}

TEST(TlsChannel, AcceptsNoMoreThanTheHandshakeLimitFromStrangers) {
    ChannelPair pair;
    pair.open();
    // A record header that announces more than will ever come, again and again: a ClientHello in
    // crumbs.
    size_t fed = 0;
    const std::vector<uint8_t> record = [] {
        std::vector<uint8_t> bytes = {22, 3, 1,    0x02, 0x04,
                                      1,  0, 0xFF, 0xFF};  // ClientHello of 65535 bytes
        bytes.resize(5 + 0x204, 0);
        return bytes;
    }();
    base::Result<void> result;
    while (result && fed < 10 * kMaxHandshakeBytes) {
        result = pair.server->on_bytes(record);
        fed += record.size();
    }
    EXPECT_FALSE(result);
    EXPECT_LE(fed, kMaxHandshakeBytes + 4096);
}

TEST(TlsChannel, SendSaysWouldBlockWhenOutputIsNotTaken) {
    ChannelPair pair;
    pair.open();
    pair.run();
    const std::vector<uint8_t> block(16384, 1);
    base::Result<void> result;
    size_t sent = 0;
    while (result && sent < 2 * kMaxPendingOutputBytes) {
        result = pair.client->send(block);
        sent += block.size();
    }
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, base::Errc::WouldBlock);
    pair.run();
    std::vector<uint8_t> sunk(kMaxPendingOutputBytes);
    while (pair.server->receive(sunk).value() > 0) {
    }
    EXPECT_TRUE(pair.client->send(block));
}

TEST(TlsChannel, PeerSeesShutdown) {
    ChannelPair pair;
    pair.open();
    pair.run();
    pair.client->shutdown();
    pair.run();
    std::array<uint8_t, 4> buffer{};
    EXPECT_EQ(pair.server->receive(buffer).value(), 0U);
    EXPECT_TRUE(pair.server->is_peer_closed());
}

}  // namespace
}  // namespace continuo::control
