#include "snapt/accounting/usage_desk.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

namespace continuo::snapt::ledger {
namespace {

UsageQuery by(std::vector<UsageKey> keys) {
    UsageQuery query;
    query.by = std::move(keys);
    return query;
}

class UsageTest : public StateFolder {
  protected:
    UsageTest()
        : database_(store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadWrite)
                        .value()) {}

    int64_t at(const char* text) const { return *store::TimeZone::utc().parse_time_us(text); }
    // The first record of a flow: 1000 bytes up, 300 saved, that ends at `end_us`.
    flow::UsageRecord make(int64_t end_us) {
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.seq = next_seq_++;
        record.user_id = "alice";
        record.flow_id = record.seq;
        record.t_start = end_us - 60 * kSecond;
        record.t_end = end_us;
        record.pay_up = 900;
        record.inner_up = 1000;
        record.pre = 1000;
        record.post = 700;
        record.flags = flow::record_flag::kFirst;
        return record;
    }
    void put(const flow::UsageRecord& record) {
        auto store = RecordStore::open(database_);
        ASSERT_TRUE(store->insert(record));
    }
    std::vector<UsageRow> rows(const UsageQuery& query) {
        auto report = query_usage(database_, query);
        EXPECT_TRUE(report) << report.error().where;
        return report ? report->rows : std::vector<UsageRow>();
    }

    store::Database database_;
    int64_t next_seq_ = 0;
};

TEST_F(UsageTest, WithoutRecordsATotalIsZeroAndAGroupingEmpty) {
    ASSERT_EQ(rows({}).size(), 1U);
    EXPECT_EQ(rows({})[0].inner_up, 0);
    EXPECT_EQ(rows({})[0].flows, 0);
    EXPECT_FALSE(rows({})[0].saved_percent);
    EXPECT_TRUE(rows(by({UsageKey::User})).empty());
}

// Its first record is in the class it began in.
TEST_F(UsageTest, AFlowThatChangesItsClassIsOne) {
    constexpr int64_t kOnce = int64_t{1} << flow::kFlowNumberBits;
    for (const int64_t flow_id : {int64_t{5}, 5 + kOnce, 5 + 2 * kOnce, int64_t{6}}) {
        auto record = make(at("2026-11-20"));
        record.flow_id = flow_id;
        record.cls = flow_id == 5 + kOnce ? 3 : 2;
        put(record);
    }
    auto shared = make(at("2026-11-20"));  // flows that had no slot of their own
    shared.flow_id = static_cast<int64_t>(kSharedFlowIdBase + 5);
    put(shared);
    EXPECT_EQ(rows({})[0].flows, 3);
    const auto by_class = rows(by({UsageKey::Class}));
    ASSERT_EQ(by_class.size(), 3U);
    EXPECT_EQ(by_class[1].flows, 2);
    EXPECT_EQ(by_class[2].flows, 0) << "it began in another one";
}

TEST_F(UsageTest, GroupsBySeveralKeysAndSumsTheRest) {
    for (int i = 0; i < 12; ++i) {
        auto record = make(at("2026-11-20") + i * kSecond);
        record.user_id = i % 2 == 0 ? "alice" : "bob";
        record.cls = i % 3;
        record.app = i % 3 == 0 ? std::optional<std::string>("ssh") : std::nullopt;
        record.flow_id = i / 6 * 2 + i % 2;  // records of one flow count as one
        record.flags = i % 6 < 2 ? flow::record_flag::kFirst : 0U;
        put(record);
    }
    const auto by_user = rows(by({UsageKey::User}));
    ASSERT_EQ(by_user.size(), 2U);
    EXPECT_EQ(by_user[0].user, "alice");
    EXPECT_EQ(by_user[0].flows, 2);
    EXPECT_EQ(by_user[0].inner_up, 6000);
    EXPECT_EQ(by_user[0].payload_up, 5400);
    EXPECT_EQ(by_user[0].pre, 6000);
    EXPECT_EQ(by_user[0].post, 4200);
    EXPECT_EQ(by_user[0].saved, 1800);
    EXPECT_DOUBLE_EQ(*by_user[0].saved_percent, 30.0);
    EXPECT_FALSE(by_user[0].traffic_class);
    EXPECT_FALSE(by_user[0].net_ud);
    const auto by_both = rows(by({UsageKey::User, UsageKey::Class}));
    ASSERT_EQ(by_both.size(), 6U);
    EXPECT_EQ(by_both[1].traffic_class, base::TrafficClass::HtLd);
    EXPECT_EQ(by_both[1].inner_up, 2000);
    const auto by_app = rows(by({UsageKey::App}));
    ASSERT_EQ(by_app.size(), 2U);
    EXPECT_FALSE(by_app[0].app);
    EXPECT_EQ(by_app[1].app, "ssh");
    EXPECT_EQ(by_app[1].inner_up, 4000);
    UsageQuery of_bob = by({UsageKey::Snapt});
    of_bob.user = "bob";
    ASSERT_EQ(rows(of_bob).size(), 1U);
    EXPECT_EQ(rows(of_bob)[0].snapt, "zrh-1");
    EXPECT_EQ(rows(of_bob)[0].inner_up, 6000);
}

TEST_F(UsageTest, AccountsOfOneNameAreToldApart) {
    ASSERT_TRUE(database_.execute(
        "INSERT INTO account(account_id,user_id,removed) VALUES(5,'alice',1795177000000000),"
        "(6,'alice',NULL),(7,'bob',NULL)"));
    const auto put_of = [this](int64_t account_id, const char* user, int records) {
        for (int i = 0; i < records; ++i) {
            auto record = make(kNoon);
            record.user_id = user;
            record.account_id = account_id;
            put(record);
        }
    };
    put_of(5, "alice", 4);
    put_of(6, "alice", 2);
    put_of(7, "bob", 1);
    put_of(0, "alice", 8);  // of a session that nobody opened
    UsageQuery query = by({UsageKey::User, UsageKey::Class});
    query.zone = "Pacific/Kiritimati";  // UTC+14: already the next day
    const auto all = rows(query);
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0].account_id, 0);
    EXPECT_EQ(all[1].user, "alice");
    EXPECT_EQ(all[1].account_id, 5);
    EXPECT_EQ(all[1].removed, "2026-11-21");
    EXPECT_EQ(all[1].inner_up, 4000);
    EXPECT_EQ(all[1].traffic_class, base::TrafficClass::LtLd);
    EXPECT_EQ(all[2].account_id, 6);
    EXPECT_FALSE(all[2].removed);
    EXPECT_EQ(all[2].inner_up, 2000);
    EXPECT_EQ(all[3].user, "bob");
    query.user = "alice";
    EXPECT_EQ(rows(query).size(), 3U) << "the operator asks for a name";
    query.is_own = true;
    query.account_id = 6;
    const auto own = rows(query);
    ASSERT_EQ(own.size(), 1U);
    EXPECT_EQ(own[0].inner_up, 2000);
    EXPECT_EQ(own[0].user, "alice");
    EXPECT_FALSE(own[0].account_id);
    query.account_id = 7;
    EXPECT_TRUE(rows(query).empty());
}

TEST_F(UsageTest, NegativeSavingsStayNegative) {
    auto record = make(kNoon);
    record.post = 1800;
    put(record);
    EXPECT_EQ(rows({})[0].saved, -800);
    EXPECT_DOUBLE_EQ(*rows({})[0].saved_percent, -80.0);
}

TEST_F(UsageTest, DaysAndMonthsEndAtLocalMidnight) {
    // Zurich is at UTC+1 in November: its month begins at 23:00 UTC on 31 October.
    put(make(at("2026-10-31T23:00")));  // ends with the old month
    put(make(at("2026-10-31T23:01")));
    put(make(at("2026-11-01T00:00")));
    UsageQuery query = by({UsageKey::Month, UsageKey::Day});
    query.zone = "Europe/Zurich";
    auto local = rows(query);
    ASSERT_EQ(local.size(), 2U);
    EXPECT_EQ(local[0].month, "2026-10");
    EXPECT_EQ(local[0].day, "2026-10-31");
    EXPECT_EQ(local[0].inner_up, 1000);
    EXPECT_EQ(local[1].month, "2026-11");
    EXPECT_EQ(local[1].day, "2026-11-01");
    EXPECT_EQ(local[1].inner_up, 2000);
    query.zone = "UTC";
    ASSERT_EQ(rows(query).size(), 1U);
    EXPECT_EQ(rows(query)[0].day, "2026-10-31");
    query.zone = "Asia/Kathmandu";  // UTC+5:45
    ASSERT_EQ(rows(query).size(), 1U);
    EXPECT_EQ(rows(query)[0].day, "2026-11-01");
}

TEST_F(UsageTest, DayOfTheClockChangeHasAllItsHoursAndTheYearAddsUp) {
    // One record a quarter hour, for all of 2026 in Zurich and some more.
    const int64_t quarter = 900 * kSecond;
    ASSERT_TRUE(database_.execute("BEGIN"));
    auto store = RecordStore::open(database_).value();
    for (int64_t end = at("2026-03-27"); end <= at("2026-04-01"); end += quarter) {
        ASSERT_TRUE(store.insert(make(end)));
    }
    for (int64_t end = at("2026-10-23"); end <= at("2026-10-28"); end += quarter) {
        ASSERT_TRUE(store.insert(make(end)));
    }
    ASSERT_TRUE(database_.execute("COMMIT"));
    UsageQuery query = by({UsageKey::Day});
    query.zone = "Europe/Zurich";
    std::map<std::string, int64_t> quarters;
    int64_t sum = 0;
    for (const auto& row : rows(query)) {
        quarters[*row.day] = row.inner_up / 1000;
        sum += row.inner_up;
    }
    EXPECT_EQ(quarters["2026-03-28"], 96);
    EXPECT_EQ(quarters["2026-03-29"], 92);
    EXPECT_EQ(quarters["2026-03-30"], 96);
    EXPECT_EQ(quarters["2026-10-25"], 100);
    EXPECT_EQ(sum, rows({})[0].inner_up);
}

TEST_F(UsageTest, FromIsInclusiveAndToExclusive) {
    for (int64_t i = 0; i <= 10; ++i) {
        put(make(kNoon + i * 60 * kSecond));
    }
    UsageQuery query;
    query.from_us = kNoon;                   // the record that ends at noon lies before
    query.to_us = kNoon + 5 * 60 * kSecond;  // the one that ends then lies before, too
    EXPECT_EQ(rows(query)[0].inner_up, 5000);
    UsageQuery rest;
    rest.from_us = query.to_us;
    EXPECT_EQ(rows(rest)[0].inner_up, 5000);
}

TEST_F(UsageTest, UnknownZoneAndRepeatedKeyAreErrors) {
    UsageQuery query;
    for (const char* zone : {"Europe/Nowhere", "../../etc/passwd", "", "/etc/passwd", "Europe"}) {
        query.zone = zone;
        EXPECT_FALSE(query_usage(database_, query)) << zone;
    }
    EXPECT_FALSE(query_usage(database_, by({UsageKey::Day, UsageKey::Day})));
}

// The table holds records of many other users.
TEST_F(UsageTest, AQuestionAboutAUserReadsThatUsersRecordsOnly) {
    UsageQuery query = by({UsageKey::Day, UsageKey::Class});
    query.user = "alice";
    ASSERT_TRUE(database_.set_zone(store::TimeZone::utc()));
    for (const bool has_from : {false, true}) {
        query.is_own = has_from;
        query.from_us = has_from ? std::optional(kNoon + 1) : std::nullopt;
        query.to_us = kNoon + 1800 * kSecond - 1;
        auto plan = database_.prepare(("EXPLAIN QUERY PLAN " + usage_sql(query)).c_str()).value();
        std::string text;
        while (*plan.step()) {
            text += plan.text(3) + "\n";
        }
        EXPECT_NE(text.find("SEARCH usage_record USING INDEX usage_account_time (user_id=? AND "
                            "account_id=? AND t_end>"),
                  std::string::npos)
            << text;
        EXPECT_EQ(text.find("SCAN usage_record"), std::string::npos) << text;
    }
}

TEST_F(UsageTest, MoreRowsThanAnAnswerHoldsAreAClearError) {
    for (int i = 0; i < 30; ++i) {
        put(make(at("2026-10-01T12:00") + i * 86'400 * kSecond));
    }
    UsageLimits limits;
    limits.rows = 30;
    EXPECT_EQ(query_usage(database_, by({UsageKey::Day}), limits)->rows.size(), 30U);
    limits.rows = 29;
    const auto report = query_usage(database_, by({UsageKey::Day}), limits);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, base::Errc::LimitReached);
    EXPECT_NE(report.error().where.find("too many rows: narrow by --from and --to"),
              std::string::npos);
}

TEST_F(UsageTest, AnAnswerThatTakesTooLongIsGivenUpAndTheNextOneComes) {
    ASSERT_TRUE(database_.execute("BEGIN"));
    auto store = RecordStore::open(database_).value();
    for (int i = 0; i < 2000; ++i) {
        ASSERT_TRUE(store.insert(make(kNoon + i)));
    }
    ASSERT_TRUE(database_.execute("COMMIT"));
    int asked = 0;
    UsageLimits limits;
    limits.give_up = [&] { return ++asked > 2; };
    UsageQuery query = by({UsageKey::Day});
    query.to_us = kNoon + 2000;  // within a quarter of an hour: by records
    const auto report = query_usage(database_, query, limits);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, base::Errc::LimitReached);
    EXPECT_NE(report.error().where.find("narrow by --from and --to"), std::string::npos);
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(rows({})[0].inner_up, 2'000'000);
    EXPECT_EQ(asked, 3) << "nobody is asked any more";
}

TEST_F(UsageTest, OldRecordsGoInSmallBatchesAndYoungerOnesStay) {
    for (int64_t i = 0; i < 25; ++i) {
        put(make(kNoon + i * kSecond));
    }
    const int64_t before = kNoon + 20 * kSecond;
    EXPECT_EQ(*prune_records(database_, before, 8), 8U);
    EXPECT_EQ(rows({})[0].inner_up, 17'000);
    EXPECT_EQ(*prune_records(database_, before, 8), 8U);
    EXPECT_EQ(*prune_records(database_, before, 8), 4U);
    EXPECT_EQ(*prune_records(database_, before, 8), 0U);
    UsageQuery young;
    young.from_us = before - 1;
    EXPECT_EQ(rows(young)[0].inner_up, 5000);
    EXPECT_EQ(rows({})[0].inner_up, 5000);
}

TEST_F(UsageTest, SessionsAndEventsGoAfterTheRecordsOfTheirTime) {
    flow::UsageRecord record = make(kNoon + 10 * kSecond);
    record.t_start = kNoon + 8 * kSecond;
    put(record);
    for (int64_t i = 0; i < 20; ++i) {
        const std::string at_us = std::to_string(kNoon + i * kSecond);
        std::string sql = "INSERT INTO session_record(epoch,no,session_id,user_id,cnapt_id,"
                          "sharer_id,t_open,t_close,tun_up,tun_down) VALUES(1,";
        sql += std::to_string(i) + ",x'00','alice','laptop','',0," + at_us + ",1,1);";
        sql += "INSERT INTO event(at,kind,detail) VALUES(" + at_us + ",'start','')";
        ASSERT_TRUE(database_.execute(sql.c_str()));
    }
    const auto expect_left = [this](int64_t rows) {
        for (const char* sql : {"SELECT count(*),min(t_close) FROM session_record",
                                "SELECT count(*),min(at) FROM event"}) {
            auto count = database_.prepare(sql).value();
            EXPECT_TRUE(*count.step());
            EXPECT_EQ(count.integer(0), rows) << sql;
            EXPECT_EQ(count.integer(1), kNoon + (20 - rows) * kSecond) << sql;
        }
    };
    const int64_t before_us = kNoon + 15 * kSecond;
    EXPECT_TRUE(*prune_history(database_, before_us, 6));
    expect_left(14);
    EXPECT_FALSE(*prune_history(database_, before_us, 6));
    expect_left(12);  // of the time of the record
    EXPECT_EQ(*prune_records(database_, before_us, 8), 1U);
    EXPECT_FALSE(*prune_history(database_, before_us, 8));
    expect_left(5);
}

TEST_F(UsageTest, UserIsAValueAndNeverSql) {
    put(make(kNoon));
    UsageQuery query;
    query.user = "x' OR '1'='1";
    EXPECT_EQ(rows(query)[0].inner_up, 0);
}

TEST(UsageKeys, AreParsedByTheirNames) {
    for (const char* name : {"user", "class", "snapt", "day", "month", "app"}) {
        ASSERT_TRUE(parse_usage_key(name));
        EXPECT_EQ(to_string(*parse_usage_key(name)), name);
    }
    EXPECT_FALSE(parse_usage_key("hour"));
}

}  // namespace
}  // namespace continuo::snapt::ledger
