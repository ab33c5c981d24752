#include "snapt/accounting/usage_desk.hpp"
#include "snapt/accounting/verify.hpp"
#include "snapt/store/money.hpp"
#include "snapt/store/plan_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt::accounting {
namespace {

using ledger::kNoon;
using ledger::kSecond;
using store::Database;

class VerifyTest : public ledger::LedgerTest {
  protected:
    // Two runs with records in several intervals, a plan and some money.
    void fill() {
        for (int run = 0; run < 2; ++run) {
            const int64_t start = kNoon + run * 7200 * kSecond;
            auto ledger = open(start);
            add_session(*ledger, 1, "alice");
            add_session(*ledger, 2, "bob");
            flow::LiveSlot* one = ledger->live().take(request(1, 1, start));
            flow::LiveSlot* other = ledger->live().take(request(2, 2, start));
            for (int64_t minute = 1; minute <= 10; ++minute) {
                count(*one, 1000, start + minute * 60 * kSecond - 1);
                count(*other, 500, start + minute * 60 * kSecond - 1);
                ASSERT_TRUE(ledger->tick(start + minute * 60 * kSecond));
            }
            ASSERT_TRUE(ledger->stop(start + 601 * kSecond, flow::Cause::Admin));
        }
        auto database = open_database();
        ASSERT_TRUE(store::add_plan(database, "standard", "text", kNoon));
        ASSERT_TRUE(
            database.execute("INSERT INTO account(account_id,user_id) VALUES(1,'alice'),"
                             "(2,'bob'); INSERT INTO user(user_id,created,disabled,account_id) "
                             "VALUES('alice',0,0,1),('bob',0,0,2)"));
        for (int64_t i = 1; i <= 4; ++i) {
            store::MoneyEntry entry;
            entry.user_id = i % 2 == 0 ? "alice" : "bob";
            entry.amount_ud = 10 * i;
            entry.ref = "r" + std::to_string(i);
            ASSERT_TRUE(store::book(database, entry));
        }
    }
    Database open_database() const {
        return Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value();
    }
    // The names of the checks that find something, and what they find.
    std::string faults() const {
        auto database =
            Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly).value();
        const auto checks = verify_ledger(database);
        EXPECT_TRUE(checks) << checks.error().where;
        EXPECT_FALSE(database.in_transaction());
        std::string text;
        for (const LedgerCheck& check : *checks) {
            text += check.is_good ? "" : std::string(check.what) + ": " + check.found + "\n";
        }
        return text;
    }
    void change(const char* sql) const {
        auto database = open_database();
        ASSERT_TRUE(database.execute("DROP TRIGGER IF EXISTS ledger_is_not_changed;"
                                     "DROP TRIGGER IF EXISTS ledger_is_not_shortened"));
        ASSERT_TRUE(database.execute(sql)) << sql;
    }
};

TEST_F(VerifyTest, FindsNothingInWhatWasWritten) {
    fill();
    EXPECT_EQ(faults(), "");
    auto database = open_database();
    const auto checks = verify_ledger(database).value();
    ASSERT_EQ(checks.size(), 7U);
    EXPECT_EQ(checks[0].found, "40 as they were written");
    EXPECT_EQ(checks[1].found, "no hole");
    EXPECT_EQ(checks[2].found, "1 revisions as they were added");
    EXPECT_EQ(checks[3].found, "4 as they were booked");
    EXPECT_EQ(checks[4].found, "2 accounts, each the sum of entries");
    EXPECT_EQ(checks[5].found, "0 as their records make them");
    EXPECT_EQ(checks[6].found, "1 days, as their records and charges make them");
}

TEST_F(VerifyTest, AnEmptyLedgerIsGood) {
    open_database();
    EXPECT_EQ(faults(), "");
}

TEST_F(VerifyTest, NamesTheFirstRecordThatWasChanged) {
    fill();
    change("UPDATE usage_record SET pay_up=0 WHERE epoch=2 AND seq IN (3,5)");
    EXPECT_EQ(faults(), "records: 2 differ from their digests, the first zrh-1/2/3\n"
                        "sums: 1 days have sums that their records and charges do not make, the "
                        "first 2026-11-20\n");
}

TEST_F(VerifyTest, FindsSumsThatTheirRecordsDoNotMake) {
    fill();
    const std::string fault = "sums: 1 days have sums that their records and charges do not make, "
                              "the first 2026-11-20\n";
    for (const auto& [damage, repair] : std::vector<std::pair<const char*, const char*>>{
             {"UPDATE usage_sum SET pay_up=pay_up+1 WHERE unit_s=86400 AND user_id='alice'",
              "UPDATE usage_sum SET pay_up=pay_up-1 WHERE unit_s=86400 AND user_id='alice'"},
             {"UPDATE usage_sum SET records=records-1 WHERE unit_s=900 AND user_id=''",
              "UPDATE usage_sum SET records=records+1 WHERE unit_s=900 AND user_id=''"},
             {"UPDATE usage_sum SET unit=unit+1 WHERE unit_s=900 AND user_id='bob'",
              "UPDATE usage_sum SET unit=unit-1 WHERE unit_s=900 AND user_id='bob'"}}) {
        change(damage);
        EXPECT_EQ(faults(), fault) << damage;
        change(repair);
        EXPECT_EQ(faults(), "") << repair;
    }
    change("DELETE FROM usage_sum WHERE user_id='bob'");
    EXPECT_EQ(faults(), fault);
}

TEST_F(VerifyTest, NamesDaysThatNoCalendarHas) {
    fill();
    change("UPDATE usage_sum SET unit=-4611686018427387904 WHERE unit_s=86400 AND user_id='bob'");
    EXPECT_EQ(faults(), "sums: 2 days have sums that their records and charges do not make, the "
                        "first day -4611686018427387904\n");
    change("UPDATE usage_record SET t_end=-9223372036854775808 WHERE epoch=1 AND seq=0");
    EXPECT_NE(faults().find("sums: 3 days"), std::string::npos);
}

TEST_F(VerifyTest, FindsRecordsThatAreMissing) {
    fill();
    change("DELETE FROM usage_record WHERE epoch=2 AND seq=7");
    EXPECT_EQ(faults(), "sequence: 1 holes, the first before zrh-1/2/8\n");
    change("DELETE FROM usage_record WHERE epoch=2 AND seq=0");
    EXPECT_EQ(faults(), "sequence: 2 holes, the first before zrh-1/2/1\n");
    change("DELETE FROM usage_record WHERE epoch=2 AND seq=19");
    EXPECT_EQ(faults(), "sequence: 3 holes, the first before zrh-1/2/1\n");
}

TEST_F(VerifyTest, WhatWasRemovedForItsAgeIsNoHole) {
    fill();
    auto database = open_database();
    ASSERT_EQ(prune_records(database, kNoon + 7200 * kSecond + 300 * kSecond, 1000).value(), 28U);
    EXPECT_EQ(faults(), "");
}

TEST_F(VerifyTest, FindsAPlanAndEntriesThatWereChanged) {
    fill();
    change("UPDATE plan SET toml='cheaper'");
    EXPECT_EQ(faults(), "plans: a price plan in ledger.db is not as it was added\n");
    change("UPDATE plan SET toml='text'; UPDATE ledger SET amount_ud=1000 WHERE entry_id=2");
    const std::string entries =
        "entries: 1 were changed, or follow others that are missing, the first entry 2\n";
    const std::string balance = "balances: 1 are not the sum of entries, or beyond the bounds, ";
    EXPECT_EQ(faults(), entries + balance + "the first of alice\n");
    change("UPDATE ledger SET amount_ud=20 WHERE entry_id=2; DELETE FROM ledger WHERE entry_id=1");
    EXPECT_EQ(faults(), entries + balance + "the first of bob\n");
}

TEST_F(VerifyTest, FindsABalanceThatIsNotTheSumOfEntries) {
    fill();
    change("UPDATE balance SET balance_ud=balance_ud+1 WHERE account_id=1");
    EXPECT_EQ(faults(), "balances: 1 are not the sum of entries, or beyond the bounds, the first "
                        "of alice\n");
    change("DELETE FROM balance");
    EXPECT_EQ(faults().find("balances: 2 are not the sum"), 0U);
}

TEST_F(VerifyTest, FindsSumsThatNoBookingMakes) {
    fill();
    change("UPDATE ledger SET amount_ud=9223372036854775807 WHERE account_id=1");
    EXPECT_NE(faults().find("balances: 2 are not the sum of entries, or beyond the bounds, the "
                            "first of alice with entry 2\n"),
              std::string::npos);
    change("UPDATE ledger SET amount_ud=1, account_id=77 WHERE entry_id=1");
    change("UPDATE ledger SET amount_ud=1 WHERE account_id=1;"
           "UPDATE balance SET balance_ud=(SELECT coalesce(sum(amount_ud),0) FROM ledger l "
           "WHERE l.account_id=balance.account_id)");
    EXPECT_NE(faults().find("balances: 1 are not the sum of entries, or beyond the bounds, the "
                            "first of account 77, which there is not\n"),
              std::string::npos);
}

}  // namespace
}  // namespace continuo::snapt::accounting
