// Databases as earlier versions made them.
#include "snapt/accounting/quota.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/accounting/verify.hpp"
#include "snapt/ledger/new_ledger.hpp"
#include "snapt/ledger/usage.hpp"
#include "snapt/store/folder_lock.hpp"
#include "snapt/store/lease_store.hpp"
#include "snapt/store/plan_store.hpp"
#include "snapt/store/schema.hpp"
#include "snapt/store/snapt_prices.hpp"
#include "snapt/store/user_store.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"

#include <set>
#include <sstream>

namespace continuo::snapt::store {
namespace {

using accounting::LedgerCheck;
using accounting::verify_ledger;
using base::Errc;
using base::IpAddress;
using base::IpPrefix;
using ledger::kNoon;
using ledger::Ledger;
using ledger::LedgerOptions;
using ledger::query_usage;
using ledger::read_records;
using ledger::UsageKey;
using ledger::UsageQuery;

class MigrationTest : public ledger::StateFolder {
  protected:
    // Tables as that version made them, with users, keys and a lease; then `change` happened.
    void write_database(const std::string& version, const char* change = "") const {
        std::ifstream file(CONTINUO_SOURCE_DIR "/tests/unit/snapt/accounting/data/ledger_" +
                           version + ".sql");
        std::ostringstream sql;
        sql << file.rdbuf();
        ASSERT_FALSE(sql.str().empty());
        auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        std::string clear;
        {
            auto tables =
                database
                    .prepare("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE "
                             "'sqlite%'")
                    .value();
            while (*tables.step()) {
                clear += "DROP TABLE " + tables.text(0) + ";";
            }
        }
        ASSERT_TRUE(database.execute(clear.c_str()));
        ASSERT_TRUE(database.execute(sql.str().c_str()));
        ASSERT_TRUE(database.execute(change));
    }
};

TEST_F(MigrationTest, ADatabaseOfTheFirstVersionGoesOn) {
    write_database("1");
    const auto as_it_is = UserStore::open(folder_, OpenMode::ReadOnly);
    ASSERT_FALSE(as_it_is);
    EXPECT_EQ(as_it_is.error().code, Errc::Unsupported);
    EXPECT_NE(std::string_view(as_it_is.error().where).find("older version"),
              std::string_view::npos);
    const auto users = UserStore::open(folder_);
    ASSERT_TRUE(users) << users.error().where;
    const auto list = (*users)->list(kNoon).value();
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].user_id, "alice");
    ASSERT_EQ(list[0].keys.size(), 1U);
    EXPECT_EQ(list[0].keys[0].key_id, "k2");
    EXPECT_EQ(list[0].keys[0].device, "");
    EXPECT_FALSE(list[0].keys[0].seen_us);
    EXPECT_EQ(list[0].quota->bytes, 1000);
    EXPECT_TRUE(list[1].is_disabled);
    UserKey key;
    key.fill(0x22);
    EXPECT_EQ((*users)->lookup("alice", "k2"), key);
    EXPECT_FALSE((*users)->lookup("alice", "k1"));
    EXPECT_FALSE((*users)->lookup("bob", "k1"));
    base::SeededRandom random(1);
    EXPECT_EQ((*users)->add("alice", {}, kNoon, random, {"phone", "", std::nullopt})->key_id, "k3");
    LeasePool pool;
    pool.ipv4 = IpPrefix::parse("100.64.0.0/16");
    const auto leases = LeaseStore::open(folder_, pool).value();
    const Account alice{list[0].account_id, "alice"};
    const auto lease = leases->assign(alice, "laptop", kNoon, NodeId{1}).value();
    EXPECT_EQ(lease.node, "laptop");
    EXPECT_EQ(lease.ipv4, IpAddress::parse("100.64.0.9"));
    LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    EXPECT_TRUE(Ledger::open(options, kNoon));
    EXPECT_TRUE(UserStore::open(folder_)) << "nothing is left to do";
}

TEST_F(MigrationTest, ADatabaseOfTheSecondVersionGoesOn) {
    write_database("2");
    const auto users = UserStore::open(folder_).value();
    const auto list = users->list(kNoon).value();
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[0].keys[0].device, "phone");
    EXPECT_EQ(list[0].keys[0].seen_us, 1'795'000'002'000'000);
    EXPECT_EQ(list[0].quota->bytes, 1000);
    LeasePool pool;
    pool.ipv4 = IpPrefix::parse("100.64.0.0/16");
    const auto leases = LeaseStore::open(folder_, pool).value()->list().value();
    ASSERT_EQ(leases.size(), 2U);
    EXPECT_EQ(leases[0].owner.id, list[0].account_id);
    EXPECT_EQ(leases[1].owner.user, "carol") << "who was removed";
    EXPECT_NE(leases[1].owner.id, kNoAccount);
}

// Bob was removed and made again, carol was removed, and the process died.
TEST_F(MigrationTest, RecordsFromBeforeAUserWasMadeAreAFormerAccounts) {
    write_database("3");
    LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    const auto ledger = Ledger::open(options, kNoon);
    ASSERT_TRUE(ledger) << ledger.error().where;
    const auto list = UserStore::open(folder_).value()->list(kNoon).value();
    ASSERT_EQ(list.size(), 2U);
    EXPECT_EQ(list[1].user_id, "bob");
    EXPECT_EQ(list[1].quota->period, "day");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    UsageQuery query;
    query.by = {UsageKey::User};
    const auto rows = query_usage(database, query).value().rows;
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[0].user, "bob");
    EXPECT_EQ(rows[0].removed, "2026-11-27") << "when its last record ended";
    EXPECT_EQ(rows[0].payload_down, 200'116);
    EXPECT_EQ(rows[1].user, "bob");
    EXPECT_FALSE(rows[1].removed);
    EXPECT_EQ(rows[1].account_id, list[1].account_id);
    EXPECT_EQ(rows[1].payload_down, 220'664);
    EXPECT_EQ(rows[2].user, "carol");
    EXPECT_EQ(rows[2].removed, "2026-11-27");
    query.user = "bob";
    query.is_own = true;
    query.account_id = list[1].account_id;
    EXPECT_EQ(query_usage(database, query).value().rows[0].payload_down, 220'664);
    EXPECT_EQ(read_records(database, 1).value().size(), 4U) << "with the hashes that they had";
    auto ended = database
                     .prepare("SELECT account_id FROM session_record WHERE user_id='bob' "
                              "ORDER BY t_open")
                     .value();
    std::vector<int64_t> accounts;
    while (*ended.step()) {
        accounts.push_back(ended.integer(0));
    }
    EXPECT_EQ(accounts, (std::vector{*rows[0].account_id, *rows[1].account_id}));
}

// A daemon of that version knows the tables as they were, and no account: what it then seals would
// be nobody's.
TEST_F(MigrationTest, NobodyRenewsUnderARunningDaemon) {
    write_database("3");
    {
        const auto running = FolderLock::take(folder_);
        ASSERT_TRUE(running);
        const auto users = UserStore::open(folder_);
        ASSERT_FALSE(users);
        EXPECT_EQ(users.error().code, Errc::Unsupported);
        EXPECT_NE(std::string_view(users.error().where).find("restart"), std::string_view::npos);
    }
    EXPECT_TRUE(UserStore::open(folder_));
}

// The end of what a crash left open is the restart.
TEST_F(MigrationTest, ASessionThatBeganBeforeAUserWasMadeIsAFormerAccounts) {
    write_database("3", "UPDATE session_record SET t_close=1795792769000000 WHERE no=1");
    const auto list = UserStore::open(folder_).value()->list(kNoon).value();
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    auto ended = database.prepare("SELECT account_id FROM session_record WHERE no=1").value();
    ASSERT_TRUE(*ended.step());
    EXPECT_NE(ended.integer(0), list[1].account_id);
    EXPECT_NE(ended.integer(0), kNoAccount);
}

// The process died after bob was removed, and he was made again before it was started.
TEST_F(MigrationTest, ASessionFromBeforeAUserWasMadeIsAFormerAccounts) {
    write_database("3", "UPDATE open_session SET t_open=1795792760000000");
    const auto list = UserStore::open(folder_).value()->list(kNoon).value();
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    auto session =
        database
            .prepare("SELECT s.account_id,a.removed FROM open_session s JOIN account a ON "
                     "a.account_id=s.account_id")
            .value();
    ASSERT_TRUE(*session.step());
    EXPECT_NE(session.integer(0), list[1].account_id);
    EXPECT_GT(session.integer(1), 0);
}

TEST_F(MigrationTest, ADatabaseOfTheFourthVersionGoesOn) {
    write_database("4");
    LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    const auto ledger = Ledger::open(options, kNoon);
    ASSERT_TRUE(ledger) << ledger.error().where;
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto records = read_records(database, 1);
    ASSERT_TRUE(records) << "with the hashes that they had";
    ASSERT_EQ(records->size(), 4U);
    EXPECT_FALSE((*records)[0].undelivered) << "nobody counted it";
    UsageQuery query;
    query.by = {UsageKey::User};
    const auto rows = query_usage(database, query).value().rows;
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[0].removed, "2026-11-27");
    EXPECT_EQ(rows[0].undelivered, 0);
    EXPECT_EQ(rows[1].account_id, 4);
    EXPECT_EQ(rows[1].payload_down, 220'123);
    EXPECT_TRUE(list_plans(database).value().empty());
    EXPECT_TRUE(add_plan(database, "standard", "version = 1", kNoon)->is_new);
}

TEST_F(MigrationTest, ADatabaseOfTheFifthVersionGoesOn) {
    write_database("5");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto plans = list_plans(database);
    ASSERT_TRUE(plans) << "with the hashes that they had";
    ASSERT_EQ(plans->size(), 1U);
    EXPECT_EQ(plans->front().name, "small");
    EXPECT_EQ(plans->front().valid_from_us, 1'795'737'600 * ledger::kSecond);
    MoneyEntry entry;
    entry.user_id = "bob";
    entry.amount_ud = 5;
    entry.ref = "INV-1";
    EXPECT_EQ(book(database, entry)->entry.account_id, 4) << "of the two that have the name";
    EXPECT_FALSE(database.execute("DELETE FROM ledger")) << "with its triggers";
    const auto checks = verify_ledger(database).value();
    for (const LedgerCheck& check : checks) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

TEST_F(MigrationTest, ADatabaseOfTheSixthVersionGoesOn) {
    write_database("6");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto all = balances(database).value();
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[1].account.id, 4);
    EXPECT_EQ(all[1].balance_ud, 50'000'000);
    EXPECT_EQ(all[2].balance_ud, -2'500'000);
    const auto checks = verify_ledger(database).value();
    for (const LedgerCheck& check : checks) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

TEST_F(MigrationTest, ADatabaseOfTheSeventhVersionGoesOn) {
    write_database("7");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto records = read_records(database, 1);
    ASSERT_TRUE(records) << "with the hashes that they had";
    ASSERT_EQ(records->size(), 4U);
    EXPECT_FALSE((*records)[0].undelivered);
    EXPECT_EQ((*records)[3].undelivered, 4112);
    EXPECT_FALSE((*records)[3].tun_up) << "nobody counted it";
    const auto rows = query_usage(database, {}).value().rows;
    ASSERT_EQ(rows.size(), 1U);
    EXPECT_EQ(rows[0].as_sent, rows[0].post);
}

TEST_F(MigrationTest, ADatabaseOfTheEighthVersionGoesOn) {
    write_database("8");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto records = read_records(database, 1);
    ASSERT_TRUE(records) << "with the hashes that they had";
    EXPECT_EQ((*records)[2].tun_up, 5352);
    EXPECT_EQ((*records)[3].undelivered, 4112);
    accounting::UsageBooker booker(database);
    EXPECT_FALSE(booker.step(kNoon, accounting::kBookAll)->has_more) << "no plan was in use";
    ASSERT_TRUE(use_plan(database, {kNoAccount, 1, 0}, kNoon, "root"));
    size_t booked = 0;
    for (accounting::Booked some;
         (some = booker.step(kNoon, accounting::kBookAll).value()).has_more;) {
        booked += some.records;
    }
    EXPECT_EQ(booked, 4U);
    const auto checks = verify_ledger(database).value();
    for (const LedgerCheck& check : checks) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

TEST_F(MigrationTest, ADatabaseOfTheNinthVersionGoesOn) {
    write_database("9");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    const auto terms = accounting::account_terms(database, std::nullopt, kNoon).value();
    ASSERT_EQ(terms.size(), 1U);
    EXPECT_EQ(terms[0].account.id, 4);
    EXPECT_EQ(terms[0].quota, (Quota{1'000'000'000, "day"}));
    EXPECT_EQ(terms[0].zone, "Europe/Zurich");
    EXPECT_EQ(terms[0].then, Exhaustion{}) << "nobody is stopped by an update";
    EXPECT_FALSE(terms[0].credit_limit_ud);
    EXPECT_EQ(terms[0].balance_ud, 49'862'320);
    const auto checks = verify_ledger(database).value();
    for (const LedgerCheck& check : checks) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

// Flow 3 with an image of version 10, flow 4 with a longer one, as later programs of that version
// wrote it; nothing of either is sealed.
TEST_F(MigrationTest, ADatabaseOfTheTenthVersionGoesOnWithEitherSlotImage) {
    write_database(
        "10", "UPDATE open_flow SET sealed=CAST(substr(ckpt,1,56)||zeroblob(152) AS BLOB),"
              " ckpt=CAST(substr(ckpt,1,184)||zeroblob(24) AS BLOB) WHERE flow_id=3;"
              "UPDATE open_flow SET sealed=CAST(substr(ckpt,1,56)||zeroblob(160) AS BLOB),"
              " ckpt=CAST(substr(ckpt,1,136)||x'E803000000000000'||x'0200000000000000'||"
              "substr(ckpt,153,32)||zeroblob(24)||x'9001000000000000' AS BLOB) WHERE flow_id=4;");
    LedgerOptions options;
    options.state_directory = folder_;
    options.snapt_id = "zrh-1";
    options.live_slots = 16;
    const auto ledger = Ledger::open(options, kNoon);
    ASSERT_TRUE(ledger) << ledger.error().where;
    EXPECT_EQ((*ledger)->status().recovered_records, 2U);
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadOnly).value();
    const auto records = read_records(database, 1).value();
    ASSERT_EQ(records.size(), 6U);
    const auto of_flow = [&records](int64_t flow_id) {
        return records[4].flow_id == flow_id ? records[4] : records[5];
    };
    EXPECT_EQ(of_flow(3).pay_down, 200'116);
    EXPECT_FALSE(of_flow(3).jitter_us) << "nobody had measured it";
    EXPECT_EQ(of_flow(4).pay_down, 20'007);
    EXPECT_EQ(of_flow(4).delay_us, 500);
    EXPECT_EQ(of_flow(4).jitter_us, 200);
}

TEST_F(MigrationTest, ADamagedDatabaseIsNotRenewedBeforeItIsSetAside) {
    write_database("9",
                   "INSERT INTO event SELECT NULL,0,'start',hex(zeroblob(20000)) FROM usage_record;"
                   "PRAGMA wal_checkpoint(TRUNCATE)");
    {
        // The last page: a leaf of `event`.
        std::fstream file(path(kLedgerFileName), std::ios::binary | std::ios::in | std::ios::out);
        file.seekp(-4096, std::ios::end);
        file << std::string(4096, '\xFF');
    }
    const auto aside = ledger::set_damaged_ledger_aside(folder_, kNoon);
    ASSERT_TRUE(aside) << aside.error().where;
    ASSERT_TRUE(*aside);
    std::ifstream file(**aside, std::ios::binary);
    file.seekg(60);  // PRAGMA user_version, big endian
    std::string version(4, '\0');
    file.read(version.data(), 4);
    EXPECT_EQ(version, std::string("\0\0\0\x09", 4));
}

TEST_F(MigrationTest, ADatabaseOfTheEleventhVersionGoesOn) {
    write_database("11");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    EXPECT_EQ(accounting::account_terms(database, "bob", kNoon).value().at(0).credit_limit_ud,
              10'000'000);
    UsageQuery query;
    query.by = {UsageKey::User, UsageKey::Class};
    const auto rows = query_usage(database, query).value().rows;
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[1].account_id, 4);
    EXPECT_EQ(rows[1].flows, 2);
    EXPECT_EQ(rows[1].payload_down, 220'123);
    EXPECT_EQ(rows[1].tun_up, 5352);
    EXPECT_EQ(rows[1].net_ud, 137'680);
    EXPECT_EQ(rows[2].net_ud, 125'121);
    query.by = {UsageKey::App};
    const auto by_app = query_usage(database, query).value().rows;
    ASSERT_EQ(by_app.size(), 1U) << "charges are of no application";
    EXPECT_EQ(by_app[0].app, "web");
    const auto checks = verify_ledger(database);
    for (const LedgerCheck& check : checks.value()) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

// A charge has the row of records without an application; one that another stands for has none.
TEST_F(MigrationTest, SumsAreMadeOfWhatTheEleventhVersionHadRecordedAndCharged) {
    write_database("11",
                   "UPDATE usage_record SET app=NULL WHERE seq IN (2,3); INSERT INTO charge "
                   "VALUES(4,4,'zrh-1',1,0,3,1995329,3,1,1,2,165,220123,246632,251282,100000,0,"
                   "NULL,NULL,3,NULL)");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    UsageQuery query;
    query.by = {UsageKey::User};
    const auto rows = query_usage(database, query).value().rows;
    ASSERT_EQ(rows.size(), 3U);
    EXPECT_EQ(rows[1].account_id, 4);
    EXPECT_EQ(rows[1].payload_down, 220'123);
    EXPECT_EQ(rows[1].gross_ud, 100'000);
    const auto checks = verify_ledger(database).value();
    EXPECT_EQ(checks.back().what, "sums");
    EXPECT_TRUE(checks.back().is_good) << checks.back().found;
}

TEST_F(MigrationTest, ADatabaseOfTheTwelfthVersionGoesOn) {
    write_database("12");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    EXPECT_EQ(SnaptPrices::load(database)->multiplier("zrh-1", 1), 1) << "as it was charged";
    EXPECT_EQ(balance_of(database, 4).value().balance_ud, 52'862'320);
    const auto checks = verify_ledger(database);
    for (const LedgerCheck& check : checks.value()) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

TEST_F(MigrationTest, ADatabaseOfTheThirteenthVersionGoesOn) {
    write_database("13");
    auto database = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
    EXPECT_EQ(SnaptPrices::load(database)->multiplier("zrh-1", 1), 1);
    EXPECT_EQ(SnaptPrices::load(database)->multiplier("zrh-1", 2), 1.5);
    auto events =
        database.prepare("SELECT count(*) FROM event WHERE kind='start' AND mono IS NULL").value();
    ASSERT_TRUE(*events.step());
    EXPECT_EQ(events.integer(0), 1) << "nobody has noted it";
    const auto checks = verify_ledger(database);
    for (const LedgerCheck& check : checks.value()) {
        EXPECT_TRUE(check.is_good) << check.what << ": " << check.found;
    }
}

// Columns, indexes and triggers, whatever their order.
std::set<std::string> tables_of(Database& database) {
    std::set<std::string> all;
    auto objects = database
                       .prepare("SELECT type||' '||name||' of '||tbl_name FROM sqlite_schema WHERE "
                                "name NOT LIKE 'sqlite%'")
                       .value();
    while (*objects.step()) {
        all.insert(objects.text(0));
    }
    auto columns =
        database
            .prepare("SELECT t.name||'.'||c.name||' '||c.type||' '||c.[notnull]||' '||c.pk||' '||"
                     "coalesce(c.dflt_value,'-') FROM sqlite_schema t, pragma_table_info(t.name) c "
                     "WHERE t.type='table' AND t.name NOT LIKE 'sqlite%'")
            .value();
    while (*columns.step()) {
        all.insert(columns.text(0));
    }
    return all;
}

TEST_F(MigrationTest, EveryVersionGetsTheTablesOfANewDatabase) {
    auto fresh = Database::open(path("fresh.db"), OpenMode::ReadWrite).value();
    const auto wanted = tables_of(fresh);
    EXPECT_GT(wanted.size(), 60U);
    for (int64_t version = 1; version < kSchemaVersion; ++version) {
        write_database(std::to_string(version));
        auto renewed = Database::open(path(kLedgerFileName), OpenMode::ReadWrite).value();
        EXPECT_EQ(tables_of(renewed), wanted) << version;
        const auto checks = verify_ledger(renewed).value();
        EXPECT_EQ(checks.back().what, "sums");
        EXPECT_TRUE(checks.back().is_good) << version << ": " << checks.back().found;
    }
}

}  // namespace
}  // namespace continuo::snapt::store
