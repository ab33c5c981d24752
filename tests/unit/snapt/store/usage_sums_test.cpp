// Reports come from sums that are kept beside the records, and are what the records say.
#include "common/base/random.hpp"
#include "common/flow/slot_source.hpp"
#include "snapt/accounting/usage_desk.hpp"
#include "snapt/accounting/verify.hpp"
#include "snapt/ledger/charge_rows.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/usage_sums.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt::store {
namespace {

using ledger::Charge;
using ledger::kQuarterUs;
using ledger::UsageKey;
using ledger::UsageQuery;

constexpr std::array<const char*, 4> kUsers = {"?", "alice", "bob", "alice"};  // by account

// A row of a report: its keys as text, and its numbers.
using Numbers = std::vector<int64_t>;
using Rows = std::map<std::string, Numbers>;
constexpr int64_t kUnknown = -1;

void add(Numbers& sum, const Numbers& more) {
    std::transform(more.begin(), more.end(), sum.begin(), sum.begin(), std::plus<>());
}

class UsageSumsTest : public ledger::StateFolder {
  protected:
    UsageSumsTest()
        : database_(Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value()) {
        EXPECT_TRUE(database_.execute(
            "INSERT INTO account(account_id,user_id,removed) VALUES(1,'alice',1),(2,'bob',NULL),"
            "(3,'alice',NULL); INSERT INTO plan_use VALUES(1,0,0,0,0,'root')"));
    }

    int64_t at(const char* text) const { return *TimeZone::utc().parse_time_us(text); }
    // Around days of 25 hours and the end of a month, often at the border of a quarter of an hour.
    int64_t some_time() {
        const int64_t day_us = at(random_.below(2) == 0 ? "2026-10-24" : "2026-10-30");
        const auto quarters = static_cast<int64_t>(random_.below(3 * kQuartersOfDay));
        const std::array<int64_t, 3> behind = {0, 1,
                                               static_cast<int64_t>(random_.below(kQuarterUs))};
        return day_us + quarters * kQuarterUs + behind[random_.below(behind.size())];
    }
    flow::UsageRecord some_record() {
        flow::UsageRecord record;
        record.snapt_id = random_.below(4) == 0 ? "gva-1" : "zrh-1";
        record.epoch = 1;
        record.seq = next_seq_++;
        record.account_id = static_cast<int64_t>(random_.below(kUsers.size()));
        record.user_id = kUsers[static_cast<size_t>(record.account_id)];
        record.flow_id = record.seq | static_cast<int64_t>(random_.below(3))
                                          << flow::kFlowNumberBits;
        record.cls = static_cast<int64_t>(random_.below(4));
        record.t_end = some_time();
        record.t_start = record.t_end - 1;
        for (int64_t* value : {&record.pay_up, &record.pay_down, &record.inner_up,
                               &record.inner_down, &record.pre, &record.post}) {
            *value = static_cast<int64_t>(random_.below(1'000'000));
        }
        record.flags = random_.below(3) == 0 ? flow::record_flag::kFirst : 0U;
        record.flags |= random_.below(5) == 0 ? flow::record_flag::kTunnel : 0U;
        if (random_.below(3) == 0) {
            record.app = random_.below(2) == 0 ? "ssh" : "web";
            record.undelivered = 70;
            record.tun_up = 20;
            record.tun_down = 30;
        }
        return record;
    }
    void put_some(int count) {
        auto transaction = Transaction::begin(database_).value();
        auto store = ledger::RecordStore::open(database_).value();
        ledger::RecordSums sums;
        for (int i = 0; i < count; ++i) {
            records_.push_back(some_record());
            ASSERT_TRUE(store.insert(records_.back(), sums));
        }
        ASSERT_TRUE(store.write(sums));
        ASSERT_TRUE(transaction.commit());
    }
    // Some of a new quarter of an hour, others that stand for one.
    void charge_some(int count) {
        for (int i = 0; i < count; ++i) {
            Charge charge;
            const auto former = charges_.begin();
            const bool replaces = !charges_.empty() && random_.below(3) == 0;
            if (replaces) {
                charge = former->second;
                charge.replaces = former->first;
                charges_.erase(former);
            } else {
                charge.account_id = 1 + static_cast<int64_t>(random_.below(3));
                charge.snapt_id = "zrh-1";
                charge.quarter = some_time() / kQuarterUs;
                charge.cls = static_cast<int64_t>(random_.below(4));
            }
            charge.sums.gross_ud = static_cast<int64_t>(random_.below(1000));
            charge.sums.discount_ud = static_cast<int64_t>(random_.below(10));
            ASSERT_TRUE(ledger::insert_charge(database_, charge));
            charges_[++last_charge_] = charge;
        }
    }

    static std::string place(const UsageQuery& query, const TimeZone& zone, const Charge& of) {
        return place(query, zone, kUsers[static_cast<size_t>(of.account_id)], of.account_id, of.cls,
                     of.snapt_id, of.from_us(), "");
    }
    static std::string place(const UsageQuery& query,
                             const TimeZone& zone,
                             const std::string& user,
                             int64_t account_id,
                             int64_t cls,
                             const std::string& snapt_id,
                             int64_t at_us,
                             const std::string& app) {
        std::string text;
        for (const UsageKey key : query.by) {
            text += key == UsageKey::User    ? user
                    : key == UsageKey::Class ? std::to_string(cls)
                    : key == UsageKey::Snapt ? snapt_id
                    : key == UsageKey::Day   ? zone.day(at_us)
                    : key == UsageKey::Month ? zone.month(at_us)
                                             : app;
            text += key == UsageKey::User && !query.is_own ? std::to_string(account_id) : "";
            text += "/";
        }
        return text;
    }
    static bool is_asked(const UsageQuery& query, int64_t account_id, int64_t at_us) {
        return at_us >= query.from_us.value_or(at_us) && at_us < query.to_us.value_or(at_us + 1) &&
               (!query.user || *query.user == kUsers[static_cast<size_t>(account_id)]) &&
               (!query.is_own || account_id == query.account_id);
    }
    // The sums of the records and charges themselves.
    Rows expected(const UsageQuery& query) const {
        const TimeZone zone = TimeZone::load(query.zone).value();
        const Numbers none(12, 0);
        Rows rows;
        if (query.by.empty()) {
            rows[""] = none;
        }
        for (const flow::UsageRecord& one : records_) {
            if (is_asked(query, one.account_id, one.t_end - 1)) {
                const bool is_new = (one.flags & flow::record_flag::kFirst) != 0 &&
                                    (one.flags & flow::record_flag::kTunnel) == 0 &&
                                    one.flow_id < int64_t{1} << flow::kFlowNumberBits;
                const std::string keys = place(query, zone, one.user_id, one.account_id, one.cls,
                                               one.snapt_id, one.t_end - 1, one.app.value_or(""));
                add(rows.emplace(keys, none).first->second,
                    {is_new ? 1 : 0, one.pay_up, one.pay_down, one.inner_up, one.inner_down,
                     one.pre, one.post, one.undelivered.value_or(0), one.tun_up.value_or(0),
                     one.tun_down.value_or(0), 0, 0});
            }
        }
        for (const auto& [id, one] : charges_) {
            const auto row = rows.find(place(query, zone, one));
            if (row != rows.end() && is_asked(query, one.account_id, one.from_us())) {
                add(row->second,
                    {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, one.sums.gross_ud, one.sums.discount_ud});
            }
        }
        if (!tells_charges(query)) {
            for (auto& [keys, numbers] : rows) {
                numbers[10] = numbers[11] = kUnknown;
            }
        }
        return rows;
    }
    static bool tells_charges(const UsageQuery& query) {
        return query.from_us.value_or(0) % kQuarterUs == 0 &&
               query.to_us.value_or(0) % kQuarterUs == 0 &&
               std::find(query.by.begin(), query.by.end(), UsageKey::App) == query.by.end();
    }
    Rows answered(const UsageQuery& query) {
        const auto report = ledger::query_usage(database_, query);
        EXPECT_TRUE(report) << report.error().where;
        Rows rows;
        for (const ledger::UsageRow& row : report->rows) {
            std::string keys;
            for (const UsageKey key : query.by) {
                keys += key == UsageKey::User ? *row.user
                        : key == UsageKey::Class
                            ? std::to_string(base::index_of(*row.traffic_class))
                        : key == UsageKey::Snapt ? *row.snapt
                        : key == UsageKey::Day   ? *row.day
                        : key == UsageKey::Month ? *row.month
                                                 : row.app.value_or("");
                keys +=
                    row.account_id && key == UsageKey::User ? std::to_string(*row.account_id) : "";
                keys += "/";
            }
            EXPECT_FALSE(rows.contains(keys)) << keys << " is there twice";
            rows[keys] = {row.flows,
                          row.payload_up,
                          row.payload_down,
                          row.inner_up,
                          row.inner_down,
                          row.pre,
                          row.post,
                          row.undelivered,
                          row.tun_up,
                          row.tun_down,
                          row.gross_ud.value_or(kUnknown),
                          row.discount_ud.value_or(kUnknown)};
        }
        return rows;
    }
    // With every grouping, zone and kind of user that there is, for a span.
    void expect_as_recorded(std::optional<int64_t> from_us, std::optional<int64_t> to_us) {
        using enum UsageKey;
        const std::vector<std::vector<UsageKey>> groupings = {
            {},      {User},       {Class},       {Snapt, App},     {Day},
            {Month}, {Day, Class}, {User, Month}, {User, Day, App}, {Month, Day, User, Class}};
        for (const char* zone : {"UTC", "Europe/Zurich", "Asia/Kathmandu", "Pacific/Kiritimati"}) {
            for (const auto& by : groupings) {
                for (const int64_t account_id : {int64_t{-1}, int64_t{0}, int64_t{2}, int64_t{3}}) {
                    UsageQuery query{by, from_us, to_us, zone, {}, false, kNoAccount};
                    if (account_id >= 0) {
                        query.user =
                            account_id == 0 ? "alice" : kUsers[static_cast<size_t>(account_id)];
                        query.is_own = account_id == 3;
                        query.account_id = account_id;
                    }
                    EXPECT_EQ(answered(query), expected(query)) << zone << ' ' << by.size();
                }
            }
        }
    }
    std::string faults() {
        std::string text;
        const auto checks = accounting::verify_ledger(database_);
        for (const accounting::LedgerCheck& check : checks.value()) {
            text += check.what == "sums" && !check.is_good ? check.found : "";
        }
        return text;
    }

    Database database_;
    base::SeededRandom random_{7};
    std::vector<flow::UsageRecord> records_;
    std::map<int64_t, Charge> charges_;  // that no other one stands for, by id
    int64_t last_charge_ = 0;
    int64_t next_seq_ = 0;
};

TEST_F(UsageSumsTest, EveryReportIsWhatTheRecordsSay) {
    put_some(1500);
    charge_some(300);
    expect_as_recorded(std::nullopt, std::nullopt);
    expect_as_recorded(at("2026-10-25"), at("2026-10-31"));              // days of UTC
    expect_as_recorded(at("2026-10-24T22:00"), at("2026-10-31T23:00"));  // days of Zurich
    expect_as_recorded(at("2026-10-25T18:15"), std::nullopt);  // from a day of Kathmandu on
    expect_as_recorded(at("2026-10-30T10:30"), at("2026-10-30T14:45"));
    expect_as_recorded(std::nullopt, at("2026-10-25T00:15"));
}

TEST_F(UsageSumsTest, WhatASpanCutsComesFromRecords) {
    put_some(1500);
    charge_some(50);
    expect_as_recorded(at("2026-10-24T22:07"), at("2026-10-31T05:55"));
    expect_as_recorded(at("2026-10-25T07:01"), at("2026-10-25T07:29"));  // no whole quarter
    expect_as_recorded(at("2026-10-25T07:16"), at("2026-10-25T07:29"));
    expect_as_recorded(at("2026-10-25") + 1, std::nullopt);
    expect_as_recorded(at("2026-10-26"), at("2026-10-25"));
}

TEST_F(UsageSumsTest, GoWithTheRecordsThatAreRemoved) {
    put_some(800);
    charge_some(100);
    const int64_t before_us = at("2026-10-26");
    ASSERT_TRUE(database_.execute("DELETE FROM plan_use"));  // else what is not booked stays
    ASSERT_GT(accounting::prune_records(database_, before_us, 10'000).value(), 100U);
    ASSERT_TRUE(database_.execute("INSERT INTO plan_use VALUES(1,0,0,0,0,'root')"));
    std::erase_if(records_, [&](const auto& one) { return one.t_end < before_us; });
    expect_as_recorded(std::nullopt, std::nullopt);
    EXPECT_EQ(faults(), "");
    ASSERT_TRUE(database_.execute("DELETE FROM usage_record"));
    auto left = database_
                    .prepare("SELECT count(*),sum(abs(records)+abs(flows)+abs(pay_up)+abs(post)+"
                             "abs(tun_down)) FROM usage_sum")
                    .value();
    ASSERT_TRUE(*left.step());
    EXPECT_LE(left.integer(0), 4 * last_charge_) << "what is charged stays, and nothing else";
    EXPECT_EQ(left.integer(1), 0);
}

TEST_F(UsageSumsTest, AWriteThatIsNotCommittedIsInNoSum) {
    put_some(50);
    {
        auto transaction = Transaction::begin(database_).value();
        auto store = ledger::RecordStore::open(database_).value();
        ASSERT_TRUE(store.insert(some_record()));
    }
    EXPECT_EQ(answered({}), expected({}));
    EXPECT_EQ(faults(), "");
}

TEST_F(UsageSumsTest, VerifyNamesTheDayOfAWrongSum) {
    put_some(300);
    charge_some(60);
    EXPECT_EQ(faults(), "");
    for (const auto& [change, undo] : std::vector<std::pair<const char*, const char*>>{
             {"UPDATE usage_sum SET pay_up=pay_up+1 WHERE unit_s=900 AND user_id='bob'",
              "UPDATE usage_sum SET pay_up=pay_up-1 WHERE unit_s=900 AND user_id='bob'"},
             {"UPDATE usage_sum SET flows=flows+1,records=records-1 WHERE unit_s=86400",
              "UPDATE usage_sum SET flows=flows-1,records=records+1 WHERE unit_s=86400"},
             {"UPDATE usage_sum SET app='other' WHERE user_id='' AND app='ssh'",
              "UPDATE usage_sum SET app='ssh' WHERE user_id='' AND app='other'"},
             {"UPDATE usage_record SET cls=cls+1 WHERE seq=5",
              "UPDATE usage_record SET cls=cls-1 WHERE seq=5"}}) {
        ASSERT_TRUE(database_.execute(change));
        EXPECT_NE(faults().find("the first 2026-10-"), std::string::npos) << change;
        ASSERT_TRUE(database_.execute(undo));
        EXPECT_EQ(faults(), "");
    }
    ASSERT_TRUE(database_.execute("DELETE FROM usage_sum WHERE gross_ud>0"));
    EXPECT_NE(faults(), "");
}

// A month of many records is not read for a report over whole days.
TEST_F(UsageSumsTest, AReportOverWholeQuartersReadsNoRecord) {
    put_some(10);
    ASSERT_TRUE(database_.set_zone(TimeZone::utc()));
    for (const bool has_user : {false, true}) {
        for (const std::vector<UsageKey>& by :
             {std::vector<UsageKey>{}, {UsageKey::User}, {UsageKey::Day, UsageKey::Class}}) {
            UsageQuery query;
            query.by = by;
            query.from_us = at("2026-10-24T18:15");
            query.user = has_user ? std::optional<std::string>("alice") : std::nullopt;
            auto plan =
                database_.prepare(("EXPLAIN QUERY PLAN " + ledger::usage_sql(query)).c_str())
                    .value();
            std::string text;
            while (*plan.step()) {
                text += plan.text(3) + "\n";
            }
            EXPECT_EQ(text.find("usage_record"), std::string::npos) << text;
            EXPECT_EQ(text.find("SCAN usage_sum"), std::string::npos) << text;
            EXPECT_EQ(text.find("PRIMARY KEY (unit_s=?)"), std::string::npos) << text;
            EXPECT_NE(text.find("SEARCH s USING PRIMARY KEY (unit_s=? AND user_id=? AND "
                                "account_id=? AND unit>"),
                      std::string::npos)
                << text;
        }
    }
}

}  // namespace
}  // namespace continuo::snapt::store
