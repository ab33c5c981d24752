#include "tests/unit/snapt/admission_fixture.hpp"

namespace continuo::snapt {
namespace {

TEST_F(AdmissionTest, AUserThatIsDisabledLosesSessionAndLinkAndHearsWhy) {
    log_in("alice");
    EXPECT_EQ(let_in(), Names{"alice"});
    ASSERT_TRUE(users->set_disabled("alice", true));
    admission->end_user("alice");
    EXPECT_TRUE(let_in().empty());
    ASSERT_TRUE(wait([this] { return !node.closed.empty() && server->counters().links == 0; }));
    EXPECT_EQ(node.closed[0].peer.reason, control::CloseReason::Disconnected);
    EXPECT_NE(node.closed[0].peer.text.find("disabled"), std::string::npos);
    EXPECT_TRUE(node.session_states.empty()) << "it would begin another session at once";
}

TEST_F(AdmissionTest, AUserThatTheOperatorDisconnectsHearsWhyAndMayComeBack) {
    log_in("alice");
    hello(60, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    EXPECT_EQ(admission->disconnect_user("carol").sessions, 0U);
    EXPECT_EQ(admission->disconnect_user("alice").sessions, 1U);
    EXPECT_EQ(let_in(), Names{"bob"});
    EXPECT_TRUE(was_logged("session_end", "reason=ended_by_operator"));
    EXPECT_FALSE(was_logged("session_end", "reason=not_allowed"));
    ASSERT_TRUE(wait([this] { return !node.closed.empty(); }));
    EXPECT_EQ(node.closed[0].peer.reason, control::CloseReason::Disconnected);
    EXPECT_EQ(node.closed[0].peer.text, "the operator ended the session");
    hello(61, "alice");
    EXPECT_TRUE(wait([this] { return let_in().size() == 2; }));
}

TEST_F(AdmissionTest, ASessionIsDisconnectedByItsIdAlone) {
    hello_of_alice(1, "laptop", 1);
    hello_of_alice(2, "phone", 2);
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    const std::string phone = "02" + std::string(30, '0');
    EXPECT_EQ(admission->disconnect_session(phone).sessions, 1U);
    EXPECT_EQ(sessions(), std::set<std::string>{"laptop.1"});
    EXPECT_EQ(admission->disconnect_session(phone).sessions, 0U);
}

TEST_F(AdmissionTest, TheHelloOfAUserThatIsDisabledTakesNothing) {
    ASSERT_TRUE(users->set_disabled("alice", true));
    hello(1, "alice");
    hello(2, "bob");
    ASSERT_TRUE(wait([this] { return !let_in().empty(); }));
    EXPECT_EQ(let_in(), Names{"bob"});
    EXPECT_EQ(number("SELECT count(*) FROM lease"), 1);
}

TEST_F(AdmissionTest, LoginsAndEndsAreLogged) {
    log_in("alice");
    EXPECT_TRUE(was_logged("login", "user=alice"));
    EXPECT_TRUE(was_logged("login", "continued=no"));
    const base::Endpoint from = *base::Endpoint::parse("192.0.2.7:4711");
    admission->on_hello(60, from, {{"bob", "k1"}, hello_of("phone")});
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    EXPECT_TRUE(was_logged("login", "from=192.0.2.7:4711"));
    hello(61, "bob");  // another node of his
    ASSERT_TRUE(wait([this] { return let_in().size() == 3; }));
    admission->on_hello(62, from, {{"bob", "k1"}, hello_of("phone")});  // begins anew
    ASSERT_TRUE(wait([this] { return was_logged("session_end", "reason=replaced"); }));
    EXPECT_EQ(admission->end_user("bob"), 2U);
    EXPECT_TRUE(was_logged("session_end", "reason=not_allowed"));
    EXPECT_TRUE(was_logged("session_end", "node=phone"));
    EXPECT_FALSE(was_logged("session_end", "user=alice"));
}

// Through the desk's thread, by its look each two seconds of the time that it is told.
TEST_F(AdmissionTest, ANodeIsToldWhenAQuotaNearsItsEndAndIsUsedUp) {
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    TermsChange change;
    change.quota = Quota{1000, "day"};
    change.then = Exhaustion{OnExhausted::Stop, 0};
    ASSERT_TRUE(change_terms(database, "alice", change));
    log_in("alice");
    int64_t now_us = kNoon;
    io::DeadlineTimer pulse(loop, [&] { pulse.set(loop.refresh_now() + base::milliseconds(1)); });
    pulse.set(loop.refresh_now());
    UserMeter& meter = *relay->sessions()[0]->share->meter;
    const auto is_told = [&](control::AllowanceState state, uint64_t used) {
        // No flow has these bytes, so a seal forgets them: what is missing is used again.
        flow::add(meter.counter(), used - static_cast<uint64_t>(meter.allowance().used_bytes));
        now_us += kUsPerSecond / 10;
        accountant->tick(now_us);
        admission->on_tick();
        return node.allowance && node.allowance->state == state &&
               node.allowance->used_bytes == used;
    };
    using State = control::AllowanceState;
    ASSERT_TRUE(wait([&] { return is_told(State::Free, 0); }));
    EXPECT_EQ(node.allowance->quota_bytes, 1000U);
    EXPECT_GT(node.allowance->until_s, static_cast<uint64_t>(kNoon / kUsPerSecond));
    ASSERT_TRUE(wait([&] { return is_told(State::Warned, 900); }));
    ASSERT_TRUE(wait([&] { return is_told(State::Stopped, 1000); }));
    EXPECT_TRUE(was_logged("allowance", "state=stopped"));
    change.quota = Quota{5000, "day"};
    ASSERT_TRUE(change_terms(database, "alice", change));
    EXPECT_TRUE(wait([&] { return is_told(State::Free, 1000); })) << "a larger one holds";
}

TEST_F(AdmissionTest, ANodeIsToldOfAThrottleOnceItActs) {
    log_in("alice");
    MeterTerms terms;
    terms.quota = Quota{1000, "day"};
    terms.used_bytes = 1000;
    terms.then = Exhaustion{OnExhausted::Throttle, 8000};
    relay->sessions()[0]->share->meter->set(terms);
    admission->on_tick();
    EXPECT_FALSE(was_logged("allowance", "state=throttled"));
    relay->look_at_meters();
    admission->on_tick();
    EXPECT_TRUE(was_logged("allowance", "state=throttled"));
}

// A hundredth of what the bookings leave, which here are 50 denarii.
TEST_F(AdmissionTest, ANodeIsToldItsMoneyInParts) {
    log_in("alice");
    UserMeter& meter = *relay->sessions()[0]->share->meter;
    constexpr int64_t kDenarius = 1'000'000;
    const auto has = [&](int64_t unbooked_ud, bool is_low) {
        CreditGrant grant;
        grant.is_low = is_low;
        grant.money = AccountMoney{40 * kDenarius, unbooked_ud, 10 * kDenarius};
        meter.set_credit(grant);
        admission->on_tick();
    };
    const auto is_told = [&](int64_t unbooked_ud) {
        return wait([&] {
            return node.allowance && node.allowance->balance_ud == 40 * kDenarius &&
                   node.allowance->credit == control::AllowanceCredit{10 * kDenarius, unbooked_ud};
        });
    };
    has(0, false);
    ASSERT_TRUE(is_told(0));
    has(kDenarius / 2 - 1, false);
    has(kDenarius / 2, false);
    ASSERT_TRUE(is_told(kDenarius / 2));
    EXPECT_EQ(node.allowances, 2) << "less is no news";
    has(kDenarius / 2 + 1, true);
    ASSERT_TRUE(is_told(kDenarius / 2 + 1));
    EXPECT_EQ(node.allowance->state, control::AllowanceState::Warned);
    EXPECT_EQ(node.allowance->kind, control::AllowanceKind::Credit);
    EXPECT_TRUE(was_logged("allowance", "state=warned"));
}

TEST_F(AdmissionTest, RefusalsAreLoggedWithTheReason) {
    const base::Endpoint from = *base::Endpoint::parse("192.0.2.7:4711");
    config.limits.user_sessions = 1;
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    admission->on_hello(2, from, {{"alice", "k1"}, hello_of("phone")});
    EXPECT_TRUE(was_logged("login_refused user=alice node=phone from=192.0.2.7:4711 "
                           "reason=\"too many sessions\" cause=-"));
    admission->on_hello(3, from, {{"alice", "k1"}, hello_of("a b")});
    EXPECT_TRUE(was_logged("login_refused user=alice node=\"a b\" from=192.0.2.7:4711 "
                           "reason=\"bad node name\" cause=-"));
    EXPECT_EQ(let_in(), Names{"alice"});
}

TEST_F(AdmissionTest, ALeaseThatCannotBeWrittenIsNotCalledAWantOfAddresses) {
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute("CREATE TRIGGER no BEFORE INSERT ON lease BEGIN "
                                 "SELECT RAISE(ABORT, 'no'); END"));
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return was_logged("login_refused", "user=alice"); }));
    EXPECT_EQ(logged().back().find("no address is free"), std::string::npos) << logged().back();
    EXPECT_NE(logged().back().find("reason=\"no lease can be given now\""), std::string::npos);
}

// The rest of the answer is configuration.
TEST_F(AdmissionTest, TheAnswerSaysWhatThisSnaptKeepsAndWhereItIsReached) {
    config.listen = {*base::Endpoint::parse("192.0.2.2:9347"),
                     *base::Endpoint::parse("192.0.2.3:53")};
    config.public_addresses = {{"snapt.example", 443}, {"192.0.2.2", 9347}};
    config.inner.mtu = 1400;
    config.limits.user_flows = 4096;
    config.limits.flows = 1000;
    admission->renew_directory();
    log_in("alice");
    const control::Accept& accept = node.established[0].accept;
    EXPECT_EQ(accept.user_flows, 1000U) << "no user can have more than all";
    EXPECT_EQ(accept.limits.kept_bytes, 0U) << "nothing is kept";
    EXPECT_EQ(accept.limits.live_generations, 0U);
    EXPECT_EQ(accept.udp_ports, (std::vector<uint16_t>{443, 9347, 53})) << "each once";
    EXPECT_EQ(accept.inner_mtu, 1400);
    EXPECT_EQ(accept.snapt, "zrh-1");
    EXPECT_EQ(accept.node, "laptop");
    ASSERT_TRUE(accept.lease_ipv4);
    EXPECT_EQ(*accept.lease_ipv4, *relay->sessions()[0]->grant.lease_ipv4);
    ASSERT_TRUE(wait([this] { return !node.directory.entries.empty(); }));
    EXPECT_EQ(node.directory.entries[0].snapt, "zrh-1") << "it tells of itself";
}

TEST_F(AdmissionTest, OfTheNodesProtectionsTheFirstThatIsAllowedIsTaken) {
    const auto protection_of = [this](LinkId link) {
        control::Hello both = hello_of("n" + std::to_string(link));
        both.offers = {{control::ProtectionKind::HmacSha256, 10},
                       {control::ProtectionKind::ChaCha20Poly1305, 16}};
        admission->on_hello(link, {}, {{"alice", "k1"}, both});
        const size_t count = let_in().size() + 1;
        EXPECT_TRUE(wait([&] { return let_in().size() == count; }));
        return relay->sessions().back()->grant.protection;
    };
    config.protection.authenticate = false;
    config.protection.encrypt = true;
    EXPECT_EQ(protection_of(1).kind, control::ProtectionKind::ChaCha20Poly1305);
    config.protection.authenticate = true;
    EXPECT_EQ(protection_of(2).kind, control::ProtectionKind::HmacSha256);
    EXPECT_EQ(protection_of(3).tag_bytes, 10);
}

TEST_F(AdmissionTest, AHelloThatCannotBeMetTakesNothing) {
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    const auto refusal_of = [this](const control::Hello& hello) {
        const size_t before = logged().size();
        admission->on_hello(2, {}, {{"alice", "k1"}, hello});
        EXPECT_EQ(logged().size(), before + 1);
        return logged().back();
    };
    const auto has = [](const std::string& line, const char* reason) {
        return line.starts_with("login_refused ") && line.find(reason) != std::string::npos;
    };
    control::Hello hello = hello_of("laptop");
    hello.versions = {static_cast<uint8_t>(control::kProtocolVersion + 1)};
    EXPECT_TRUE(has(refusal_of(hello), "reason=\"this SNAPT speaks version")) << logged().back();
    hello = hello_of("laptop");
    hello.snapt = "zrh-2";
    EXPECT_TRUE(has(refusal_of(hello), "reason=\"this is zrh-1\"")) << logged().back();
    config.protection.encrypt = false;
    EXPECT_TRUE(has(refusal_of(hello_of("laptop")), "reason=\"no protection that both accept\""));
    EXPECT_EQ(sessions(), std::set<std::string>{"laptop.1"}) << "the session that it has, goes on";
    EXPECT_EQ(number("SELECT count(*) FROM lease"), 1);
}

TEST_F(AdmissionTest, AFullRelayLetsNobodyInAndClosesItsAccount) {
    relay->set_limits(1, 8, 0);
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    hello(2, "bob");
    ASSERT_TRUE(wait([this] { return was_logged("login_refused", "user=bob"); }));
    EXPECT_EQ(let_in(), Names{"alice"});
    accountant->tick(kNoon);
    accountant->flush();
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 1);
}

TEST_F(AdmissionTest, ANodeThatLeavesTakesItsSessionAlongAndALostLinkDoesNot) {
    hello_of_alice(1, "laptop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    control::LinkClosed lost;
    lost.cause = control::CloseCause::ProtocolError;
    admission->on_closed(1, lost);
    EXPECT_EQ(let_in(), Names{"alice"});
    hello_of_alice(2, "laptop", 1);
    ASSERT_TRUE(wait([this] { return was_logged("session_end", "user=alice"); }));
    control::LinkClosed left;
    left.cause = control::CloseCause::Peer;
    left.peer.reason = control::CloseReason::Shutdown;
    ASSERT_TRUE(wait([this] { return let_in().size() == 1; }));
    admission->on_closed(2, left);
    EXPECT_TRUE(let_in().empty());
}

// The node hears the same of both; the operator does not.
TEST_F(AdmissionTest, TheLogTellsAWrongKeyFromAnUnknownUser) {
    const auto try_as = [this](const std::string& user, const UserKey& key) {
        cnapt::control_link::ControlClientOptions options;
        options.parameters.identity = {user, "k1"};
        options.parameters.key = key;
        options.parameters.realm = config.realm;
        options.parameters.hello = hello_of("laptop");
        options.addresses = server->endpoints();
        client = std::make_unique<cnapt::control_link::ControlClient>(thread, loop, node);
        ASSERT_TRUE(client->start(options));
    };
    try_as("alice", keys["bob"]);
    ASSERT_TRUE(wait([this] { return was_logged("login_refused", "user=alice"); }));
    EXPECT_NE(logged().back().find("reason=\"wrong key\""), std::string::npos) << logged().back();
    try_as("carol", keys["bob"]);
    ASSERT_TRUE(wait([this] { return was_logged("login_refused", "user=carol"); }));
    EXPECT_NE(logged().back().find("reason=\"unknown user or key, or disabled\""),
              std::string::npos)
        << logged().back();
}

// Links come and go faster than the database answers.
TEST_F(AdmissionTest, AUserHasNoMoreLeasesOnTheirWayThanSessions) {
    config.limits.user_sessions = 2;
    std::promise<void> go;
    ASSERT_TRUE(worker.submit([ready = go.get_future().share()] { ready.wait(); }));
    for (LinkId link = 1; link <= 20; ++link) {
        admission->on_hello(link, {}, {{"alice", "k1"}, hello_of("n" + std::to_string(link))});
        admission->on_closed(link, {});
    }
    hello(21, "bob");
    go.set_value();
    ASSERT_TRUE(wait([this] { return !let_in().empty(); }));
    EXPECT_EQ(let_in(), Names{"bob"});
    EXPECT_EQ(number("SELECT count(*) FROM lease"), 2 + 1 + 1);
    leases->set_user_leases(3);
    const auto list = leases->list().value();
    EXPECT_EQ(leases->assign(list[0].owner, "late", kNoon)->ipv4, list[0].ipv4)
        << "nobody holds it";
    hello(22, "alice");
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
}

// Its lease was on its way.
TEST_F(AdmissionTest, AUserThatIsDisabledBeforeItIsLetInIsNot) {
    hello(1, "alice");
    ASSERT_TRUE(users->set_disabled("alice", true));
    hello(2, "bob");
    ASSERT_TRUE(wait([this] { return !let_in().empty(); }));
    EXPECT_EQ(let_in(), Names{"bob"});
    accountant->tick(kNoon);
    accountant->flush();
    EXPECT_EQ(number("SELECT count(*) FROM open_session"), 1) << "alice's is closed";
}

TEST_F(AdmissionTest, AUserThatIsEndedBeforeItIsLetInIsNot) {
    hello(1, "alice");
    admission->end_user("alice");  // removed, and added anew with a key of the same name
    hello(2, "bob");
    ASSERT_TRUE(wait([this] { return !let_in().empty(); }));
    EXPECT_EQ(let_in(), Names{"bob"});
}

TEST_F(AdmissionTest, NodesThatBeginAnewTogetherCountOnce) {
    using Sessions = std::set<std::string>;
    config.limits.user_sessions = 2;
    hello_of_alice(1, "laptop", 1);
    hello_of_alice(2, "phone", 1);
    ASSERT_TRUE(wait([this] { return sessions().size() == 2; }));
    std::promise<void> go_on;  // of those that lend addresses
    ASSERT_TRUE(worker.submit([held = go_on.get_future().share()] { held.wait(); }, [] {}));
    hello_of_alice(3, "laptop", 2);
    hello_of_alice(4, "phone", 2);
    hello_of_alice(5, "tablet", 2);
    go_on.set_value();
    EXPECT_TRUE(wait([this] { return sessions() == Sessions{"laptop.2", "phone.2"}; }));
    hello_of_alice(6, "tablet", 3);
    hello(7, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 3; }));
    EXPECT_EQ(sessions(), (Sessions{"bob.0", "laptop.2", "phone.2"})) << "a third is refused";
}

// They were killed and have lost their state: each begins as another node.
TEST_F(AdmissionTest, NodesWhoseLinksAreClosedDoNotKeepTheirUserOut) {
    using Sessions = std::set<std::string>;
    config.limits.user_sessions = 2;
    relay->set_limits(100, 2, 0);
    for (uint8_t number = 1; number <= 5; ++number) {
        const std::string name = "n" + std::to_string(number);
        hello_of_alice(number, name, number);
        ASSERT_TRUE(wait([&] { return sessions().contains(name + "." + std::to_string(number)); }));
        admission->on_closed(number, {});
    }
    EXPECT_EQ(sessions(), (Sessions{"n4.4", "n5.5"}));
    EXPECT_TRUE(was_logged("session_end", "reason=gave_way"));
    EXPECT_FALSE(was_logged("login_refused", "user=alice"));
    hello_of_alice(6, "n6", 6);
    ASSERT_TRUE(wait([&] { return sessions() == Sessions{"n5.5", "n6.6"}; }));
    hello_of_alice(7, "n7", 7);
    ASSERT_TRUE(wait([&] { return sessions() == Sessions{"n6.6", "n7.7"}; }));
    hello_of_alice(8, "n8", 8);
    EXPECT_TRUE(was_logged("login_refused", "node=n8")) << "two are here";
}

TEST_F(AdmissionTest, NodesOfOneNameDoNotTakeEachOthersSessions) {
    using Sessions = std::set<std::string>;
    config.limits.user_sessions = 2;
    hello_of_alice(1, "laptop", 1, control::NodeId{1});
    ASSERT_TRUE(wait([this] { return sessions().size() == 1; }));
    hello_of_alice(2, "laptop", 2, control::NodeId{2});
    ASSERT_TRUE(wait([this] { return sessions().size() == 2; }));
    EXPECT_EQ(sessions(), (Sessions{"laptop.1", "laptop-2.2"}));
    // Each begins anew: its own session gives way, and counts once.
    hello_of_alice(3, "laptop", 4, control::NodeId{2});
    EXPECT_TRUE(wait([this] { return sessions() == Sessions{"laptop.1", "laptop-2.4"}; }));
    hello_of_alice(4, "laptop", 3, control::NodeId{1});
    EXPECT_TRUE(wait([this] { return sessions() == Sessions{"laptop.3", "laptop-2.4"}; }));
    hello_of_alice(5, "laptop", 5, control::NodeId{3});
    hello(7, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 3; }));
    EXPECT_EQ(sessions(), (Sessions{"bob.0", "laptop.3", "laptop-2.4"})) << "a third is refused";
}

// Two processes with one state folder, as a copied machine has it.
TEST_F(AdmissionTest, ACopyDoesNotGetTheSessionBackWhileTheOtherIsHere) {
    using Sessions = std::set<std::string>;
    hello_of_alice(1, "laptop", 1, control::NodeId{1});
    ASSERT_TRUE(wait([this] { return sessions() == Sessions{"laptop.1"}; }));
    hello_of_alice(2, "laptop", 2, control::NodeId{1});
    ASSERT_TRUE(wait([this] { return sessions() == Sessions{"laptop.2"}; }));
    hello_of_alice(3, "laptop", 1, control::NodeId{1});
    hello(7, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    EXPECT_EQ(sessions(), (Sessions{"bob.0", "laptop.2"}));
    admission->on_closed(2, {});
    hello_of_alice(4, "laptop", 1, control::NodeId{1});
    EXPECT_TRUE(wait([this] {
        return sessions() == Sessions{"bob.0", "laptop.1"};
    })) << "the other one has gone";
}

}  // namespace
}  // namespace continuo::snapt
