#include "snapt/store/money.hpp"
#include "snapt/store/user_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <thread>

namespace continuo::snapt::store {
namespace {

using base::Errc;
using ledger::kNoon;

class MoneyTest : public ledger::StateFolder {
  protected:
    MoneyTest() {
        add_user("alice");
        add_user("bob");
    }
    void add_user(const std::string& name) {
        base::SeededRandom random(1);
        EXPECT_TRUE(UserStore::open(folder_).value()->add(name, {}, kNoon, random));
    }
    // The latest account of that name.
    Balance balance(const std::string& user) {
        const auto all = balances(database_, user).value();
        EXPECT_FALSE(all.empty()) << user;
        return all.empty() ? Balance{} : all.back();
    }
    static MoneyEntry entry(const std::string& user, int64_t amount_ud, const std::string& ref) {
        MoneyEntry entry;
        entry.user_id = user;
        entry.kind = EntryKind::Topup;
        entry.amount_ud = amount_ud;
        entry.ref = ref;
        entry.at_us = kNoon;
        entry.actor = "root";
        return entry;
    }
    std::vector<bool> genuine() {
        std::vector<bool> all;
        EXPECT_TRUE(visit_entries(
            database_, [&](const MoneyEntry&, bool is_genuine) { all.push_back(is_genuine); }));
        return all;
    }

    Database database_ = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
};

TEST_F(MoneyTest, ABalanceIsTheSumOfEntries) {
    EXPECT_EQ(balance("alice").balance_ud, 0);
    ASSERT_TRUE(book(database_, entry("alice", 50'000'000, "INV-1")));
    ASSERT_TRUE(book(database_, entry("bob", 7, "INV-2")));
    ASSERT_TRUE(book(database_, entry("alice", -1'250'000, "INV-3")));
    EXPECT_EQ(balance("alice").balance_ud, 48'750'000);
    EXPECT_EQ(balance("alice").entries, 2);
    const auto all = balances(database_).value();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].account.user, "alice");
    EXPECT_EQ(all[1].balance_ud, 7);
    EXPECT_EQ(genuine(), (std::vector<bool>{true, true, true}));
}

TEST_F(MoneyTest, TheSameReferenceBooksOnce) {
    const auto first = book(database_, entry("alice", 50, "INV-1")).value();
    EXPECT_TRUE(first.is_new);
    MoneyEntry again = entry("alice", 50, "INV-1");
    again.at_us += 5;
    again.actor = "clerk";
    const auto second = book(database_, again).value();
    EXPECT_FALSE(second.is_new);
    EXPECT_EQ(second.entry.entry_id, first.entry.entry_id);
    EXPECT_EQ(second.entry.at_us, kNoon);
    EXPECT_EQ(balance("alice").balance_ud, 50);
    for (MoneyEntry other : {entry("alice", 51, "INV-1"), entry("bob", 50, "INV-1")}) {
        EXPECT_EQ(book(database_, other).error().code, Errc::InvalidState);
    }
    MoneyEntry noted = entry("alice", 50, "INV-1");
    noted.note = "twice";
    EXPECT_EQ(book(database_, noted).error().code, Errc::InvalidState);
    EXPECT_EQ(balance("alice").balance_ud, 50);
}

TEST_F(MoneyTest, WhatIsNoEntryIsNotBooked) {
    EXPECT_EQ(book(database_, entry("carol", 1, "r")).error().code, Errc::NotFound);
    EXPECT_EQ(book(database_, entry("alice", 1, "")).error().code, Errc::InvalidConfig);
    EXPECT_EQ(book(database_, entry("alice", 1, "a\nb")).error().code, Errc::InvalidConfig);
    EXPECT_EQ(book(database_, entry("alice", 1, std::string(65, 'r'))).error().code,
              Errc::InvalidConfig);
    EXPECT_TRUE(book(database_, entry("alice", 1, std::string(64, 'r'))));
    MoneyEntry noted = entry("alice", 1, "n");
    noted.note = std::string(257, 'n');
    EXPECT_EQ(book(database_, noted).error().code, Errc::InvalidConfig);
    EXPECT_EQ(book(database_, entry("alice", kMaxBalanceUd + 1, "m")).error().code,
              Errc::LimitReached);
    EXPECT_EQ(book(database_, entry("alice", INT64_MIN, "m")).error().code, Errc::LimitReached);
    EXPECT_EQ(balance("alice").balance_ud, 1);
}

TEST_F(MoneyTest, NoBalanceGoesBeyondItsEnds) {
    ASSERT_TRUE(book(database_, entry("alice", kMaxBalanceUd, "1")));
    EXPECT_EQ(book(database_, entry("alice", 1, "2")).error().code, Errc::LimitReached);
    ASSERT_TRUE(book(database_, entry("bob", -kMaxBalanceUd, "3")));
    EXPECT_EQ(book(database_, entry("bob", -1, "4")).error().code, Errc::LimitReached);
    ASSERT_TRUE(book(database_, entry("alice", -1, "5")));
    EXPECT_EQ(balance("alice").balance_ud, kMaxBalanceUd - 1);
}

TEST_F(MoneyTest, EntriesAreNeitherChangedNorRemoved) {
    ASSERT_TRUE(book(database_, entry("alice", 50, "INV-1")));
    EXPECT_FALSE(database_.execute("UPDATE ledger SET amount_ud=5000"));
    EXPECT_FALSE(database_.execute("DELETE FROM ledger"));
    EXPECT_EQ(balance("alice").balance_ud, 50);
}

TEST_F(MoneyTest, AChangeByOtherMeansIsNoticed) {
    for (int64_t i = 1; i <= 5; ++i) {
        ASSERT_TRUE(book(database_, entry("alice", i, "r" + std::to_string(i))));
    }
    ASSERT_TRUE(database_.execute("DROP TRIGGER ledger_is_not_changed;"
                                  "DROP TRIGGER ledger_is_not_shortened;"
                                  "UPDATE ledger SET amount_ud=500 WHERE entry_id=2"));
    EXPECT_EQ(genuine(), (std::vector<bool>{true, false, true, true, true}));
    ASSERT_TRUE(database_.execute("UPDATE ledger SET amount_ud=2 WHERE entry_id=2;"
                                  "DELETE FROM ledger WHERE entry_id=3"));
    EXPECT_EQ(genuine(), (std::vector<bool>{true, true, false, true}));
}

// Fields that move into each other make another digest.
TEST_F(MoneyTest, NoTwoEntriesReadAlike) {
    MoneyEntry one = entry("alice", 1, "r");
    one.note = "12";
    one.actor = "3";
    ASSERT_TRUE(book(database_, one));
    ASSERT_TRUE(database_.execute("DROP TRIGGER ledger_is_not_changed;"
                                  "UPDATE ledger SET note='1', actor='23'"));
    EXPECT_EQ(genuine(), std::vector<bool>{false});
}

TEST_F(MoneyTest, AUserThatIsMadeAgainHasNothingOfTheFormer) {
    const int64_t former = book(database_, entry("alice", 50, "INV-1"))->entry.account_id;
    ASSERT_TRUE(UserStore::open(folder_).value()->remove("alice", kNoon));
    EXPECT_EQ(book(database_, entry("alice", 1, "INV-2")).error().code, Errc::NotFound);
    EXPECT_FALSE(book(database_, entry("alice", 50, "INV-1"))->is_new) << "the answer was lost";
    add_user("alice");
    auto all = balances(database_, "alice").value();
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[0].account.id, former);
    EXPECT_EQ(all[0].balance_ud, 50);
    EXPECT_EQ(all[0].removed_us, kNoon);
    EXPECT_EQ(all[1].balance_ud, 0);
    EXPECT_FALSE(all[1].removed_us);
    EXPECT_EQ(book(database_, entry("alice", 50, "INV-1")).error().code, Errc::InvalidState)
        << "the former's";
    MoneyEntry refund = entry("alice", -50, "refund");
    refund.account_id = former;
    ASSERT_TRUE(book(database_, refund));
    all = balances(database_, "alice").value();
    EXPECT_EQ(all[0].balance_ud, 0);
    EXPECT_EQ(all[1].balance_ud, 0);
    EXPECT_EQ(all[1].entries, 0);
    refund.ref = "other";
    refund.user_id = "bob";
    EXPECT_EQ(book(database_, refund).error().code, Errc::NotFound) << "not bob's account";
    EXPECT_EQ(genuine(), (std::vector<bool>{true, true}));
}

TEST_F(MoneyTest, OfRemovedAccountsThoseWithEntriesAreTold) {
    ASSERT_TRUE(book(database_, entry("alice", 50, "INV-1")));
    ASSERT_TRUE(UserStore::open(folder_).value()->remove("alice", kNoon));
    ASSERT_TRUE(UserStore::open(folder_).value()->remove("bob", kNoon));
    EXPECT_TRUE(balances(database_, "bob")->empty());
    ASSERT_EQ(balances(database_)->size(), 1U);
    EXPECT_EQ(balances(database_)->front().account.user, "alice");
    EXPECT_EQ(balance_of(database_, 99).error().code, Errc::NotFound);
}

TEST_F(MoneyTest, ARepeatedBookingIsNoneAlsoAtTheLimit) {
    ASSERT_TRUE(book(database_, entry("alice", kMaxBalanceUd, "1")));
    const auto again = book(database_, entry("alice", kMaxBalanceUd, "1"));
    ASSERT_TRUE(again) << again.error().where;
    EXPECT_FALSE(again->is_new);
}

// In another order than that of booking they would be beyond what a number holds.
TEST_F(MoneyTest, LargeEntriesThatCancelOutHaveASum) {
    for (int i = 0; i < 24; ++i) {
        MoneyEntry large =
            entry("alice", i % 2 == 0 ? kMaxBalanceUd : -kMaxBalanceUd, "r" + std::to_string(i));
        large.at_us = kNoon + (i % 2 == 0 ? 0 : ledger::kSecond) + i;
        ASSERT_TRUE(book(database_, large));
    }
    EXPECT_EQ(balance("alice").balance_ud, 0);
}

TEST_F(MoneyTest, WritersAtOnceBookEachEntryOnce) {
    constexpr int kWriters = 4;
    constexpr int kEntries = 25;
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([this] {
            auto own = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
            for (int i = 0; i < kEntries; ++i) {
                EXPECT_TRUE(book(own, entry("alice", 1, "r" + std::to_string(i))));
            }
        });
    }
    for (std::thread& writer : writers) {
        writer.join();
    }
    EXPECT_EQ(balance("alice").balance_ud, kEntries);
    EXPECT_EQ(genuine(), std::vector<bool>(kEntries, true));
}

TEST(Denarii, AmountsAreExactOrNone) {
    EXPECT_EQ(parse_denarii("50"), 50'000'000);
    EXPECT_EQ(parse_denarii("0.25"), 250'000);
    EXPECT_EQ(parse_denarii("12.345678"), 12'345'678);
    EXPECT_EQ(parse_denarii("007"), 7'000'000);
    EXPECT_EQ(parse_denarii("0"), 0);
    EXPECT_EQ(parse_denarii("1000000000000"), kMaxBalanceUd);
    for (const char* text : {"", ".", "5.", ".5", "-1", "+1", "1e3", "1 000", "1,5", "0.1234567",
                             "1000000000000.000001", "9223372036855", "9999999999999",
                             "99999999999999", "0x10", "1.2.3"}) {
        EXPECT_FALSE(parse_denarii(text)) << text;
    }
}

}  // namespace
}  // namespace continuo::snapt::store
