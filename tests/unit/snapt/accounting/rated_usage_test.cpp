#include "snapt/accounting/rated_usage.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/rating/plans.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <map>

namespace continuo::snapt::accounting {
namespace {

using ledger::kNoon;
using ledger::kSecond;
using ledger::UsageKey;
using ledger::UsageQuery;
using store::Database;

class RatedUsageTest : public ledger::StateFolder {
  protected:
    RatedUsageTest()
        : database_(
              Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite).value()) {}

    // A record of one of three users, of one of the classes, in one of three days.
    flow::UsageRecord record_of(int64_t number) const {
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.seq = number;
        record.user_id = "user-" + std::to_string(number % 3);
        record.flow_id = number / 2;
        record.cls = number % 4;
        record.t_end = kNoon + number % 3 * 24 * 3600 * kSecond;
        record.t_start = record.t_end - 60 * kSecond;
        record.active_us = 1'000'000 * (1 + number % 59);
        record.pay_up = 1000 * number;
        record.pay_down = 70'000 * (number % 17);
        record.pre = record.pay_up + record.pay_down + 4000;
        record.post = record.pre / (1 + number % 3);
        if (number % 5 != 0) {
            record.delay_us = 7'000 * (number % 60);
        }
        record.app = number % 2 == 0 ? std::optional<std::string>("web") : std::nullopt;
        return record;
    }
    void put(const flow::UsageRecord& record) {
        auto store = ledger::RecordStore::open(database_);
        ASSERT_TRUE(store->insert(record));
    }
    rating::Charge charge_of(const flow::UsageRecord& record) const {
        return rating::rate(*plan_, {static_cast<base::TrafficClass>(record.cls),
                                     static_cast<uint64_t>(record.pay_up + record.pay_down),
                                     record.active_us, record.delay_us, record.pre, record.post,
                                     !record.sharer_id.empty()});
    }

    Database database_;
    std::shared_ptr<const rating::Plan> plan_ = rating::tests::shipped_plan();
};

TEST_F(RatedUsageTest, EachRowHasTheSumOfTheChargesForItsRecords) {
    std::map<std::pair<std::string, int64_t>, std::array<int64_t, 3>> wanted;
    for (int64_t number = 0; number < 300; ++number) {
        const flow::UsageRecord record = record_of(number);
        put(record);
        const rating::Charge charge = charge_of(record);
        auto& sums = wanted[{record.user_id, record.cls}];
        sums[0] += charge.gross_ud;
        sums[1] += charge.discount_ud;
        sums[2] += charge.net_ud;
    }
    UsageQuery query;
    query.by = {UsageKey::User, UsageKey::Class};
    const ledger::UsageReport rated = rate_usage(database_, query, *plan_).value();
    const ledger::UsageReport plain = ledger::query_usage(database_, query).value();
    ASSERT_EQ(rated.rows.size(), wanted.size());
    for (size_t i = 0; i < rated.rows.size(); ++i) {
        const ledger::UsageRow& row = rated.rows[i];
        const auto& sums =
            wanted[{*row.user, static_cast<int64_t>(base::index_of(*row.traffic_class))}];
        EXPECT_GT(row.gross_ud, 0);
        EXPECT_EQ(row.gross_ud, sums[0]);
        EXPECT_EQ(row.discount_ud, sums[1]);
        EXPECT_EQ(row.net_ud, sums[2]);
        EXPECT_EQ(row.flows, plain.rows[i].flows);
        EXPECT_EQ(row.saved, plain.rows[i].saved);
        EXPECT_FALSE(plain.rows[i].net_ud) << "without a plan";
    }
}

TEST_F(RatedUsageTest, EveryGroupingHasTheSameSum) {
    for (int64_t number = 0; number < 100; ++number) {
        put(record_of(number));
    }
    const int64_t total_ud = *rate_usage(database_, {}, *plan_)->rows.at(0).net_ud;
    EXPECT_GT(total_ud, 0);
    for (const UsageKey key : {UsageKey::User, UsageKey::Class, UsageKey::Snapt, UsageKey::Day,
                               UsageKey::Month, UsageKey::App}) {
        UsageQuery query;
        query.by = {key};
        query.zone = "Asia/Kathmandu";
        int64_t sum_ud = 0;
        const auto rated = rate_usage(database_, query, *plan_).value();
        for (const ledger::UsageRow& row : rated.rows) {
            EXPECT_GT(row.net_ud, 0) << to_string(key);
            sum_ud += *row.net_ud;
        }
        EXPECT_EQ(sum_ud, total_ud) << to_string(key);
    }
}

TEST_F(RatedUsageTest, OnlyWhatWasAskedForIsRated) {
    for (int64_t number = 0; number < 60; ++number) {
        put(record_of(number));
    }
    UsageQuery query;
    query.user = "user-1";
    query.from_us = kNoon - 1;
    query.to_us = kNoon + 12 * 3600 * kSecond;
    int64_t wanted_ud = 0;
    for (int64_t number = 0; number < 60; ++number) {
        const flow::UsageRecord record = record_of(number);
        const bool is_asked = record.user_id == "user-1" && record.t_end > *query.from_us &&
                              record.t_end <= *query.to_us;
        wanted_ud += is_asked ? charge_of(record).net_ud : 0;
    }
    EXPECT_EQ(rate_usage(database_, query, *plan_)->rows.at(0).net_ud, wanted_ud);
    query.user = "nobody";
    EXPECT_EQ(rate_usage(database_, query, *plan_)->rows.at(0).net_ud, 0);
}

TEST_F(RatedUsageTest, AccountsOfOneNamePayEachItsOwn) {
    ASSERT_TRUE(database_.execute("INSERT INTO account(account_id,user_id,removed,status) VALUES"
                                  "(1,'user-1',1795000000000000,'removed'),"
                                  "(2,'user-1',NULL,'active')"));
    std::array<int64_t, 2> wanted_ud{};
    for (int64_t number = 0; number < 40; ++number) {
        flow::UsageRecord record = record_of(number);
        record.user_id = "user-1";
        record.account_id = 1 + number % 2;
        put(record);
        wanted_ud[static_cast<size_t>(number % 2)] += charge_of(record).net_ud;
    }
    ASSERT_NE(wanted_ud[0], wanted_ud[1]);
    UsageQuery query;
    query.by = {UsageKey::User};
    query.user = "user-1";
    const auto rows = rate_usage(database_, query, *plan_)->rows;
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].account_id, 1);
    EXPECT_EQ(rows[0].net_ud, wanted_ud[0]);
    EXPECT_EQ(rows[1].account_id, 2);
    EXPECT_EQ(rows[1].net_ud, wanted_ud[1]);
    query.is_own = true;
    query.account_id = 2;
    EXPECT_EQ(rate_usage(database_, query, *plan_)->rows.at(0).net_ud, wanted_ud[1]);
}

TEST_F(RatedUsageTest, WritesNothingAndLeavesNoTransactionBehind) {
    put(record_of(7));
    auto reader = Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly).value();
    ASSERT_TRUE(rate_usage(reader, {}, *plan_));
    EXPECT_FALSE(reader.in_transaction());
    UsageQuery query;
    query.zone = "Nowhere";
    EXPECT_FALSE(rate_usage(reader, query, *plan_));
    EXPECT_FALSE(reader.in_transaction());
    ASSERT_TRUE(rate_usage(reader, {}, *plan_));
}

TEST_F(RatedUsageTest, ARecordOfNoClassIsDamage) {
    flow::UsageRecord record = record_of(1);
    record.cls = 4;
    put(record);
    EXPECT_EQ(rate_usage(database_, {}, *plan_).error().code, base::Errc::Malformed);
    EXPECT_FALSE(database_.in_transaction());
}

TEST_F(RatedUsageTest, ASumThatNoNumberHoldsStaysAtTheLargest) {
    const rating::Plan dear = rating::tests::flat_plan(rating::kMaxPrice);
    for (int64_t number = 0; number < 1100; ++number) {
        flow::UsageRecord record = record_of(number);
        record.pay_up = INT64_MAX / 1200;
        record.pay_down = 0;
        put(record);
    }
    EXPECT_EQ(rate_usage(database_, {}, dear)->rows.at(0).gross_ud, INT64_MAX);
}

}  // namespace
}  // namespace continuo::snapt::accounting
