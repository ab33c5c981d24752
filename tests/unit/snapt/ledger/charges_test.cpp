#include "snapt/accounting/rated_usage.hpp"
#include "tests/unit/snapt/ledger/charges_fixture.hpp"

#include <random>
#include <thread>

#include <sys/wait.h>

namespace continuo::snapt::ledger {
namespace {

using store::kLedgerFileName;
using store::PlanTerms;
using store::set_snapt_price;

// The contract's example: 12 downloads, 60 calls, 6 late ones, 60 of a terminal.
TEST_F(ChargesTest, TheWorkedExampleCostsWhatItSays) {
    struct Kind {
        int64_t count;
        base::TrafficClass traffic_class;
        int64_t payload, delay_ms, pre, post;
    };
    const std::array kinds = {
        Kind{12, base::TrafficClass::HtHd, 2'500'000, 60, 2'580'000, 1'420'000},
        Kind{60, base::TrafficClass::HtLd, 160'000, 120, 168'000, 131'000},
        Kind{6, base::TrafficClass::HtLd, 160'000, 320, 168'000, 131'000},
        Kind{60, base::TrafficClass::LtLd, 6'000, 45, 9'000, 9'800},
    };
    for (const Kind& kind : kinds) {
        for (int64_t i = 0; i < kind.count; ++i) {
            flow::UsageRecord one = record(kAlice, kind.traffic_class, i * kMinute);
            one.pay_down = kind.payload;
            one.delay_us = kind.delay_ms * 1000;
            one.pre = kind.pre;
            one.post = kind.post;
            put(one);
        }
    }
    use(add_shipped().plan_id);
    store::MoneyEntry topup;
    topup.user_id = "alice";
    topup.kind = store::EntryKind::Topup;
    topup.amount_ud = 100'000'000;
    topup.ref = "INV-1";
    ASSERT_TRUE(store::book(database_, topup));
    EXPECT_EQ(book_all(7), 138U);
    EXPECT_EQ(number("SELECT sum(amount_ud) FROM ledger WHERE kind='usage'"), -6'581'388);
    EXPECT_EQ(number("SELECT sum(amount_ud) FROM ledger WHERE kind='discount'"), 719'388);
    EXPECT_EQ(balance(kAlice), 94'138'000);
    EXPECT_EQ(number("SELECT sum(pre-post) FROM charge"), 16'314'000);
    expect_verified();
}

TEST_F(ChargesTest, EachRecordIsBookedOnceHoweverItIsDivided) {
    use(add_shipped().plan_id);
    for (const size_t limit : {size_t{1}, size_t{7}, size_t{1000}}) {
        put_many(150);
        EXPECT_EQ(book_all(limit), 150U) << limit;
        EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_)) << limit;
        EXPECT_EQ(balance(kBob), -net_ud(kBob, *shipped_)) << limit;
        EXPECT_EQ(book_all(limit), 0U) << limit;
    }
    expect_verified();
}

// Each run of a SNAPT has its price, which its records keep.
TEST_F(ChargesTest, AChargeIsTimesThePriceOfTheSnaptInThatRun) {
    use(add_flat("flat", "0.001").plan_id);
    ASSERT_TRUE(set_snapt_price(database_, "zrh-1", 2, 1250));
    ASSERT_TRUE(set_snapt_price(database_, "zrh-1", 3, 1250));
    ASSERT_TRUE(set_snapt_price(database_, "zrh-1", 4, 1000));
    EXPECT_EQ(number("SELECT count(*) FROM snapt_price"), 2) << "only changes";
    int64_t seq = 0;
    for (const int64_t epoch : {1, 2, 3, 4}) {
        flow::UsageRecord one = record(kAlice, base::TrafficClass::HtHd, epoch * kMinute);
        one.epoch = epoch;
        one.seq = seq;
        one.pay_down = 1'000'000;  // 8000 units
        put(one);
    }
    flow::UsageRecord other = record(kBob, base::TrafficClass::HtHd, kMinute);
    other.snapt_id = "zrh-2";
    other.epoch = 3;
    other.seq = 0;
    other.pay_down = 1'000'000;
    put(other);
    EXPECT_EQ(book_all(), 5U);
    EXPECT_EQ(balance(kAlice), -(8 + 10 + 10 + 8) * 1'000'000);
    EXPECT_EQ(balance(kBob), -8'000'000) << "of another SNAPT";
    expect_verified();
    add_flat("flat", "0.002");
    EXPECT_EQ(rate_again({0, kNoon + 24 * 60 * kMinute, {}, {}}).charges, 5U);
    EXPECT_EQ(balance(kAlice), -(16 + 20 + 20 + 16) * 1'000'000) << "also when rated again";
    expect_verified();
    EXPECT_FALSE(database_.execute("UPDATE snapt_price SET price_permille=1"));
    EXPECT_FALSE(database_.execute("DELETE FROM snapt_price"));
    UsageQuery query;
    query.by = {UsageKey::User};
    const auto rated =
        accounting::rate_usage(database_, query, rating::tests::flat_plan(0.001)).value();
    ASSERT_EQ(rated.rows.size(), 2U);
    EXPECT_EQ(rated.rows[0].net_ud, 36'000'000) << "and when it is only tried";
    EXPECT_EQ(rated.rows[1].net_ud, 8'000'000);
}

TEST_F(ChargesTest, BookersAtTheSameTimeBookOnce) {
    use(add_shipped().plan_id);
    put_many(400);
    std::array<size_t, 3> booked{};
    std::vector<std::thread> threads;
    for (size_t& records : booked) {
        threads.emplace_back([this, &records] {
            auto own =
                store::Database::open(path(kLedgerFileName), store::OpenMode::ReadWrite).value();
            accounting::UsageBooker booker(own, {9, 2, 9, 9});
            while (true) {
                const auto some = booker.step(kNoon, accounting::kBookAll);
                if (some && !some->has_more) {
                    return;
                }
                records += some ? some->records : 0;
            }
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    EXPECT_EQ(booked[0] + booked[1] + booked[2], 400U);
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
    expect_verified();
}

// Killed at any moment behind some commits, it goes on where it was. The last one comes to its end.
TEST_F(ChargesTest, ACrashNeitherLosesNorRepeats) {
    use(add_shipped().plan_id);
    constexpr int64_t kRecords = 1500;
    put_many(kRecords);
    std::mt19937 random(7);
    size_t kills = 0;
    constexpr size_t kMostKills = 20;
    while (kills < kMostKills &&
           number("SELECT coalesce(max(seq),-1) FROM booked WHERE until_seq IS NULL") <
               next_seq_ - 1) {
        std::array<int, 2> ends{};
        ASSERT_EQ(pipe(ends.data()), 0);
        const pid_t child = fork();
        if (child == 0) {
            auto own =
                store::Database::open(path(kLedgerFileName), store::OpenMode::ReadWrite).value();
            const size_t limit = 1 + random() % 20;
            accounting::UsageBooker booker(own, {limit, 1 + random() % 5, limit, limit});
            while (true) {
                const auto some = booker.step(kNoon, accounting::kBookAll);
                if (!some || !some->has_more || write(ends[1], "+", 1) != 1) {
                    _exit(0);
                }
            }
        }
        close(ends[1]);
        char committed = 0;
        for (size_t left = 1 + random() % 4; left > 0 && read(ends[0], &committed, 1) == 1;) {
            --left;
        }
        usleep(static_cast<useconds_t>(random() % 3'000));
        kill(child, SIGKILL);
        int status = 0;
        waitpid(child, &status, 0);
        close(ends[0]);
        kills += WIFSIGNALED(status) ? 1U : 0U;
    }
    EXPECT_GT(kills, 0U);
    book_all();
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
    EXPECT_EQ(balance(kBob), -net_ud(kBob, *shipped_));
    EXPECT_EQ(number("SELECT sum(records) FROM charge"), kRecords);
    expect_verified();
}

TEST_F(ChargesTest, WithoutAPlanInUseNothingIsBookedYet) {
    put_many(10);
    EXPECT_EQ(book_all(), 0U);
    const PlanTerms terms = add_shipped();
    EXPECT_EQ(book_all(), 0U) << "a plan that nobody uses";
    use(terms.plan_id, kNoon + kMinute);
    EXPECT_EQ(book_all(), 10U);
    EXPECT_EQ(balance(kAlice), 0) << "that was before";
    EXPECT_EQ(number("SELECT count(*) FROM ledger"), 0);
    EXPECT_EQ(number("SELECT sum(records) FROM charge WHERE plan_id=0"), 10);
}

// The plan in force at the beginning of the quarter of an hour in which a record ended.
TEST_F(ChargesTest, APlanHoldsForWholeQuartersOfAnHour) {
    const PlanTerms cheap = add_flat("cheap", "0.001");
    use(cheap.plan_id);
    use(add_flat("dear", "0.002").plan_id, kNoon + 20 * kMinute);
    add_flat("dear", "0.003", kNoon + 45 * kMinute);
    use(store::kNoPlan, kNoon + 60 * kMinute, kBob);
    use(store::kPlanOfOthers, kNoon + 75 * kMinute, kBob);
    const auto costs = [&](int64_t account_id, int64_t end) {
        flow::UsageRecord one = record(account_id, base::TrafficClass::HtHd, end);
        one.pay_up = 125;  // a kbit, a unit
        const int64_t before = balance(account_id);
        put(one);
        EXPECT_EQ(book_all(), 1U);
        return before - balance(account_id);
    };
    EXPECT_EQ(costs(kAlice, 15 * kMinute), 1000);
    EXPECT_EQ(costs(kAlice, 30 * kMinute), 1000) << "its last microsecond counts";
    EXPECT_EQ(costs(kAlice, 30 * kMinute + 1), 2000);
    EXPECT_EQ(costs(kAlice, 45 * kMinute + 1), 3000) << "a revision";
    EXPECT_EQ(costs(kBob, 61 * kMinute), 0);
    EXPECT_EQ(costs(kAlice, 61 * kMinute), 3000);
    EXPECT_EQ(costs(kBob, 76 * kMinute), 3000);
    expect_verified();
}

TEST_F(ChargesTest, WhatComesLateIsACorrectionOfToday) {
    use(add_shipped().plan_id);
    put_many(40);
    const int64_t later = kNoon + kCloseAfterUs + 3600 * kSecond;
    EXPECT_EQ(book_all(1000, later), 40U);
    EXPECT_EQ(number("SELECT count(*) FROM ledger WHERE kind<>'adjust'"), 0);
    EXPECT_EQ(number("SELECT min(at) FROM ledger"), later);
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
    expect_verified();
}

TEST_F(ChargesTest, RatingAgainBooksTheDifferenceOnce) {
    const PlanTerms first = add_flat("flat", "0.001");
    use(first.plan_id);
    put_many(300);
    book_all(50);
    const int64_t before = balance(kAlice);
    EXPECT_EQ(rate_again({0, INT64_MAX, {}, {}}).charges, 0U) << "nothing has changed";
    add_flat("flat", "0.0005");
    EXPECT_EQ(book_all(), 0U);
    const Rerated halved = rate_again({0, INT64_MAX, {}, {}});
    EXPECT_GT(halved.charges, 0U);
    EXPECT_LT(halved.net_ud, 0);
    EXPECT_NEAR(static_cast<double>(balance(kAlice)), static_cast<double>(before) / 2, 300);
    EXPECT_EQ(rate_again({0, INT64_MAX, {}, {}}).charges, 0U);
    EXPECT_EQ(rate_again({0, INT64_MAX, {}, first}).charges, halved.charges);
    EXPECT_EQ(balance(kAlice), before) << "and back";
    RerateSpan bobs{kNoon, kNoon + 15 * kMinute, "bob", {}};
    const int64_t bob_before = balance(kBob);
    EXPECT_GT(rate_again(bobs).charges, 0U);
    EXPECT_EQ(balance(kAlice), before);
    EXPECT_GT(balance(kBob), bob_before);
    expect_verified();
}

TEST_F(ChargesTest, WhoseRecordsAreGoneIsLeftAsItIs) {
    use(add_flat("flat", "0.001").plan_id);
    put_many(60);
    book_all();
    const int64_t before = balance(kAlice);
    ASSERT_TRUE(database_.execute("DELETE FROM usage_record"));
    add_flat("flat", "0.0005");
    const Rerated rerated = rate_again({0, INT64_MAX, {}, {}});
    EXPECT_EQ(rerated.charges, 0U);
    EXPECT_GT(rerated.gone, 0U);
    EXPECT_EQ(balance(kAlice), before);
    EXPECT_TRUE(are_charges_good());
}

TEST_F(ChargesTest, ChargesAreOnlyAdded) {
    use(add_shipped().plan_id);
    put_many(20);
    book_all();
    EXPECT_FALSE(database_.execute("UPDATE charge SET gross_ud=0"));
    EXPECT_FALSE(database_.execute("DELETE FROM charge"));
    EXPECT_TRUE(are_charges_good());
    ASSERT_TRUE(database_.execute("UPDATE usage_record SET pay_down=pay_down+1000000 WHERE seq=3"));
    EXPECT_FALSE(are_charges_good()) << "a record costs something else";
    ASSERT_TRUE(database_.execute("UPDATE usage_record SET pay_down=pay_down-1000000 WHERE seq=3"));
    EXPECT_TRUE(are_charges_good());
    ASSERT_TRUE(database_.execute("DROP TRIGGER charge_is_not_changed;"
                                  "UPDATE charge SET records=records+1,gross_ud=gross_ud+1 "
                                  "WHERE gross_ud>0 AND charge_id=(SELECT max(charge_id) FROM "
                                  "charge WHERE gross_ud>0)"));
    EXPECT_FALSE(are_charges_good()) << "an entry is not its charges";
}

TEST_F(ChargesTest, TheDeskBooksWhenAQuarterOfAnHourIsOver) {
    use(add_shipped().plan_id);
    put_many(1200);
    auto desk = accounting::UsageDesk::start(path(kLedgerFileName), 0).value();
    const auto are_booked = [&desk](uint64_t records) {
        for (int i = 0; i < 2000 && desk->booked_records() < records; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return desk->booked_records() == records;
    };
    ASSERT_TRUE(database_.execute("UPDATE state SET v=2 WHERE k='epoch'"));
    const int64_t quarter = kNoon + 12 * 15 * kMinute;
    desk->tick(quarter);
    EXPECT_TRUE(are_booked(1200)) << "what an earlier run left";
    ASSERT_TRUE(database_.execute("UPDATE state SET v=1 WHERE k='epoch'"));
    put(record(kAlice, base::TrafficClass::HtHd, quarter - kNoon));
    put(record(kAlice, base::TrafficClass::HtHd, quarter - kNoon + 1));
    desk->tick(quarter + 9 * kSecond);
    desk->tick(quarter + accounting::kBookDelayUs);
    EXPECT_TRUE(are_booked(1201)) << "the other one is of the quarter that is not over";
    desk->tick(quarter + 15 * kMinute + accounting::kBookDelayUs);
    EXPECT_TRUE(are_booked(1202));
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
}

TEST_F(ChargesTest, UsageTellsWhatIsBooked) {
    use(add_flat("flat", "0.001").plan_id);
    put_many(200);
    EXPECT_EQ(query_usage(database_, {})->rows.at(0).net_ud, 0) << "nothing yet";
    book_all();
    add_flat("flat", "0.0005");
    rate_again({kNoon, kNoon + 15 * kMinute, "alice", {}});
    for (const std::vector<UsageKey>& by : {std::vector<UsageKey>{},
                                            {UsageKey::User},
                                            {UsageKey::Class, UsageKey::Day},
                                            {UsageKey::Snapt, UsageKey::User, UsageKey::Month}}) {
        UsageQuery query;
        query.by = by;
        query.zone = "Asia/Kathmandu";
        int64_t net_ud = 0;
        const auto rows = query_usage(database_, query)->rows;
        for (const UsageRow& row : rows) {
            const bool is_by_user = by == std::vector<UsageKey>{UsageKey::User};
            EXPECT_EQ(row.balance_ud,
                      is_by_user ? std::optional(balance(*row.account_id)) : std::nullopt);
            EXPECT_GT(row.net_ud, 0);
            net_ud += row.net_ud.value_or(0);
        }
        EXPECT_EQ(net_ud, -balance(kAlice) - balance(kBob)) << by.size();
    }
    UsageQuery query;
    query.user = "bob";
    query.is_own = true;
    query.account_id = kBob;
    query.by = {UsageKey::User};
    EXPECT_EQ(query_usage(database_, query)->rows.at(0).net_ud, -balance(kBob));
    query.from_us = kNoon;
    query.to_us = kNoon + 15 * kMinute;
    EXPECT_LT(query_usage(database_, query)->rows.at(0).net_ud, -balance(kBob));
    EXPECT_GT(query_usage(database_, query)->rows.at(0).net_ud, 0);
    query.to_us = kNoon + kMinute;
    EXPECT_FALSE(query_usage(database_, query)->rows.at(0).net_ud) << "charges are of quarters";
    query.to_us.reset();
    query.by = {UsageKey::App};
    EXPECT_FALSE(query_usage(database_, query)->rows.at(0).net_ud) << "and of all applications";
}

TEST_F(ChargesTest, RecordsOfNobodyCostNobodyAnything) {
    use(add_shipped().plan_id);
    flow::UsageRecord orphan = record(store::kNoAccount, base::TrafficClass::HtHd, 0);
    orphan.user_id = "?";
    orphan.pay_down = 1'000'000;
    put(orphan);
    EXPECT_EQ(book_all(), 1U);
    EXPECT_EQ(number("SELECT count(*) FROM charge"), 0);
    EXPECT_EQ(number("SELECT count(*) FROM ledger"), 0);
}

}  // namespace
}  // namespace continuo::snapt::ledger
