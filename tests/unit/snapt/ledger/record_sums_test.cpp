// Sums are written with the records that they are of, and each row once for all of a seal.
#include "snapt/accounting/verify.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <string>
#include <vector>

namespace continuo::snapt::ledger {
namespace {

using flow::Cause;

class RecordSumsTest : public LedgerTest {
  protected:
    void expect_sums_of_records(int64_t count) const {
        auto database =
            store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly).value();
        const auto checks = accounting::verify_ledger(database).value();
        ASSERT_EQ(checks.back().what, "sums");
        EXPECT_TRUE(checks.back().is_good) << checks.back().found;
        EXPECT_EQ(number("SELECT count(*) FROM usage_record"), count);
        EXPECT_EQ(number("SELECT sum(records) FROM usage_sum WHERE account_id=-1 AND unit_s=900"),
                  count);
        EXPECT_EQ(number("SELECT sum(inner_up) FROM usage_sum WHERE account_id>0 AND unit_s=86400"),
                  number("SELECT sum(inner_up) FROM usage_record"));
    }
    static std::vector<flow::LiveSlot*> open_flows(Ledger& ledger, uint64_t count) {
        std::vector<flow::LiveSlot*> slots;
        for (uint64_t id = 1; id <= count; ++id) {
            slots.push_back(ledger.live().take(request(id, 1 + static_cast<uint32_t>(id % 2), 0)));
        }
        return slots;
    }
};

TEST_F(RecordSumsTest, EachRowChangesOnceInASealOfManyFlows) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice", 1);
    add_session(*ledger, 2, "bob", 2);
    ASSERT_TRUE(ledger->database().execute(
        "CREATE TABLE change(n INTEGER);"
        "CREATE TRIGGER new_sum AFTER INSERT ON usage_sum BEGIN INSERT INTO change VALUES(1); END;"
        "CREATE TRIGGER more AFTER UPDATE ON usage_sum BEGIN INSERT INTO change VALUES(1); END"));
    const auto slots = open_flows(*ledger, 200);
    for (int64_t minute = 1; minute <= 3; ++minute) {
        for (flow::LiveSlot* slot : slots) {
            count(*slot, 1000, kNoon + minute * 60 * kSecond - 1);
        }
        ASSERT_EQ(*ledger->tick(kNoon + minute * 60 * kSecond), 200U);
        // A quarter of an hour and a day: of alice, of bob, of all.
        EXPECT_EQ(number("SELECT count(*) FROM change"), 6 * minute);
    }
    expect_sums_of_records(600);
}

TEST_F(RecordSumsTest, ASealThatFailsAtItsEndIsInNoSum) {
    auto ledger = open(kNoon);
    add_session(*ledger, 1, "alice", 1);
    add_session(*ledger, 2, "bob", 2);
    for (flow::LiveSlot* slot : open_flows(*ledger, 20)) {
        count(*slot, 1000, kNoon + 1);
        ledger->live().release(slot, Cause::Closed);
    }
    ledger->close_session(1, {1, 1}, kNoon + 1);
    ASSERT_TRUE(ledger->database().execute("CREATE TRIGGER no_end BEFORE INSERT ON session_record "
                                           "BEGIN SELECT RAISE(ABORT,'no'); END"));
    ASSERT_FALSE(ledger->tick(kNoon + kSecond));
    EXPECT_EQ(number("SELECT count(*) FROM usage_sum"), 0);
    ASSERT_FALSE(ledger->tick(kNoon + 2 * kSecond));
    ASSERT_TRUE(ledger->database().execute("DROP TRIGGER no_end"));
    ASSERT_EQ(*ledger->tick(kNoon + 3 * kSecond), 20U);
    expect_sums_of_records(20);
}

// With flows that share a record.
TEST_F(RecordSumsTest, SumsHaveWhatIsRecoveredAfterACrashAndAfterAPowerLoss) {
    int64_t records = 0;
    for (const char* boot_id : {"boot-a", "boot-b"}) {
        SCOPED_TRACE(boot_id);
        auto bounded = options();
        bounded.user_records = 5;
        {
            auto ledger = open(kNoon, bounded);
            add_session(*ledger, 1, "alice", 1);
            add_session(*ledger, 2, "bob", 2);
            const auto slots = open_flows(*ledger, 40);
            for (int64_t minute = 1; minute <= 2; ++minute) {
                for (flow::LiveSlot* slot : slots) {
                    count(*slot, 1000, kNoon + minute * 60 * kSecond - 1);
                }
                ASSERT_TRUE(ledger->tick(kNoon + minute * 60 * kSecond));
            }
            for (flow::LiveSlot* slot : slots) {
                count(*slot, 500, kNoon + 125 * kSecond);
            }
            for (size_t i = 0; i < slots.size() / 2; ++i) {
                ledger->live().release(slots[i], Cause::Closed);
            }
            ASSERT_TRUE(ledger->tick(kNoon + 126 * kSecond));
            records = number("SELECT count(*) FROM usage_record");
            expect_sums_of_records(records);
        }
        auto next = bounded;
        next.boot_id = boot_id;
        const auto ledger = open(kNoon + 130 * kSecond, next);
        ASSERT_GT(ledger->status().recovered_records, 0U);
        expect_sums_of_records(records + static_cast<int64_t>(ledger->status().recovered_records));
    }
}

TEST_F(RecordSumsTest, NoRecordIsRefusedBecauseASumIsFull) {
    auto database =
        store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value();
    auto store = RecordStore::open(database).value();
    RecordSums sums;
    flow::UsageRecord record;
    record.t_end = kNoon;
    record.pay_up = int64_t{1} << 62;
    for (; record.seq < 3; ++record.seq) {
        EXPECT_TRUE(store.insert(record, sums));
    }
    EXPECT_TRUE(store.write(sums));
    for (; record.seq < 6; ++record.seq) {
        EXPECT_TRUE(store.insert(record));
    }
    EXPECT_EQ(number("SELECT sum(records) FROM usage_sum WHERE account_id=-1 AND unit_s=900"), 6);
    EXPECT_EQ(number("SELECT min(pay_up>9e18) FROM usage_sum"), 1);
}

}  // namespace
}  // namespace continuo::snapt::ledger
