#include "tests/unit/control/control_pair.hpp"
#include "tests/unit/control/sample_messages.hpp"

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

// Everything that a stranger without the right key sees.
struct Outcome {
    std::vector<uint8_t> answer;
    size_t hello_bytes = 0;
    ServerState state{};
    CloseCause client_cause{};
    bool operator==(const Outcome&) const = default;
};

Outcome attempt(const ClientParameters& parameters) {
    ControlPair pair;
    Outcome outcome;
    pair.mangle_down = [&](std::vector<uint8_t>& bytes) {
        outcome.answer.insert(outcome.answer.end(), bytes.begin(), bytes.end());
    };
    pair.start(parameters);
    pair.run();
    EXPECT_TRUE(pair.has_client_event<LinkClosed>());
    EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::HandshakeFailed);
    EXPECT_FALSE(pair.has_server_event<HelloReceived>());
    outcome.hello_bytes = pair.bytes_up;
    outcome.state = pair.server->state();
    outcome.client_cause = pair.client_event<LinkClosed>().cause;
    return outcome;
}

TEST(HostileControl, WrongKeyUnknownIdentityAndForeignRealmLookAlike) {
    ClientParameters wrong_key = default_client();
    wrong_key.key = key_of(0x12);
    ClientParameters unknown = default_client();
    unknown.identity.user = "mallo";
    ClientParameters unknown_key_id = default_client();
    unknown_key_id.identity.key_id = "k2";
    ClientParameters wrong_realm = default_client();
    wrong_realm.realm = "other.example";
    ClientParameters wrong_identity_key = default_client();
    wrong_identity_key.identity_key = IdentityKey{8};

    const Outcome outcome = attempt(wrong_key);
    EXPECT_EQ(outcome.state, ServerState::Closed);
    EXPECT_EQ(outcome.client_cause, CloseCause::LoginRefused);
    // One alert record: fatal, illegal_parameter.
    EXPECT_EQ(outcome.answer, (std::vector<uint8_t>{21, 3, 3, 0, 2, 2, 47}));
    EXPECT_EQ(attempt(unknown), outcome);
    EXPECT_EQ(attempt(unknown_key_id), outcome);
    EXPECT_EQ(attempt(wrong_realm), outcome);
    EXPECT_EQ(attempt(wrong_identity_key), outcome);
}

// A web server, an SSH server, one that closes, another alert (handshake_failure): no SNAPT has
// judged the key.
TEST(HostileControl, OnlyTheAlertForAKeyIsARefusedLogin) {
    using Bytes = std::vector<uint8_t>;
    for (const Bytes& answer : {Bytes{'H', 'T', 'T', 'P', '/', '1', '.', '1', ' ', '4', '0', '0'},
                                Bytes{'S', 'S', 'H', '-', '2', '.', '0'}, Bytes{},
                                Bytes{21, 3, 3, 0, 2, 2, 40}, Bytes{21, 3, 3, 0, 2, 1, 0}}) {
        ControlPair pair;
        pair.start();
        pair.client->on_bytes(answer, pair.now);
        pair.client->on_transport_closed(pair.now);
        pair.collect();
        EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::HandshakeFailed);
    }
}

TEST(HostileControl, IdentityIsNotReadableOnTheWire) {
    ControlPair pair;
    std::string wire;
    pair.mangle_up = [&](std::vector<uint8_t>& bytes) { wire.append(bytes.begin(), bytes.end()); };
    pair.establish();
    EXPECT_EQ(wire.find("alice"), std::string::npos);
    EXPECT_EQ(wire.find("laptop"), std::string::npos);
}

size_t total_bytes(bool up) {
    ControlPair pair;
    pair.establish();
    return up ? pair.bytes_up : pair.bytes_down;
}

// Applies `change` at byte `at` of the stream in one direction.
void run_damaged(bool up,
                 size_t at,
                 const std::function<void(std::vector<uint8_t>&, size_t)>& change) {
    ControlPair pair;
    pair.accept_with(default_accept());
    size_t seen = 0;
    const Mangle mangle = [&](std::vector<uint8_t>& bytes) {
        const size_t length = bytes.size();
        if (at >= seen && at < seen + length) {
            change(bytes, at - seen);
        }
        seen += length;
    };
    (up ? pair.mangle_up : pair.mangle_down) = mangle;
    pair.start();
    pair.run();
    const bool both_open =
        pair.client->state() == ClientState::Open && pair.server->state() == ServerState::Open;
    EXPECT_FALSE(both_open) << (up ? "up " : "down ") << at;
    pair.now += kHandshakeTimeout;
    pair.client->on_timeout(pair.now);
    pair.server->on_timeout(pair.now);
    pair.run();
    // Whoever did not finish is closed; an end that had finished has equal rights to find out by
    // its next ping.
    if (pair.client->state() == ClientState::Open) {
        ASSERT_TRUE(pair.client->probe(pair.now));
        pair.run();
        pair.now += kPongTimeout;
        pair.client->on_timeout(pair.now);
    }
    EXPECT_EQ(pair.client->state(), ClientState::Closed) << (up ? "up " : "down ") << at;
}

// The minor version of a stream's first record is ignored for all purposes (RFC 8446 section 5.1).
constexpr size_t kLegacyVersionAt = 2;

TEST(HostileControl, ACorruptedByteAnywhereNeverLeavesBothEndsOpen) {
    for (const bool up : {true, false}) {
        const size_t total = total_bytes(up);
        ASSERT_GT(total, 200U);
        for (size_t at = 0; at < total; ++at) {
            if (at == kLegacyVersionAt) {
                continue;
            }
            run_damaged(up, at,
                        [](std::vector<uint8_t>& bytes, size_t offset) { bytes[offset] ^= 0x40U; });
        }
    }
}

TEST(HostileControl, AMissingByteAnywhereNeverLeavesBothEndsOpen) {
    for (const bool up : {true, false}) {
        const size_t total = total_bytes(up);
        for (size_t at = 0; at < total; ++at) {
            run_damaged(up, at, [](std::vector<uint8_t>& bytes, size_t offset) {
                bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(offset));
            });
        }
    }
}

TEST(HostileControl, AStreamCutAnywhereClosesBothEnds) {
    const size_t total = total_bytes(true);
    for (size_t cut = 0; cut <= total; ++cut) {
        ControlPair pair;
        pair.accept_with(default_accept());
        size_t seen = 0;
        pair.mangle_up = [&](std::vector<uint8_t>& bytes) {
            const size_t allowed = cut > seen ? cut - seen : 0;
            bytes.resize(std::min(bytes.size(), allowed));
            seen += bytes.size();
        };
        pair.start();
        pair.run();
        pair.client->on_transport_closed(pair.now);
        pair.server->on_transport_closed(pair.now);
        pair.collect();
        EXPECT_EQ(pair.client->state(), ClientState::Closed);
        EXPECT_EQ(pair.server->state(), ServerState::Closed);
        EXPECT_TRUE(pair.has_client_event<LinkClosed>());
        EXPECT_TRUE(pair.has_server_event<LinkClosed>());
    }
}

TEST(HostileControl, NoiseNeverOpensAndIsBounded) {
    base::SeededRandom random(3);
    for (int run = 0; run < 300; ++run) {
        ControlPair pair;
        ASSERT_TRUE(pair.server->start(pair.now));
        std::vector<uint8_t> noise(random.below(3000));
        random.fill(noise);
        if (run % 2 == 0 && noise.size() > 6) {
            noise[0] = 22;  // handshake record
            noise[1] = 3;
            noise[2] = 1;
            noise[5] = 1;  // ClientHello
        }
        pair.server->on_bytes(noise, pair.now);
        EXPECT_FALSE(pair.server->is_authenticated());
        EXPECT_EQ(pair.credentials.lookups, 0);
    }
}

// A peer that has the key and breaks the protocol.
struct RogueClient {
    explicit RogueClient(ControlPair& pair) : pair_(pair) {
        const ClientParameters parameters = default_client();
        channel =
            std::move(TlsChannel::connect(pair.client_context,
                                          encode_identity(parameters.identity,
                                                          parameters.identity_key, pair.random),
                                          derive_psk(parameters.key, parameters.realm)))
                .value();
        EXPECT_TRUE(pair.server->start(pair.now));
        run();
        EXPECT_TRUE(channel->is_established());
    }
    void run() {
        std::array<uint8_t, 4096> buffer{};
        while (channel->has_bytes() || pair_.server->has_bytes()) {
            while (const size_t taken = channel->poll_bytes(buffer)) {
                pair_.server->on_bytes(base::ByteView(buffer).first(taken), pair_.now);
            }
            pair_.collect();
            while (const size_t taken = pair_.server->poll_bytes(buffer)) {
                static_cast<void>(
                    channel->on_bytes(base::ByteView(buffer).first(taken)).has_value());
            }
        }
        pair_.collect();
    }
    void send(const Message& message) {
        std::vector<uint8_t> bytes;
        ASSERT_TRUE(append_message(bytes, message));
        send_raw(bytes);
    }
    void send_raw(const std::vector<uint8_t>& bytes) {
        ASSERT_TRUE(channel->send(bytes));
        run();
    }
    ControlPair& pair_;
    std::unique_ptr<TlsChannel> channel;
};

TEST(HostileControl, MessagesOutOfTurnCloseTheLink) {
    const std::vector<uint8_t> datagram = {1};
    const std::vector<Message> before_hello = {Rekey{1},       Apps{},           SessionQuery{},
                                               Data{datagram}, default_accept(), UsageQuery{},
                                               RekeyOk{},      Directory{}};
    for (const Message& message : before_hello) {
        ControlPair pair;
        RogueClient rogue(pair);
        rogue.send(message);
        EXPECT_EQ(pair.server->state(), ServerState::Closed) << message.index();
        EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::ProtocolError);
        EXPECT_TRUE(pair.up_sink.datagrams.empty());
    }
    const std::vector<Message> when_open = {default_client().hello,
                                            default_accept(),
                                            RekeyOk{2},
                                            Rekey{1},
                                            Rekey{3},
                                            Directory{},
                                            SessionState{},
                                            UsageReply{},
                                            KeepaliveRequest{}};
    for (const Message& message : when_open) {
        ControlPair pair;
        pair.accept_with(default_accept());
        RogueClient rogue(pair);
        rogue.send(default_client().hello);
        ASSERT_EQ(pair.server->state(), ServerState::Open);
        rogue.send(message);
        EXPECT_EQ(pair.server->state(), ServerState::Closed) << message.index();
    }
}

TEST(HostileControl, MalformedHelloIsRejected) {
    ControlPair pair;
    RogueClient rogue(pair);
    rogue.send_raw({1, 0, 3, 1, 0, 0});
    EXPECT_EQ(pair.server->state(), ServerState::Closed);
    EXPECT_FALSE(pair.has_server_event<HelloReceived>());
}

TEST(HostileControl, UnknownMessagesAreSkippedUnlessCritical) {
    ControlPair pair;
    pair.accept_with(default_accept());
    RogueClient rogue(pair);
    rogue.send(default_client().hello);
    rogue.send_raw({0x70, 0, 1, 0xAA});
    EXPECT_EQ(pair.server->state(), ServerState::Open);
    rogue.send_raw({0x90, 0, 1, 0xAA});
    EXPECT_EQ(pair.server->state(), ServerState::Closed);
}

TEST(HostileControl, ASecondRekeyBeforeTheFirstIsConfirmedClosesTheLink) {
    ControlPair pair;
    pair.confirm_rekeys = false;
    pair.accept_with(default_accept());
    RogueClient rogue(pair);
    rogue.send(default_client().hello);
    rogue.send(Rekey{2});
    EXPECT_EQ(pair.server->state(), ServerState::Open);
    rogue.send(Rekey{2});
    EXPECT_EQ(pair.server->state(), ServerState::Closed);
}

// A SNAPT that has the key and breaks the protocol.
struct RogueSnapt final : PskSource {
    explicit RogueSnapt(ControlPair& pair) : pair_(pair) {
        channel = std::move(TlsChannel::accept(pair.server_context, *this)).value();
        EXPECT_TRUE(pair.client->start(default_client(), pair.now));
        run();
        EXPECT_TRUE(channel->is_established());
    }
    void run() {
        std::array<uint8_t, 4096> buffer{};
        while (channel->has_bytes() || pair_.client->has_bytes()) {
            while (const size_t taken = pair_.client->poll_bytes(buffer)) {
                static_cast<void>(
                    channel->on_bytes(base::ByteView(buffer).first(taken)).has_value());
            }
            while (const size_t taken = channel->poll_bytes(buffer)) {
                pair_.client->on_bytes(base::ByteView(buffer).first(taken), pair_.now);
            }
        }
    }
    std::optional<Psk> find_psk(base::ByteView /*wire_identity*/) override {
        return derive_psk(default_client().key, default_client().realm);
    }
    // Nothing goes out any more once the client has closed.
    void send_raw(const std::vector<uint8_t>& bytes) {
        static_cast<void>(channel->send(bytes).has_value());
        run();
    }
    ControlPair& pair_;
    std::unique_ptr<TlsChannel> channel;
};

std::vector<uint8_t> random_message(const std::vector<Message>& samples, base::Random& random) {
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(append_message(bytes, samples[random.below(samples.size())]));
    if (bytes.size() > kMessageHeaderBytes && random.below(3) == 0) {
        const size_t at = kMessageHeaderBytes + random.below(bytes.size() - kMessageHeaderBytes);
        bytes[at] = static_cast<uint8_t>(random.below(256));
    }
    return bytes;
}

TEST(HostileControl, AnySequenceOfMessagesFromANodeIsSurvivedAndBounded) {
    const auto samples = all_messages();
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        base::SeededRandom random(seed);
        ControlPair pair;
        pair.confirm_rekeys = seed % 2 == 0;
        pair.accept_with(default_accept());
        RogueClient rogue(pair);
        if (seed % 4 != 0) {
            rogue.send(default_client().hello);
        }
        for (int i = 0; i < 50 && pair.server->state() != ServerState::Closed; ++i) {
            rogue.send_raw(random_message(samples, random));
        }
        EXPECT_LE(pair.server_events.size(), 52U);
        EXPECT_EQ(pair.has_server_event<LinkClosed>(), pair.server->state() == ServerState::Closed);
    }
}

TEST(HostileControl, AnySequenceOfMessagesFromASnaptIsSurvivedAndBounded) {
    const auto samples = all_messages();
    std::vector<uint8_t> accept;
    ASSERT_TRUE(append_message(accept, default_accept()));
    for (uint64_t seed = 1; seed <= 200; ++seed) {
        base::SeededRandom random(seed);
        ControlPair pair;
        RogueSnapt rogue(pair);
        if (seed % 4 != 0) {
            rogue.send_raw(accept);
            EXPECT_EQ(pair.client->state(), ClientState::Open);
        }
        for (int i = 0; i < 50 && pair.client->state() != ClientState::Closed; ++i) {
            rogue.send_raw(random_message(samples, random));
        }
        pair.collect();
        EXPECT_LE(pair.client_events.size(), 52U);
    }
}

TEST(HostileControl, AFloodOfEventsThatNobodyTakesClosesTheLink) {
    std::vector<uint8_t> accept;
    ASSERT_TRUE(append_message(accept, default_accept()));
    std::vector<uint8_t> request;
    ASSERT_TRUE(append_message(request, KeepaliveRequest{}));
    ControlPair pair;
    RogueSnapt rogue(pair);
    rogue.send_raw(accept);
    for (size_t i = 0; i < 2 * kMaxPendingEvents; ++i) {
        rogue.send_raw(request);
    }
    EXPECT_EQ(pair.client->state(), ClientState::Closed);
    pair.collect();
    EXPECT_LE(pair.client_events.size(), kMaxPendingEvents + 1);
    EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::Overflow);
}

}  // namespace
}  // namespace continuo::control
