#include "snapt/store/user_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <set>
#include <thread>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using ledger::kNoon;
using ledger::kSecond;

class UserStoreTest : public ledger::StateFolder {
  protected:
    std::unique_ptr<UserStore> store_ = UserStore::open(folder_).value();
    base::SeededRandom random_{1};
};

TEST_F(UserStoreTest, AddedUserIsFoundByNameAndKeyId) {
    const auto alice = store_->add("alice", {}, kNoon, random_).value();
    const auto bob = store_->add("bob", Quota{50, "month"}, kNoon, random_).value();
    EXPECT_EQ(alice.key_id, "k1");
    EXPECT_NE(alice.key, bob.key);
    EXPECT_EQ(store_->lookup("alice", "k1"), alice.key);
    EXPECT_EQ(store_->lookup("bob", "k1"), bob.key);
    EXPECT_FALSE(store_->lookup("alice", "k2"));
    EXPECT_FALSE(store_->lookup("carol", "k1"));
    EXPECT_FALSE(store_->lookup("alice/k1", "k1"));
    const auto users = store_->list(kNoon).value();
    ASSERT_EQ(users.size(), 2U);
    EXPECT_EQ(users[0].user_id, "alice");
    EXPECT_FALSE(users[0].quota);
    EXPECT_EQ(users[1].quota->bytes, 50);
    EXPECT_EQ(users[1].quota->period, "month");
}

TEST_F(UserStoreTest, SecondUserOfANameIsRefusedAndTheFirstUntouched) {
    const auto alice = store_->add("alice", {}, kNoon, random_).value();
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_).error().code, Errc::InvalidState);
    EXPECT_EQ(store_->lookup("alice", "k1"), alice.key);
}

TEST_F(UserStoreTest, NamesAreValidated) {
    for (const char* bad : {"", ".", "-x", "a/b", "a|b", "a b", "ä", "a\n", "'; DROP TABLE user"}) {
        EXPECT_EQ(store_->add(bad, {}, kNoon, random_).error().code, Errc::InvalidConfig) << bad;
    }
    EXPECT_FALSE(store_->add(std::string(65, 'a'), {}, kNoon, random_));
    EXPECT_FALSE(store_->add(std::string("a\0b", 3), {}, kNoon, random_));
    EXPECT_TRUE(store_->add(std::string(64, 'a'), {}, kNoon, random_));
    EXPECT_TRUE(store_->add("Anna.Muster_2@example.org", {}, kNoon, random_));
    EXPECT_FALSE(store_->add("x", Quota{0, "month"}, kNoon, random_));
    EXPECT_FALSE(store_->add("x", Quota{5, "fortnight"}, kNoon, random_));
}

TEST_F(UserStoreTest, RotationRevokesOldKeysAndNeverReusesAKeyId) {
    const auto first = store_->add("alice", {}, kNoon, random_).value();
    const auto second = store_->rotate("alice", kNoon + 1, random_).value();
    EXPECT_EQ(second.key_id, "k2");
    EXPECT_NE(second.key, first.key);
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_EQ(store_->lookup("alice", "k2"), second.key);
    EXPECT_EQ(store_->rotate("alice", kNoon + 2, random_)->key_id, "k3");
    const auto keys = store_->list(kNoon + 2).value()[0].keys;
    ASSERT_EQ(keys.size(), 1U);
    EXPECT_EQ(keys[0].key_id, "k3");
    EXPECT_EQ(store_->rotate("nobody", kNoon, random_).error().code, Errc::NotFound);
}

TEST_F(UserStoreTest, DisabledUserCannotLogInUntilEnabled) {
    const auto alice = store_->add("alice", {}, kNoon, random_).value();
    ASSERT_TRUE(store_->set_disabled("alice", true));
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_FALSE(store_->is_known("alice"));
    EXPECT_TRUE(store_->list(kNoon).value()[0].is_disabled);
    ASSERT_TRUE(store_->set_disabled("alice", false));
    EXPECT_EQ(store_->lookup("alice", "k1"), alice.key);
    EXPECT_EQ(store_->set_disabled("nobody", true).error().code, Errc::NotFound);
}

TEST_F(UserStoreTest, RemovedUserIsGoneAndTheNameIsFree) {
    const auto old = store_->add("alice", {}, kNoon, random_).value();
    ASSERT_TRUE(store_->remove("alice", kNoon));
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_TRUE(store_->list(kNoon).value().empty());
    EXPECT_EQ(store_->remove("alice", kNoon).error().code, Errc::NotFound);
    EXPECT_NE(store_->add("alice", {}, kNoon, random_)->key, old.key);
}

TEST_F(UserStoreTest, AUserMadeAgainIsAnotherAccountWithNothingOfTheFormer) {
    const auto former = store_->add("alice", Quota{50, "month"}, kNoon, random_).value();
    ASSERT_TRUE(store_->rotate("alice", kNoon, random_));
    ASSERT_TRUE(store_->remove("alice", kNoon + 1));
    const auto fresh = store_->add("alice", {}, kNoon + 2, random_).value();
    EXPECT_NE(fresh.account_id, former.account_id);
    EXPECT_EQ(fresh.key_id, "k3") << "no file of the former seems to have a valid key id";
    EXPECT_EQ(store_->account_of("alice", "k3"), fresh.account_id);
    EXPECT_FALSE(store_->account_of("alice", "k1"));
    const auto users = store_->list(kNoon + 2).value();
    ASSERT_EQ(users.size(), 1U);
    EXPECT_EQ(users[0].account_id, fresh.account_id);
    EXPECT_FALSE(users[0].quota);
    EXPECT_EQ(users[0].created_us, kNoon + 2);
    EXPECT_EQ(users[0].keys.size(), 1U);
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    auto secrets = database.prepare("SELECT sum(length(secret)) FROM credential").value();
    ASSERT_TRUE(*secrets.step());
    EXPECT_EQ(secrets.integer(0), 32) << "those of the former are gone";
}

TEST_F(UserStoreTest, AnAccountIdIsNeverUsedTwice) {
    std::set<int64_t> ids;
    for (int i = 0; i < 4; ++i) {
        const auto alice = store_->add("alice", {}, kNoon, random_).value();
        EXPECT_NE(alice.account_id, kNoAccount);
        EXPECT_TRUE(ids.insert(alice.account_id).second);
        ASSERT_TRUE(store_->remove("alice", kNoon));
        auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        ASSERT_TRUE(database.execute("DELETE FROM account")) << "as nobody does";
        store_ = UserStore::open(folder_).value();
    }
}

// As it is where SNAPTs of a realm share keys and one of them has had another user of the name.
TEST_F(UserStoreTest, AKeyIdOfAFormerAccountMayBeNamedAgain) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    ASSERT_TRUE(store_->remove("alice", kNoon));
    UserKey key;
    key.fill(7);
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, {"", "k1", key})->key_id, "k1");
    EXPECT_EQ(store_->lookup("alice", "k1"), key);
}

TEST_F(UserStoreTest, UsersSurviveRestartAndChangesOfAnotherProcessShowAfterRefresh) {
    const auto alice = store_->add("alice", {}, kNoon, random_).value();
    auto other = UserStore::open(folder_).value();
    EXPECT_EQ(other->lookup("alice", "k1"), alice.key);
    ASSERT_TRUE(other->add("bob", {}, kNoon, random_));
    EXPECT_FALSE(store_->lookup("bob", "k1"));
    ASSERT_TRUE(store_->refresh());
    EXPECT_TRUE(store_->lookup("bob", "k1"));
}

TEST_F(UserStoreTest, WorksBesideARunningLedger) {
    ledger::LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    const auto ledger = ledger::Ledger::open(options, kNoon).value();
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    EXPECT_TRUE(ledger->seal_now(kNoon + 1));
    EXPECT_TRUE(store_->lookup("alice", "k1"));
}

TEST_F(UserStoreTest, LookupIsSafeWhileUsersChange) {
    const auto alice = store_->add("alice", {}, kNoon, random_).value();
    std::atomic<bool> done{false};
    std::atomic<int> wrong{0};
    std::thread reader([&] {
        while (!done) {
            wrong += store_->lookup("alice", "k1") == alice.key ? 0 : 1;
        }
    });
    for (int i = 0; i < 20; ++i) {
        EXPECT_TRUE(store_->add("user" + std::to_string(i), {}, kNoon, random_));
    }
    done = true;
    reader.join();
    EXPECT_EQ(wrong, 0);
}

std::vector<std::string> key_ids(const UserInfo& user) {
    std::vector<std::string> ids;
    for (const KeyInfo& key : user.keys) {
        ids.push_back(key.key_id);
    }
    return ids;
}

using Ids = std::vector<std::string>;

NewKey of_device(const char* device) {
    return {device, "", std::nullopt};
}

TEST_F(UserStoreTest, WhatIsTakenAwayLetsNobodyInWhenTheRestCannotBeReadAgain) {
    for (const char* user : {"alice", "alice2", "bob", "carol"}) {
        ASSERT_TRUE(store_->add(user, {}, kNoon, random_, of_device("laptop")));
    }
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute("UPDATE credential SET secret=x'00' WHERE account_id="
                                 "(SELECT account_id FROM user WHERE user_id='carol')"));
    EXPECT_EQ(store_->revoke("alice", {"laptop", ""}, kNoon).error().code, Errc::Malformed);
    EXPECT_EQ(store_->set_disabled("bob", true).error().code, Errc::Malformed);
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_FALSE(store_->lookup("bob", "k1"));
    EXPECT_TRUE(store_->lookup("alice2", "k1")) << "others are let in as before";
}

TEST_F(UserStoreTest, AKeyThatIsStoredAndCannotBeReadAgainIsShown) {
    for (const char* user : {"alice", "carol"}) {
        ASSERT_TRUE(store_->add(user, {}, kNoon, random_));
    }
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute("UPDATE credential SET secret=x'00' WHERE account_id="
                                 "(SELECT account_id FROM user WHERE user_id='carol')"));
    const auto added = store_->add("bob", {}, kNoon, random_);
    const auto rotated = store_->rotate("alice", kNoon, random_);
    ASSERT_TRUE(added && rotated);
    EXPECT_EQ(added->unread->code, Errc::Malformed);
    EXPECT_EQ(rotated->unread->code, Errc::Malformed);
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    ASSERT_TRUE(database.execute("DELETE FROM credential WHERE length(secret)=1"));
    ASSERT_TRUE(store_->refresh());
    EXPECT_EQ(store_->lookup("bob", added->key_id), added->key);
    EXPECT_EQ(store_->lookup("alice", rotated->key_id), rotated->key);
}

TEST_F(UserStoreTest, ReadOnlyChangesNothing) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    const auto reader = UserStore::open(folder_, OpenMode::ReadOnly).value();
    EXPECT_EQ(reader->list(kNoon)->size(), 1U);
    EXPECT_TRUE(reader->lookup("alice", "k1"));
    EXPECT_FALSE(reader->add("bob", {}, kNoon, random_));
    EXPECT_EQ(store_->list(kNoon)->size(), 1U);
}

TEST_F(UserStoreTest, EachDeviceHasAKeyThatIsRevokedAlone) {
    const auto laptop = store_->add("alice", {}, kNoon, random_, of_device("laptop")).value();
    const auto phone = store_->add("alice", {}, kNoon, random_, of_device("phone")).value();
    EXPECT_EQ(phone.key_id, "k2");
    EXPECT_NE(phone.key, laptop.key);
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, of_device("phone")).error().code,
              Errc::InvalidState);
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_).error().code, Errc::InvalidState);
    EXPECT_EQ(store_->add("bob", {}, kNoon, random_, of_device("a/b")).error().code,
              Errc::InvalidConfig);
    EXPECT_FALSE(store_->is_known("bob"));
    ASSERT_TRUE(store_->revoke("alice", {"laptop", ""}, kNoon));
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_EQ(store_->lookup("alice", "k2"), phone.key);
    EXPECT_EQ(store_->revoke("alice", {"laptop", ""}, kNoon).error().code, Errc::NotFound);
    EXPECT_EQ(store_->revoke("alice", {"phone", "k1"}, kNoon).error().code, Errc::NotFound);
    EXPECT_EQ(store_->revoke("alice", {}, kNoon).error().code, Errc::InvalidConfig);
    const auto users = store_->list(kNoon).value();
    ASSERT_EQ(key_ids(users[0]), Ids{"k2"});
    EXPECT_EQ(users[0].keys[0].device, "phone");
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, of_device("laptop"))->key_id, "k3");
}

TEST_F(UserStoreTest, ADeviceIsDisabledAlone) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_, of_device("laptop")));
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_, of_device("phone")));
    ASSERT_TRUE(store_->set_disabled("alice", true, {"laptop", ""}));
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_TRUE(store_->lookup("alice", "k2"));
    const auto users = store_->list(kNoon).value();
    EXPECT_FALSE(users[0].is_disabled);
    EXPECT_TRUE(users[0].keys[0].is_disabled);
    ASSERT_TRUE(store_->set_disabled("alice", false, {"", "k1"}));
    EXPECT_TRUE(store_->lookup("alice", "k1"));
    EXPECT_EQ(store_->set_disabled("alice", true, {"tablet", ""}).error().code, Errc::NotFound);
}

TEST_F(UserStoreTest, RotationMayLeaveTheKeyBeforeValidForAWhile) {
    const auto first = store_->add("alice", {}, kNoon, random_).value();
    const auto second = store_->rotate("alice", kNoon, random_, {}, 10 * kSecond).value();
    EXPECT_EQ(store_->lookup("alice", "k1"), first.key);
    EXPECT_EQ(store_->lookup("alice", "k2"), second.key);
    EXPECT_FALSE(store_->expire(kNoon + 10 * kSecond - 1));
    EXPECT_TRUE(store_->lookup("alice", "k1"));
    EXPECT_EQ(store_->list(kNoon).value()[0].keys[0].expires_us, kNoon + 10 * kSecond);
    EXPECT_TRUE(store_->expire(kNoon + 10 * kSecond));
    EXPECT_FALSE(store_->lookup("alice", "k1"));
    EXPECT_EQ(store_->lookup("alice", "k2"), second.key);
    EXPECT_EQ(store_->all_keys()->size(), 1U);
    EXPECT_FALSE(store_->expire(kNoon + 11 * kSecond));
    ASSERT_TRUE(store_->refresh());
    EXPECT_FALSE(store_->lookup("alice", "k1")) << "whoever reads the disk again";
    EXPECT_EQ(key_ids(store_->list(kNoon + 10 * kSecond).value()[0]), Ids{"k2"});
}

TEST_F(UserStoreTest, AnotherRotationMakesNoOverlapLonger) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    ASSERT_TRUE(store_->rotate("alice", kNoon, random_, {}, 10 * kSecond));
    ASSERT_TRUE(store_->rotate("alice", kNoon + kSecond, random_, {}, 100 * kSecond));
    EXPECT_EQ(store_->list(kNoon).value()[0].keys[0].expires_us, kNoon + 10 * kSecond);
    ASSERT_TRUE(store_->rotate("alice", kNoon + 2 * kSecond, random_));
    EXPECT_EQ(key_ids(store_->list(kNoon + 2 * kSecond).value()[0]), Ids{"k4"}) << "at once";
}

TEST_F(UserStoreTest, RotationIsOfOneDevice) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_, of_device("laptop")));
    EXPECT_EQ(store_->rotate("alice", kNoon, random_)->device, "laptop") << "its only one";
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_, of_device("phone")));
    EXPECT_EQ(store_->rotate("alice", kNoon, random_).error().code, Errc::InvalidState);
    EXPECT_EQ(store_->rotate("alice", kNoon, random_, of_device("phone"))->key_id, "k4");
    EXPECT_EQ(key_ids(store_->list(kNoon).value()[0]), (Ids{"k2", "k4"}));
    EXPECT_EQ(store_->rotate("alice", kNoon, random_, of_device("tv")).error().code,
              Errc::NotFound);
}

TEST_F(UserStoreTest, AKeyOfAnotherSnaptKeepsItsId) {
    const UserKey key{1, 2, 3};
    const auto alice = store_->add("alice", {}, kNoon, random_, {"", "k7", key}).value();
    EXPECT_EQ(alice.key_id, "k7");
    EXPECT_EQ(store_->lookup("alice", "k7"), key);
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, {"tv", "k7", key}).error().code,
              Errc::InvalidState);
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, of_device("phone"))->key_id, "k8");
    EXPECT_EQ(store_->rotate("alice", kNoon, random_, {"phone", "2026", key})->key_id, "2026");
    EXPECT_EQ(
        store_->rotate("alice", kNoon, random_, {"phone", "k99999999999999999999", key})->key_id,
        "k99999999999999999999");
    EXPECT_EQ(store_->rotate("alice", kNoon, random_, of_device("phone"))->key_id, "k9");
    for (const std::string& bad : {std::string("a/b"), std::string("k 1"), std::string(33, 'k')}) {
        EXPECT_EQ(store_->add("carol", {}, kNoon, random_, {"", bad, key}).error().code,
                  Errc::InvalidConfig)
            << bad;
    }
}

TEST_F(UserStoreTest, AKeyIdWithTheLargestNumberLeavesRoomForOthers) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_, {"", "k999999999", UserKey{}}));
    for (const char* next : {"k1000000000", "k1000000001"}) {
        const auto rotated = store_->rotate("alice", kNoon, random_);
        ASSERT_TRUE(rotated) << rotated.error().where;
        EXPECT_EQ(rotated->key_id, next);
    }
}

TEST_F(UserStoreTest, AUserHasOnlySoManyKeys) {
    for (int64_t i = 0; i < kMaxUserKeys; ++i) {
        ASSERT_TRUE(
            store_->add("alice", {}, kNoon, random_, of_device(("d" + std::to_string(i)).c_str())));
    }
    EXPECT_EQ(store_->add("alice", {}, kNoon, random_, of_device("more")).error().code,
              Errc::LimitReached);
    EXPECT_TRUE(store_->rotate("alice", kNoon, random_, of_device("d0")));
    ASSERT_TRUE(store_->revoke("alice", {"d1", ""}, kNoon));
    EXPECT_TRUE(store_->add("alice", {}, kNoon, random_, of_device("more")));
}

TEST_F(UserStoreTest, KnowsWhenAKeyWasLastInUse) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    EXPECT_FALSE(store_->list(kNoon).value()[0].keys[0].seen_us);
    store_->note_seen("alice", "k1", kNoon + 5);
    store_->note_seen("alice", "k1", kNoon + 3);
    store_->note_seen("alice", "k9", kNoon + 3);
    EXPECT_EQ(store_->list(kNoon).value()[0].keys[0].seen_us, kNoon + 5);
    ASSERT_TRUE(store_->write_seen());
    EXPECT_EQ(UserStore::open(folder_).value()->list(kNoon).value()[0].keys[0].seen_us, kNoon + 5);
    store_->note_seen("alice", "k1", kNoon + 7);
    ASSERT_TRUE(store_->remove("alice", kNoon));
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    EXPECT_FALSE(store_->list(kNoon).value()[0].keys[0].seen_us) << "another alice";
}

TEST_F(UserStoreTest, AnOldSessionDoesNotSetBackWhenAKeyWasLastInUse) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    store_->note_seen("alice", "k1", kNoon + 9);
    ASSERT_TRUE(store_->write_seen());
    store_->note_seen("alice", "k1", kNoon + 4);  // one that has been silent since
    ASSERT_TRUE(store_->write_seen());
    EXPECT_EQ(store_->list(kNoon).value()[0].keys[0].seen_us, kNoon + 9);
}

TEST_F(UserStoreTest, WhenAKeyWasLastInUseOutlivesAWriteThatFails) {
    ASSERT_TRUE(store_->add("alice", {}, kNoon, random_));
    auto other = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    ASSERT_TRUE(other.execute("CREATE TRIGGER no BEFORE UPDATE ON credential BEGIN "
                              "SELECT RAISE(ABORT, 'no'); END"));
    store_->note_seen("alice", "k1", kNoon + 5);
    EXPECT_FALSE(store_->write_seen());
    EXPECT_EQ(store_->list(kNoon).value()[0].keys[0].seen_us, kNoon + 5);
    ASSERT_TRUE(other.execute("DROP TRIGGER no"));
    ASSERT_TRUE(store_->write_seen());
    EXPECT_EQ(UserStore::open(folder_).value()->list(kNoon).value()[0].keys[0].seen_us, kNoon + 5);
}

}  // namespace
}  // namespace continuo::snapt::store
