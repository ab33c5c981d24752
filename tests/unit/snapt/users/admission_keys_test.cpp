// Sessions when keys and users change.
#include "tests/unit/snapt/users/admission_fixture.hpp"

namespace continuo::snapt::users {
namespace {

using ledger::kNoon;
using ledger::kSecond;

TEST_F(AdmissionTest, SessionsOfAFormerKeyEnd) {
    log_in("alice");
    hello(70, "bob");
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    admission->end_revoked();
    EXPECT_EQ(let_in().size(), 2U) << "both keys are valid";
    ASSERT_TRUE(users->rotate("alice", kNoon, random));
    admission->end_revoked();
    EXPECT_EQ(let_in(), Names{"bob"});
}

TEST_F(AdmissionTest, ARevokedDeviceLosesItsSessionAndNoOther) {
    ASSERT_TRUE(users->add("alice", {}, kNoon, random, {"phone", "", std::nullopt}));
    log_in("alice");
    admission->on_hello(70, {}, {{"alice", "k2"}, hello_of("phone")});
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    ASSERT_TRUE(users->revoke("alice", {"phone", ""}, kNoon));
    admission->end_revoked();
    ASSERT_EQ(let_in(), Names{"alice"});
    EXPECT_EQ(relay->sessions()[0]->grant.node, "laptop");
}

// A process beside the daemon does it, with the key id that the former user had.
TEST_F(AdmissionTest, AUserMadeAgainHasNoSessionOfTheFormer) {
    log_in("alice");
    hello_of_alice(70, "desktop", 1);
    ASSERT_TRUE(wait([this] { return let_in().size() == 2; }));
    auto other = store::UserStore::open(folder_).value();
    ASSERT_TRUE(other->remove("alice", kNoon));
    const auto fresh = other->add("alice", {}, kNoon, random, {"", "k1", keys["bob"]}).value();
    ASSERT_TRUE(users->refresh());
    hello_of_alice(71, "laptop", 2);  // before the former's sessions have ended
    ASSERT_TRUE(wait([this] { return sessions().contains("laptop.2"); }));
    admission->end_revoked();
    ASSERT_EQ(sessions(), std::set<std::string>{"laptop.2"});
    EXPECT_EQ(relay->sessions()[0]->grant.account_id, fresh.account_id);
    EXPECT_EQ(number("SELECT count(DISTINCT account_id) FROM lease"), 2);
    EXPECT_NE(relay->sessions()[0]->grant.lease_ipv4, leases->list().value()[0].ipv4);
}

TEST_F(AdmissionTest, SessionsOfAKeyEndWithItsOverlap) {
    log_in("alice");
    const int64_t now_us = daemon::utc_us();
    ASSERT_TRUE(users->rotate("alice", now_us, random, {}, 3600 * kSecond));
    admission->on_tick();
    EXPECT_EQ(let_in(), Names{"alice"});
    ASSERT_TRUE(users->rotate("alice", now_us - 20 * kSecond, random, {}, 10 * kSecond));
    admission->on_tick();
    EXPECT_TRUE(let_in().empty());
    ASSERT_TRUE(wait([this] { return !node.closed.empty(); }));
    EXPECT_EQ(node.closed[0].peer.reason, control::CloseReason::Disconnected);
}

TEST_F(AdmissionTest, KeysThatSessionsUseAreSeen) {
    const auto seen_us = [this] { return users->list(kNoon).value()[0].keys[0].seen_us; };
    EXPECT_FALSE(seen_us());
    const int64_t began_us = daemon::utc_us();
    log_in("alice");
    admission->note_seen();
    ASSERT_TRUE(seen_us());
    EXPECT_GE(*seen_us(), began_us - kSecond);
    EXPECT_LE(*seen_us(), daemon::utc_us());
    admission->finish_leases();
    EXPECT_GT(number("SELECT seen FROM credential WHERE key_id='k1'"), 0) << "on the disk";
}

TEST_F(AdmissionTest, KeysOfAHandshakeADayAgoAreEnded) {
    log_in("alice");
    const base::TimePoint day_old = relay->sessions()[0]->handshake_at + kMaxHandshakeAge;
    admission->end_old_keys(day_old - base::seconds(1));
    EXPECT_EQ(let_in(), Names{"alice"});
    // A fresh handshake, which the association goes on with, begins the day anew.
    client->renew();
    ASSERT_TRUE(wait([this] { return node.established.size() == 2; }));
    EXPECT_TRUE(node.established[1].accept.continued);
    admission->end_old_keys(day_old);
    EXPECT_EQ(let_in(), Names{"alice"});
    admission->end_old_keys(relay->sessions()[0]->handshake_at + kMaxHandshakeAge);
    EXPECT_TRUE(let_in().empty());
    ASSERT_TRUE(wait([this] { return !node.closed.empty(); }));
    EXPECT_EQ(node.closed[0].peer.reason, control::CloseReason::Timeout);
}

}  // namespace
}  // namespace continuo::snapt::users
