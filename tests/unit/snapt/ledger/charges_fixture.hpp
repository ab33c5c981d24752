// Usage records of three users, plans, and what is booked of them.
#pragma once

#include "rating/rate.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/accounting/usage_desk.hpp"
#include "snapt/accounting/verify.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/rating/plans.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <algorithm>
#include <map>

namespace continuo::snapt::ledger {

inline constexpr int64_t kMinute = 60 * kSecond;
inline constexpr int64_t kAlice = 1;
inline constexpr int64_t kBob = 2;
inline constexpr int64_t kCarol = 3;

class ChargesTest : public StateFolder {
  protected:
    ChargesTest() {
        EXPECT_TRUE(database_.execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob'),(3,'carol');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2),('carol',0,0,3)"));
    }
    // The next record, which ended so long after noon.
    flow::UsageRecord record(int64_t account_id, base::TrafficClass traffic_class, int64_t after) {
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.seq = next_seq_++;
        record.account_id = account_id;
        record.user_id = account_id == kAlice ? "alice" : account_id == kBob ? "bob" : "carol";
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
        store::Transaction transaction = store::Transaction::begin(database_).value();
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
    store::PlanTerms add_shipped(const std::string& change = "") {
        const auto added =
            store::add_plan(database_, "standard",
                            rating::tests::text_of_file(rating::tests::kShippedPlan) + change, 0)
                .value();
        return {added.plan.plan_id, added.plan.revision};
    }
    // A plan of that name with one price for everything.
    store::PlanTerms
    add_flat(const std::string& name, const std::string& price, int64_t from_us = 0) {
        std::string text = "version = 1\n[plan]\nname = \"" + name +
                           "\"\ndelay_unknown_ms = 100\np_min_denarii_per_vu = " + price +
                           "\np_max_denarii_per_vu = " + price + "\n";
        for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
            text += "[plan.class." + std::string(base::token(traffic_class)) +
                    "]\nx_kbps = [0, 64]\nd_ms = [0, 100]\nu = [[0, 0], [0, 0]]\nk_x = 1.0\n"
                    "k_d = 0.0\n";
        }
        const auto parsed = rating::parse_plan(text, "plan.toml", rating::PlanUse::New);
        EXPECT_TRUE(parsed.plan) << rating::tests::joined(parsed.diagnostics);
        const auto added = store::add_plan(database_, name, text, from_us).value();
        return {added.plan.plan_id, added.plan.revision};
    }
    void use(int64_t plan_id, int64_t from_us = 0, int64_t account_id = store::kNoAccount) {
        ASSERT_TRUE(store::use_plan(database_, {account_id, plan_id, from_us}, kNoon, "root"));
    }
    // Books all that ended until then; gives the records.
    accounting::Booked book_until(int64_t until_us,
                                  const accounting::BookLimits& limits = {},
                                  int64_t now_us = kNoon + kMinute) {
        accounting::UsageBooker booker(database_, limits);
        accounting::Booked all;
        while (true) {
            const auto booked = booker.step(now_us, until_us);
            EXPECT_TRUE(booked) << booked.error().where;
            if (!booked || !booked->has_more) {
                return all;
            }
            all.records += booked->records;
            all.entries += booked->entries;
            all.faults += booked->faults;
        }
    }
    size_t book_all(size_t limit = 1000, int64_t now_us = kNoon + kMinute) {
        return book_until(accounting::kBookAll, {limit, 1 + limit / 10, 1 + limit, limit}, now_us)
            .records;
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
        return store::balance_of(database_, account_id).value().balance_ud;
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
        const auto checks = accounting::verify_ledger(database_).value();
        for (const accounting::LedgerCheck& check : checks) {
            EXPECT_TRUE(check.is_good || check.what == "sequence")
                << check.what << ": " << check.found;
        }
    }
    bool are_charges_good() {
        const auto checks = accounting::verify_ledger(database_).value();
        const auto charges = std::find_if(checks.begin(), checks.end(), [](const auto& check) {
            return check.what == "charges";
        });
        return charges != checks.end() && charges->is_good;
    }

    store::Database database_ =
        store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value();
    store::PlanBook plans_;
    std::shared_ptr<const rating::Plan> shipped_ = rating::tests::shipped_plan();
    std::vector<flow::UsageRecord> records_;
    int64_t next_seq_ = 0;
};

}  // namespace continuo::snapt::ledger
