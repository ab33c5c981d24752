#include "tests/unit/control/control_pair.hpp"

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

TEST(Control, BothEndsAgreeOnParametersAndKeys) {
    ControlPair pair;
    pair.establish();
    const auto& hello = pair.server_event<HelloReceived>();
    EXPECT_EQ(hello.identity, (Identity{"alice", "k1"}));
    EXPECT_EQ(hello.hello, default_client().hello);
    const auto& established = pair.client_event<Established>();
    EXPECT_EQ(established.accept, default_accept());
    EXPECT_EQ(established.keys, pair.server_keys);
    EXPECT_EQ(established.keys.epoch, 1U);
    EXPECT_NE(established.keys.up, established.keys.down);
}

TEST(Control, EstablishesByteByByte) {
    ControlPair pair;
    pair.chunk_bytes = 1;
    pair.establish();
    EXPECT_EQ(pair.client_event<Established>().keys, pair.server_keys);
}

TEST(Control, EstablishesWithoutIdentityKey) {
    ControlPair pair;
    pair.accept_with(default_accept());
    ClientParameters parameters = default_client();
    parameters.identity_key.reset();
    pair.start(parameters);
    pair.run();
    EXPECT_EQ(pair.client->state(), ClientState::Open);
}

TEST(Control, AcceptIsSentOnlyAfterTheDataPathHasTheKeys) {
    ControlPair pair;
    pair.on_hello = [&](const HelloReceived&) {
        ASSERT_TRUE(pair.server->accept(default_accept()));
    };
    pair.start();
    pair.run();
    EXPECT_EQ(pair.server->state(), ServerState::Prepared);
    EXPECT_EQ(pair.client->state(), ClientState::WaitAccept);
    EXPECT_FALSE(pair.server->confirm(2, pair.now));
    ASSERT_TRUE(pair.server->confirm(1, pair.now));
    pair.run();
    EXPECT_EQ(pair.client->state(), ClientState::Open);
}

TEST(Control, RejectionReachesTheNodeWithReasonAndText) {
    ControlPair pair;
    pair.on_hello = [&](const HelloReceived&) {
        pair.server->reject(RejectReason::SessionLimit, "8 sessions are open");
    };
    pair.start();
    pair.run();
    const auto& rejected = pair.client_event<Rejected>();
    EXPECT_EQ(rejected.reject, (Reject{RejectReason::SessionLimit, "8 sessions are open"}));
    EXPECT_EQ(pair.client->state(), ClientState::Closed);
    EXPECT_FALSE(pair.has_client_event<LinkClosed>());
    EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::Local);
}

TEST(Control, WithoutCommonVersionTheDaemonIsNotAsked) {
    ControlPair pair;
    ClientParameters parameters = default_client();
    parameters.hello.versions = {kProtocolVersion + 1, kProtocolVersion + 2};
    pair.start(parameters);
    pair.run();
    EXPECT_EQ(
        pair.client_event<Rejected>().reject,
        (Reject{RejectReason::NoCommonVersion, "this SNAPT speaks version 2, the node 3 and 4"}));
    EXPECT_FALSE(pair.has_server_event<HelloReceived>());
}

TEST(Control, RekeyGivesEqualNewKeysEachTime) {
    ControlPair pair;
    pair.establish();
    std::vector<EpochKeys> all = {pair.server_keys};
    for (uint32_t epoch = 2; epoch < 8; ++epoch) {
        ASSERT_TRUE(pair.client->request_rekey(pair.now));
        EXPECT_FALSE(pair.client->request_rekey(pair.now));
        pair.run();
        const auto& rekeyed = pair.client_event<Rekeyed>();
        EXPECT_EQ(rekeyed.keys, pair.server_event<RekeyAsked>().keys);
        EXPECT_EQ(rekeyed.keys.epoch, epoch);
        EXPECT_EQ(pair.client->epoch(), epoch);
        for (const EpochKeys& older : all) {
            EXPECT_NE(older.up, rekeyed.keys.up);
            EXPECT_NE(older.down, rekeyed.keys.down);
            EXPECT_NE(older.up, rekeyed.keys.down);
        }
        all.push_back(rekeyed.keys);
    }
}

TEST(Control, RekeyWaitsForTheDataPath) {
    ControlPair pair;
    pair.establish();
    pair.confirm_rekeys = false;
    ASSERT_TRUE(pair.client->request_rekey(pair.now));
    pair.run();
    EXPECT_TRUE(pair.has_server_event<RekeyAsked>());
    EXPECT_FALSE(pair.has_client_event<Rekeyed>());
    ASSERT_TRUE(pair.server->confirm(2, pair.now));
    EXPECT_FALSE(pair.server->confirm(2, pair.now));
    pair.run();
    EXPECT_TRUE(pair.has_client_event<Rekeyed>());
}

// The node's HELLO comes when the handshake is finished: what happens between is for `meanwhile`.
template <typename Meanwhile>
void start_and_pause_before_hello(ControlPair& pair, const Meanwhile& meanwhile) {
    pair.chunk_bytes = 1;
    bool is_told = false;
    pair.before_chunk = [&] {
        if (!is_told && pair.server->is_authenticated()) {
            is_told = true;
            EXPECT_EQ(pair.server->state(), ServerState::WaitHello);
            meanwhile();
        }
    };
    pair.start();
    pair.run();
    EXPECT_TRUE(is_told);
}

TEST(Control, AUserThatIsDisabledAfterItsHandshakeIsRefusedAtHello) {
    ControlPair pair;
    start_and_pause_before_hello(pair, [&] { pair.credentials.keys.clear(); });
    EXPECT_EQ(pair.client_event<Rejected>().reject.reason, RejectReason::UserDisabled);
    EXPECT_FALSE(pair.has_server_event<HelloReceived>());
    EXPECT_EQ(pair.server->state(), ServerState::Closed);
}

// Removed and added anew: the key id is the same.
TEST(Control, AKeyThatWasReplacedAfterTheHandshakeIsRefusedAtHello) {
    ControlPair pair;
    start_and_pause_before_hello(pair, [&] { pair.credentials.keys["alice/k1"] = key_of(0x22); });
    EXPECT_EQ(pair.client_event<Rejected>().reject.reason, RejectReason::UserDisabled);
    EXPECT_FALSE(pair.has_server_event<HelloReceived>());
}

TEST(Control, AUserThatIsDisabledGetsNoNewKeys) {
    ControlPair pair;
    pair.establish();
    pair.credentials.keys.clear();
    ASSERT_TRUE(pair.client->request_rekey(pair.now));
    pair.run();
    EXPECT_FALSE(pair.has_server_event<RekeyAsked>());
    EXPECT_FALSE(pair.has_client_event<Rekeyed>());
    EXPECT_EQ(pair.client_event<LinkClosed>().peer.reason, CloseReason::Disconnected);
}

TEST(Control, UnansweredRekeyEndsTheLink) {
    ControlPair pair;
    pair.establish();
    pair.confirm_rekeys = false;
    ASSERT_TRUE(pair.client->request_rekey(pair.now));
    pair.run();
    pair.now += kRekeyTimeout;
    pair.client->on_timeout(pair.now);
    pair.run();
    EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::PongTimeout);
}

TEST(Control, KeysDifferBySessionWireIdAndConnection) {
    std::vector<EpochKeys> all;
    for (int run = 0; run < 4; ++run) {
        ControlPair pair;
        ClientParameters parameters = default_client();
        Accept accept = default_accept();
        if (run == 1) {
            parameters.hello.session_id[0] = 99;
        } else if (run == 2) {
            accept.wire_session_up = 99;
        }
        pair.accept_with(accept);
        pair.start(parameters);
        pair.run();
        ASSERT_EQ(pair.client->state(), ClientState::Open);
        for (const EpochKeys& other : all) {
            EXPECT_NE(other.up, pair.server_keys.up);
            EXPECT_NE(other.down, pair.server_keys.down);
        }
        all.push_back(pair.server_keys);
    }
}

TEST(Control, ContinuesAnAssociationWithTheNextEpoch) {
    ClientParameters parameters = default_client();
    parameters.hello.continuation = Continuation{0x0102, 7};
    for (const auto& [epoch, wire_session_up, continued, opens] :
         {std::tuple<uint32_t, uint16_t, bool, bool>{8, 0x0102, true, true},
          {7, 0x0102, true, false},
          {9, 0x0102, true, false},
          {8, 0x0103, true, false},
          {0, 0x0103, false, true}}) {
        ControlPair pair;
        Accept accept = default_accept();
        accept.epoch = epoch;
        accept.wire_session_up = wire_session_up;
        accept.continued = continued;
        pair.accept_with(accept);
        pair.start(parameters);
        pair.run();
        EXPECT_EQ(pair.server_event<HelloReceived>().hello.continuation,
                  parameters.hello.continuation);
        EXPECT_EQ(pair.client->state(), opens ? ClientState::Open : ClientState::Closed) << epoch;
    }
}

TEST(Control, AcceptThatWasNotOfferedOrOfAnotherSnaptClosesTheLink) {
    struct Row {
        std::function<void(Accept&)> change;
        CloseCause cause;
    };
    const std::vector<Row> rows = {
        {[](Accept& a) { a.snapt = "bsl-1"; }, CloseCause::WrongSnapt},
        {[](Accept& a) { a.realm = "other.example"; }, CloseCause::WrongSnapt},
        {[](Accept& a) {
             a.protection = {ProtectionKind::Aes256Gcm, 16};
         },
         CloseCause::ProtocolError},
        {[](Accept& a) {
             a.protection = {ProtectionKind::HmacSha256, 16};
         },
         CloseCause::ProtocolError},
        {[](Accept& a) { a.version = kProtocolVersion + 1; }, CloseCause::ProtocolError},
        {[](Accept& a) { a.inner_mtu = 1279; }, CloseCause::ProtocolError},
        {[](Accept& a) {
             a.lease_ipv4.reset();
             a.lease_ipv6.reset();
         },
         CloseCause::ProtocolError},
        {[](Accept& a) { a.continued = true; }, CloseCause::ProtocolError},
    };
    for (size_t i = 0; i < rows.size(); ++i) {
        ControlPair pair;
        Accept accept = default_accept();
        rows[i].change(accept);
        pair.accept_with(accept);
        pair.start();
        pair.run();
        ASSERT_TRUE(pair.has_client_event<LinkClosed>()) << i;
        EXPECT_EQ(pair.client_event<LinkClosed>().cause, rows[i].cause) << i;
        EXPECT_FALSE(pair.has_client_event<Established>()) << i;
        EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::Peer) << i;
    }
}

TEST(Control, CarriesEveryRequestBothWays) {
    ControlPair pair;
    pair.establish();
    const std::vector<App> apps = {{1, "firefox"}};
    ASSERT_TRUE(pair.client->send_apps({apps}));
    ASSERT_TRUE(pair.client->query_usage(3, "{}"));
    ASSERT_TRUE(pair.client->query_session(pair.now));
    ASSERT_TRUE(pair.client->send_datagram(std::vector<uint8_t>{1, 2, 3}));
    pair.run();
    EXPECT_EQ(pair.server_event<Apps>().apps, apps);
    EXPECT_EQ(pair.server_event<UsageQuery>(), (UsageQuery{3, "{}"}));
    EXPECT_TRUE(pair.has_server_event<SessionQuery>());
    EXPECT_EQ(pair.up_sink.datagrams, (std::vector<std::vector<uint8_t>>{{1, 2, 3}}));

    const Directory directory{
        {{"bsl-1", "mesh.example", {*base::Endpoint::parse("192.0.2.1:2")}, 1, 2}}};
    ASSERT_TRUE(pair.server->send_directory(directory));
    ASSERT_TRUE(pair.server->reply_usage({3, "[]"}));
    ASSERT_TRUE(pair.server->ask_for_keepalive());
    ASSERT_TRUE(pair.server->ask_for_rekey());
    ASSERT_TRUE(pair.server->tell_session_state(false));
    Allowance allowance;
    allowance.state = AllowanceState::Stopped;
    allowance.used_bytes = 5;
    ASSERT_TRUE(pair.server->tell_allowance(allowance));
    ASSERT_TRUE(pair.server->send_datagram(std::vector<uint8_t>{4}));
    pair.run();
    EXPECT_EQ(pair.client_event<Directory>(), directory);
    EXPECT_EQ(pair.client_event<UsageReply>(), (UsageReply{3, "[]"}));
    EXPECT_TRUE(pair.has_client_event<KeepaliveRequest>());
    EXPECT_TRUE(pair.has_client_event<RekeyRequested>());
    EXPECT_FALSE(pair.client_event<SessionState>().known);
    EXPECT_EQ(pair.client_event<Allowance>(), allowance);
    EXPECT_EQ(pair.down_sink.datagrams, (std::vector<std::vector<uint8_t>>{{4}}));
}

TEST(Control, CloseTellsThePeerWhy) {
    ControlPair pair;
    pair.establish();
    pair.server->close(CloseReason::Draining, "maintenance");
    pair.run();
    EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::Peer);
    EXPECT_EQ(pair.client_event<LinkClosed>().peer, (Close{CloseReason::Draining, "maintenance"}));
    EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::Local);
    EXPECT_EQ(pair.client->query_session(pair.now).error().code, base::Errc::InvalidState);
}

TEST(Control, HandshakeEndsAfterFiveSecondsWhereverItHangs) {
    {
        ControlPair pair;  // nothing comes
        pair.start();
        EXPECT_EQ(pair.client->next_deadline(), pair.now + kHandshakeTimeout);
        EXPECT_EQ(pair.server->next_deadline(), pair.now + kHandshakeTimeout);
        pair.client->on_timeout(pair.now + kHandshakeTimeout - base::Duration(1));
        EXPECT_EQ(pair.client->state(), ClientState::Handshake);
        pair.client->on_timeout(pair.now + kHandshakeTimeout);
        pair.server->on_timeout(pair.now + kHandshakeTimeout);
        pair.collect();
        EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::HandshakeTimeout);
        EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::HandshakeTimeout);
        EXPECT_EQ(pair.client->next_deadline(), base::kNever);
    }
    {
        ControlPair pair;  // no decision
        pair.start();
        pair.run();
        EXPECT_EQ(pair.server->state(), ServerState::WaitDecision);
        pair.now += kHandshakeTimeout;
        pair.server->on_timeout(pair.now);
        pair.run();
        EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::HandshakeTimeout);
        EXPECT_EQ(pair.client_event<LinkClosed>().peer.reason, CloseReason::Timeout);
    }
}

TEST(Control, AnIdleLinkIsPingedAndLives) {
    ControlPair pair;
    pair.establish();
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(pair.client->next_deadline(), pair.now + kPingInterval);
        pair.now = pair.client->next_deadline();
        pair.client->on_timeout(pair.now);
        EXPECT_EQ(pair.client->next_deadline(), pair.now + kPongTimeout);
        pair.run();
        pair.server->on_timeout(pair.now);
    }
    EXPECT_EQ(pair.client->state(), ClientState::Open);
    EXPECT_EQ(pair.server->state(), ServerState::Open);
}

// A SNAPT that was started anew where nothing resets the connection with the former one.
TEST(Control, AQuestionForTheSessionWithoutAnswerEndsTheLink) {
    ControlPair pair;
    pair.establish();
    ASSERT_TRUE(pair.client->query_session(pair.now));
    pair.run();
    ASSERT_TRUE(pair.server->tell_session_state(true));
    pair.run();
    pair.client->on_timeout(pair.now + kSessionStateTimeout);
    EXPECT_EQ(pair.client->state(), ClientState::Open) << "it was answered";
    ASSERT_TRUE(pair.client->query_session(pair.now));
    pair.client->on_timeout(pair.now + kSessionStateTimeout);
    pair.collect();
    EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::PongTimeout);
}

TEST(Control, AProbeWithoutAnswerEndsTheLink) {
    ControlPair pair;
    pair.establish();
    ASSERT_TRUE(pair.client->probe(pair.now));
    pair.client->on_timeout(pair.now + kPongTimeout);
    pair.collect();
    EXPECT_EQ(pair.client_event<LinkClosed>().cause, CloseCause::PongTimeout);
}

TEST(Control, ASilentNodeIsGivenUp) {
    ControlPair pair;
    pair.establish();
    pair.server->on_timeout(pair.now + kServerSilenceTimeout);
    pair.collect();
    EXPECT_EQ(pair.server_event<LinkClosed>().cause, CloseCause::SilenceTimeout);
}

TEST(Control, WhatNobodyTakesIsNotReadAndNothingIsLost) {
    ControlPair pair;
    pair.establish();
    constexpr size_t kQuestions = 5 * kMaxServerEvents + 1;
    for (size_t i = 0; i < kQuestions; ++i) {
        ASSERT_TRUE(pair.client->query_session(pair.now));
    }
    pair.client->close(CloseReason::Disconnected, "bye");
    pair.move(*pair.client, *pair.server, {});
    size_t questions = 0;
    for (size_t round = 0; round < kQuestions && pair.server->is_full(); ++round) {
        for (size_t i = 0; i < kMaxServerEvents; ++i) {
            const auto event = pair.server->poll_event();
            ASSERT_TRUE(event && std::holds_alternative<SessionQuery>(*event));
            ++questions;
        }
        EXPECT_FALSE(pair.server->poll_event()) << "more waited than may";
        pair.server->read_on(pair.now);
    }
    while (const auto event = pair.server->poll_event()) {
        questions += std::holds_alternative<SessionQuery>(*event) ? 1U : 0U;
        if (const auto* closed = std::get_if<LinkClosed>(&*event)) {
            EXPECT_EQ(closed->peer.reason, CloseReason::Disconnected);
        }
    }
    EXPECT_EQ(questions, kQuestions);
    EXPECT_EQ(pair.server->state(), ServerState::Closed);
}

}  // namespace
}  // namespace continuo::control
