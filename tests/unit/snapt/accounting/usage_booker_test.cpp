#include "snapt/accounting/usage_booker.hpp"
#include "tests/unit/snapt/ledger/charges_fixture.hpp"

#include <thread>

namespace continuo::snapt::accounting {
namespace {

using ledger::charge_trouble;
using ledger::kAlice;
using ledger::kBob;
using ledger::kMinute;
using ledger::kNoon;
using store::kMaxBalanceUd;
using store::Transaction;

class UsageBookerTest : public ledger::ChargesTest {
  protected:
    // A kilobit, a unit.
    void put_unit(int64_t account_id, int64_t after) {
        flow::UsageRecord one = record(account_id, base::TrafficClass::HtHd, after);
        one.pay_up = 125;
        put(one);
    }
    // A quarter of an hour in which three users have twenty flows each, as they are sealed.
    void put_quarter(int64_t begin) {
        Transaction transaction = Transaction::begin(database_).value();
        for (int64_t minute = 1; minute <= 15; ++minute) {
            for (int64_t flow = 0; flow < 60; ++flow) {
                put_unit(kAlice + flow % 3, begin + minute * kMinute);
            }
        }
        ASSERT_TRUE(transaction.commit());
    }
    void put_balance(int64_t account_id, int64_t amount_ud, const std::string& ref) {
        store::MoneyEntry entry;
        entry.user_id = account_id == kAlice ? "alice" : "bob";
        entry.amount_ud = amount_ud;
        entry.ref = ref;
        entry.at_us = kNoon;
        ASSERT_TRUE(store::book(database_, entry));
    }
    static constexpr BookLimits kSmall{50, 1, 1'000, 100};
};

TEST_F(UsageBookerTest, AQuarterOfAnHourIsOneChargeOfAnAccountAndClass) {
    use(add_shipped().plan_id);
    put_quarter(0);
    put_quarter(15 * kMinute);
    const int64_t now_us = kNoon + 30 * kMinute;
    const Booked booked = book_until(kNoon + 15 * kMinute, kSmall, now_us);
    EXPECT_EQ(booked.records, 900U) << "the next quarter waits";
    EXPECT_EQ(number("SELECT count(*) FROM charge"), 3);
    EXPECT_EQ(number("SELECT count(*) FROM ledger WHERE kind='usage'"), 3);
    EXPECT_LE(number("SELECT count(*) FROM ledger WHERE kind='discount'"), 3);
    EXPECT_EQ(book_until(kNoon + 15 * kMinute, kSmall, now_us).records, 0U);
    EXPECT_EQ(book_until(kNoon + 30 * kMinute, kSmall, now_us).records, 900U);
    EXPECT_EQ(number("SELECT count(*) FROM charge"), 6);
    EXPECT_EQ(balance(ledger::kCarol), -net_ud(ledger::kCarol, *shipped_));
    expect_verified();
}

TEST_F(UsageBookerTest, WhatEndedBesideTheBoundaryIsBookedOnce) {
    use(add_flat("flat", "0.001").plan_id);
    put_unit(kAlice, 15 * kMinute - 1);
    put_unit(kAlice, 15 * kMinute + 1);
    put_unit(kBob, 15 * kMinute);
    put_unit(kBob, 15 * kMinute + 2);
    EXPECT_EQ(book_until(kNoon + 15 * kMinute, kSmall).records, 3U) << "up to bob's first";
    put_unit(kBob, 3 * kMinute);  // as after a crash
    EXPECT_EQ(book_until(kNoon + 30 * kMinute, kSmall).records, 2U);
    EXPECT_EQ(balance(kAlice), -2'000);
    EXPECT_EQ(balance(kBob), -3'000);
    expect_verified();
}

// As of a host without a battery before it has asked for the time: no plan would be in force.
TEST_F(UsageBookerTest, AClockThatCannotBeRightBooksNothing) {
    use(add_flat("flat", "0.001").plan_id);
    put_unit(kAlice, 0);
    UsageBooker booker(database_);
    const auto refused = booker.step(0, kBookAll);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, base::Errc::InvalidState);
    EXPECT_EQ(book_until(kBookAll).records, 1U);
}

TEST_F(UsageBookerTest, ATransactionHasSomeAccounts) {
    use(add_flat("flat", "0.001").plan_id);
    put_quarter(0);
    UsageBooker booker(database_, kSmall);
    int64_t commits = 0;
    while (true) {
        const int64_t before = number("SELECT count(*) FROM ledger");
        const Booked some = booker.step(kNoon + kMinute, kBookAll).value();
        if (!some.has_more) {
            break;
        }
        commits += some.has_written ? 1 : 0;
        EXPECT_LE(number("SELECT count(*) FROM ledger") - before, some.has_written ? 1 : 0);
        expect_verified();
    }
    EXPECT_EQ(commits, 3);
}

TEST_F(UsageBookerTest, AnotherOneGoesOnWhereOneStopped) {
    use(add_shipped().plan_id);
    put_many(300);
    for (size_t steps = 1; number("SELECT count(*) FROM booked WHERE until_seq IS NULL") == 0;
         ++steps) {
        UsageBooker booker(database_, kSmall);
        for (size_t step = 0; step < 6 + steps; ++step) {
            ASSERT_TRUE(booker.step(kNoon + kMinute, kBookAll));
        }
        expect_verified();
    }
    book_all();
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
    EXPECT_EQ(number("SELECT sum(records) FROM charge"), 300);
    expect_verified();
}

TEST_F(UsageBookerTest, APlanThatIsSaidMeanwhileHolds) {
    use(add_flat("cheap", "0.001").plan_id);
    put_unit(kAlice, 0);
    UsageBooker booker(database_);
    ASSERT_FALSE(booker.step(kNoon, kBookAll)->has_written) << "it is read now";
    use(add_flat("dear", "0.002").plan_id);
    while (booker.step(kNoon, kBookAll)->has_more) {
    }
    EXPECT_EQ(balance(kAlice), -2'000);
    expect_verified();
}

TEST_F(UsageBookerTest, ManyEntriesOfAnAccountCostNothing) {
    use(add_flat("flat", "0.001").plan_id);
    const auto work = [this] {
        put_unit(kAlice, 0);
        int64_t asked = 0;
        const std::function<bool()> count = [&asked] { return ++asked < 0; };
        database_.set_give_up(&count);
        book_all();
        database_.set_give_up(nullptr);
        return asked;
    };
    const int64_t before = work();
    ASSERT_TRUE(database_.execute(
        "INSERT INTO ledger(entry_id,account_id,user_id,kind,amount_ud,ref,at,note,actor,sha) "
        "WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i+1 FROM n WHERE i<100009) "
        "SELECT i,1,'alice','topup',1,'t'||i,0,'','root',x'00' FROM n"));
    EXPECT_EQ(balance(kAlice), 100'000 - 1'000);
    EXPECT_LE(work(), before + 1);
}

TEST_F(UsageBookerTest, WhoReadsNeedsNoLock) {
    use(add_flat("flat", "0.001").plan_id);
    put_unit(kAlice, 0);
    book_all();
    put_unit(kAlice, 1);
    auto other =
        store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value();
    Transaction held = Transaction::begin(other).value();
    UsageBooker booker(database_);
    EXPECT_TRUE(booker.step(kNoon, kBookAll)) << "reads";
    EXPECT_EQ(rate_again({0, INT64_MAX, "alice", {}}).charges, 0U) << "nothing is to be written";
}

TEST_F(UsageBookerTest, AnAccountAtTheBoundsKeepsNobodyElse) {
    use(add_flat("flat", "0.001").plan_id);
    put_balance(kAlice, -kMaxBalanceUd, "A-1");
    put_quarter(0);
    const Booked booked = book_until(kBookAll, kSmall);
    EXPECT_EQ(booked.records, 900U);
    EXPECT_EQ(booked.faults, 1U);
    EXPECT_EQ(balance(kBob), -300'000);
    EXPECT_EQ(charge_trouble(database_).value(),
              "1 charge cannot be made, such as of alice: no balance goes beyond 10^12 denarii; "
              "mend it, then `snapt rate --from`");
    EXPECT_EQ(ledger::first_fault_us(database_).value(), kNoon);
    EXPECT_EQ(prune_records(database_, INT64_MAX, 10).value(), 0U) << "they are needed";
    put_balance(kAlice, 5'000'000, "A-2");
    EXPECT_EQ(rate_again({0, INT64_MAX, {}, {}}).charges, 1U);
    EXPECT_EQ(balance(kAlice), -kMaxBalanceUd + 5'000'000 - 300'000);
    EXPECT_EQ(charge_trouble(database_).value(), "");
    EXPECT_EQ(prune_records(database_, INT64_MAX, 10).value(), 10U);
    expect_verified();
}

// 2^53 micro-denarii are the most that a record costs: 2^11 of them are 2^64, in each class.
TEST_F(UsageBookerTest, ASumBeyondAllNumbersIsNoSmallOne) {
    use(add_flat("absurd", "1000000").plan_id);
    Transaction transaction = Transaction::begin(database_).value();
    for (const auto traffic_class : {base::TrafficClass::HtHd, base::TrafficClass::LtLd}) {
        for (int64_t i = 1; i <= (int64_t{1} << 11) + 1; ++i) {
            flow::UsageRecord one = record(kAlice, traffic_class, i);
            one.pay_down = int64_t{1} << 50;
            put(one);
        }
    }
    put_unit(kBob, 0);
    ASSERT_TRUE(transaction.commit());
    EXPECT_EQ(book_until(kBookAll).faults, 2U);
    EXPECT_EQ(balance(kAlice), 0) << "neither paid nor charged by what is left of it";
    EXPECT_EQ(balance(kBob), -1'000'000'000'000);
    EXPECT_TRUE(charge_trouble(database_)->find("alice: no balance goes") != std::string::npos);
}

TEST_F(UsageBookerTest, TheDeskTellsWhatCannotBeBooked) {
    use(add_flat("flat", "0.001").plan_id);
    put_balance(kAlice, -kMaxBalanceUd, "A-1");
    put_unit(kAlice, 0);
    auto desk = UsageDesk::start(path(store::kLedgerFileName), 0).value();
    desk->tick(kNoon + kBookDelayUs);
    const auto tells = [&desk](bool wanted) {
        for (int i = 0; i < 1000 && desk->booking_trouble().empty() == wanted; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return desk->booking_trouble().empty() != wanted;
    };
    ASSERT_TRUE(tells(true));
    EXPECT_NE(desk->booking_trouble().find("such as of alice: no balance goes"), std::string::npos)
        << desk->booking_trouble();
    put_balance(kAlice, 5'000, "A-2");
    rate_again({0, INT64_MAX, {}, {}});
    desk->tick(kNoon + 15 * kMinute + kBookDelayUs);
    EXPECT_TRUE(tells(false)) << desk->booking_trouble();
}

TEST_F(UsageBookerTest, APlanThatCannotBeReadKeepsNobodyElse) {
    use(add_flat("flat", "0.001").plan_id);
    const int64_t own = add_flat("own", "0.002").plan_id;
    use(own, 0, kAlice);
    ASSERT_TRUE(database_.execute("UPDATE plan SET toml='' WHERE name='own'"));
    put_quarter(0);
    EXPECT_EQ(book_until(kBookAll, kSmall).faults, 1U);
    EXPECT_EQ(balance(kBob), -300'000);
    EXPECT_EQ(balance(kAlice), 0);
    EXPECT_TRUE(charge_trouble(database_)->find("alice: ") != std::string::npos);
}

TEST_F(UsageBookerTest, OnlyWhatIsBookedIsRemoved) {
    put_unit(kAlice, 0);
    put_unit(kAlice, 1);
    EXPECT_EQ(prune_records(database_, kNoon + 1, 10).value(), 1U) << "no plan is in use";
    use(add_flat("flat", "0.001").plan_id);
    EXPECT_EQ(prune_records(database_, INT64_MAX, 10).value(), 0U);
    book_all();
    put_unit(kAlice, 2);
    EXPECT_EQ(prune_records(database_, INT64_MAX, 10).value(), 1U);
    EXPECT_EQ(number("SELECT count(*) FROM usage_record"), 1);
}

TEST_F(UsageBookerTest, VerifySeesWhatIsSkippedAndWhatIsChargedTwice) {
    use(add_flat("flat", "0.001").plan_id);
    put_quarter(0);
    book_until(kNoon + 5 * kMinute, kSmall);
    book_all();
    EXPECT_TRUE(are_charges_good());
    ASSERT_TRUE(database_.execute("UPDATE booked SET seq=seq+100"));
    put_quarter(15 * kMinute);
    book_all();
    EXPECT_FALSE(are_charges_good()) << "a hundred are skipped";
    ASSERT_TRUE(database_.execute("DELETE FROM usage_record WHERE seq BETWEEN 900 AND 999"));
    EXPECT_TRUE(are_charges_good());
    ASSERT_TRUE(database_.execute("UPDATE booked SET seq=1700"));
    EXPECT_FALSE(are_charges_good()) << "charges beyond";
    book_all();
    EXPECT_FALSE(are_charges_good()) << "a hundred are charged twice";
}

}  // namespace
}  // namespace continuo::snapt::accounting
