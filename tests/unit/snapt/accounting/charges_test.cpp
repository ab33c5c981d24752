#include "rating/rate.hpp"
#include "snapt/accounting/charges.hpp"
#include "snapt/accounting/record_store.hpp"
#include "snapt/accounting/usage_desk.hpp"
#include "snapt/accounting/verify.hpp"
#include "tests/unit/rating/plans.hpp"
#include "tests/unit/snapt/accounting/accounting_fixture.hpp"

#include <map>
#include <random>
#include <thread>

#include <sys/wait.h>

namespace continuo::snapt {
namespace {

constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kAlice = 1;
constexpr int64_t kBob = 2;

class ChargesTest : public StateFolder {
  protected:
    ChargesTest() {
        EXPECT_TRUE(database_.execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
    }
    // The next record, which ended so long after noon.
    flow::UsageRecord record(int64_t account_id, base::TrafficClass traffic_class, int64_t after) {
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.seq = next_seq_++;
        record.account_id = account_id;
        record.user_id = account_id == kAlice ? "alice" : "bob";
        record.flow_id = record.seq;
        record.cls = static_cast<int64_t>(base::index_of(traffic_class));
        record.t_end = kNoon + after;
        record.t_start = record.t_end - 10 * kSecond;
        record.active_us = 10 * kSecond;
        record.flags = flow::record_flag::kHasAccount;
        return record;
    }
    void put(const flow::UsageRecord& record) {
        auto store = RecordStore::open(database_);
        ASSERT_TRUE(store->insert(record));
        records_.push_back(record);
    }
    // Any size, in some quarters of an hour.
    void put_many(int64_t count) {
        Transaction transaction = Transaction::begin(database_).value();
        for (int64_t number = 0; number < count; ++number) {
            const auto traffic_class = base::kAllTrafficClasses[static_cast<size_t>(number % 4)];
            flow::UsageRecord one =
                record(number % 3 == 0 ? kBob : kAlice, traffic_class, number * 7 * kSecond);
            one.pay_up = 900 * (number % 211);
            one.pay_down = 70'000 * (number % 17);
            one.pre = one.pay_up + one.pay_down + 4000;
            one.post = one.pre / (1 + number % 3);
            if (number % 5 != 0) {
                one.delay_us = 7'000 * (number % 60);
            }
            put(one);
        }
        ASSERT_TRUE(transaction.commit());
    }
    PlanTerms add_shipped(const std::string& change = "") {
        const auto added =
            add_plan(database_, "standard",
                     rating::tests::text_of_file(rating::tests::kShippedPlan) + change, 0)
                .value();
        return {added.plan.plan_id, added.plan.revision};
    }
    // A plan of that name with one price for everything.
    PlanTerms add_flat(const std::string& name, const std::string& price, int64_t from_us = 0) {
        std::string text = "version = 1\n[plan]\nname = \"" + name +
                           "\"\ndelay_unknown_ms = 100\np_min_denarii_per_vu = " + price +
                           "\np_max_denarii_per_vu = " + price + "\n";
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            text += "[plan.class." + std::string(base::token(traffic_class)) +
                    "]\nx_kbps = [0, 64]\nd_ms = [0, 100]\nu = [[0, 0], [0, 0]]\nk_x = 1.0\n"
                    "k_d = 0.0\n";
        }
        const auto parsed = rating::parse_plan(text, "plan.toml");
        EXPECT_TRUE(parsed.plan) << rating::tests::joined(parsed.diagnostics);
        const auto added = add_plan(database_, name, text, from_us).value();
        return {added.plan.plan_id, added.plan.revision};
    }
    void use(int64_t plan_id, int64_t from_us = 0, int64_t account_id = kNoAccount) {
        ASSERT_TRUE(use_plan(database_, {account_id, plan_id, from_us}, kNoon, "root"));
    }
    // Books all that there is; gives the records.
    size_t book_all(size_t limit = 1000, int64_t now_us = kNoon + kMinute) {
        size_t records = 0;
        while (true) {
            const auto booked = book_usage(database_, plans_, now_us, limit);
            EXPECT_TRUE(booked) << booked.error().where;
            if (!booked || booked->records == 0) {
                return records;
            }
            records += booked->records;
        }
    }
    Rerated rate_again(const RerateSpan& span, size_t limit = 3) {
        Rerated all;
        do {
            const Rerated some =
                rerate(database_, plans_, span, kNoon + kMinute, "root", all.next, limit).value();
            all.charges += some.charges;
            all.gone += some.gone;
            all.net_ud += some.net_ud;
            all.next = some.next;
        } while (all.next != 0);
        return all;
    }
    int64_t number(const std::string& sql) {
        auto select = database_.prepare(sql.c_str()).value();
        EXPECT_TRUE(*select.step()) << sql;
        return select.integer(0);
    }
    int64_t balance(int64_t account_id) {
        return balance_of(database_, account_id).value().balance_ud;
    }
    // As the records cost under that plan, each for itself.
    int64_t net_ud(int64_t account_id, const rating::Plan& plan) const {
        int64_t sum = 0;
        for (const flow::UsageRecord& record : records_) {
            if (record.account_id == account_id) {
                sum += rating::rate(plan, {static_cast<base::TrafficClass>(record.cls),
                                           static_cast<uint64_t>(record.pay_up + record.pay_down),
                                           record.active_us, record.delay_us, record.pre,
                                           record.post, false})
                           .net_ud;
            }
        }
        return sum;
    }
    void expect_verified() {
        for (const LedgerCheck& check : verify_ledger(database_).value()) {
            EXPECT_TRUE(check.is_good || check.what == "sequence")
                << check.what << ": " << check.found;
        }
    }
    bool are_charges_good() {
        const auto checks = verify_ledger(database_).value();
        const auto charges = std::find_if(checks.begin(), checks.end(), [](const auto& check) {
            return check.what == "charges";
        });
        return charges != checks.end() && charges->is_good;
    }

    Database database_ = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    PlanBook plans_;
    std::shared_ptr<const rating::Plan> shipped_ = rating::tests::shipped_plan();
    std::vector<flow::UsageRecord> records_;
    int64_t next_seq_ = 0;
};

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
    MoneyEntry topup;
    topup.user_id = "alice";
    topup.kind = EntryKind::Topup;
    topup.amount_ud = 100'000'000;
    topup.ref = "INV-1";
    ASSERT_TRUE(book(database_, topup));
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

TEST_F(ChargesTest, BookersAtTheSameTimeBookOnce) {
    use(add_shipped().plan_id);
    put_many(400);
    std::array<size_t, 3> booked{};
    std::vector<std::thread> threads;
    for (size_t& records : booked) {
        threads.emplace_back([this, &records] {
            auto own = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
            PlanBook plans;
            while (true) {
                const auto some = book_usage(own, plans, kNoon, 9);
                if (!some || some->records == 0) {
                    return;
                }
                records += some->records;
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

// Killed at any moment behind some commits, it goes on where it was.
TEST_F(ChargesTest, ACrashNeitherLosesNorRepeats) {
    use(add_shipped().plan_id);
    put_many(1500);
    std::mt19937 random(7);
    size_t kills = 0;
    while (number("SELECT coalesce(max(seq),-1) FROM booked") < next_seq_ - 1) {
        std::array<int, 2> ends{};
        ASSERT_EQ(pipe(ends.data()), 0);
        const pid_t child = fork();
        if (child == 0) {
            auto own = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
            PlanBook plans;
            while (true) {
                const auto some = book_usage(own, plans, kNoon, 1 + random() % 20);
                if (!some || some->records == 0 || write(ends[1], "+", 1) != 1) {
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
    EXPECT_EQ(balance(kAlice), -net_ud(kAlice, *shipped_));
    EXPECT_EQ(balance(kBob), -net_ud(kBob, *shipped_));
    EXPECT_EQ(number("SELECT sum(records) FROM charge"), 1500);
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
    use(kNoPlan, kNoon + 60 * kMinute, kBob);
    use(kPlanOfOthers, kNoon + 75 * kMinute, kBob);
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
    auto desk = UsageDesk::start(path(kLedgerFileName), 0).value();
    const auto are_booked = [&desk](uint64_t records) {
        for (int i = 0; i < 2000 && desk->booked_records() < records; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return desk->booked_records() == records;
    };
    desk->tick(kNoon);
    EXPECT_TRUE(are_booked(1200)) << "what an earlier run left";
    put_many(3);
    desk->tick(kNoon + 9 * kSecond);
    desk->tick(kNoon + kBookDelayUs);
    EXPECT_TRUE(are_booked(1203));
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
    flow::UsageRecord orphan = record(kNoAccount, base::TrafficClass::HtHd, 0);
    orphan.user_id = "?";
    orphan.pay_down = 1'000'000;
    put(orphan);
    EXPECT_EQ(book_all(), 1U);
    EXPECT_EQ(number("SELECT count(*) FROM charge"), 0);
    EXPECT_EQ(number("SELECT count(*) FROM ledger"), 0);
}

}  // namespace
}  // namespace continuo::snapt
