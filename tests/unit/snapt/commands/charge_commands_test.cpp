#include "common/report/json_value.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/money_commands.hpp"
#include "snapt/commands/plan_commands.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/plan_store.hpp"
#include "tests/unit/rating/plans.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using report::CommandOutput;
using report::JsonValue;

// 2026-11-20 12:00:00 UTC
constexpr int64_t kNoonUs = 1'795'176'000'000'000;

class ChargeCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-charges-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        auto database = open();
        ASSERT_TRUE(database.execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
        ASSERT_TRUE(store::add_plan(database, "standard",
                                    rating::tests::text_of_file(rating::tests::kShippedPlan), 0));
        flow::UsageRecord record;
        record.snapt_id = "zrh-1";
        record.epoch = 1;
        record.account_id = 1;
        record.user_id = "alice";
        record.cls = static_cast<int64_t>(base::index_of(base::TrafficClass::HtHd));
        record.t_end = kNoonUs;
        record.t_start = kNoonUs - 10'000'000;
        record.active_us = 10'000'000;
        record.pay_down = 2'500'000;
        record.delay_us = 60'000;
        record.pre = 2'580'000;
        record.post = 1'420'000;
        record.flags = flow::record_flag::kHasAccount;
        ASSERT_TRUE(ledger::RecordStore::open(database)->insert(record));
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    store::Database open() const {
        return store::Database::open(folder_ + "/" + store::kLedgerFileName,
                                     store::OpenMode::ReadWrite)
            .value();
    }
    CommandOutput run(std::vector<std::string> words) const {
        words.insert(words.end(), {"--state", folder_});
        std::vector<const char*> arguments;
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const auto line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command) << line.text;
        if (!line.command) {
            return {};
        }
        return is_plan_command(line.command->name) ? plan_command(*line.command, false)
                                                   : money_command(*line.command, false);
    }

    std::string folder_;
};

TEST_F(ChargeCommands, UsageIsBookedUnderThePlanInUse) {
    EXPECT_EQ(run({"rate"}).err, "snapt: no price plan is in use: see `snapt plan use`\n");
    EXPECT_EQ(run({"plan", "use", "standard", "--from", "2026-11-01"}).out,
              "plan standard for all who have none of their own, of usage from "
              "2026-11-01T00:00:00Z on\n");
    EXPECT_EQ(run({"rate"}).out, "booked 1 record: 1 entry\n") << "late: one correction";
    EXPECT_EQ(run({"rate"}).out, "booked 0 records: 0 entries\n");
    EXPECT_EQ(run({"balance", "alice"}).out, "USER   ACCOUNT    BALANCE  ENTRIES\n"
                                             "alice        1  -0.009075        1\n");
    EXPECT_EQ(run({"verify"}).exit_code, report::kExitGood);
}

TEST_F(ChargeCommands, WhatWasBookedIsRatedAgain) {
    ASSERT_EQ(run({"plan", "use", "1", "--from", "2026-11-01"}).exit_code, report::kExitGood);
    ASSERT_EQ(run({"rate"}).exit_code, report::kExitGood);
    EXPECT_EQ(run({"rate", "--from", "2026-11-01"}).out,
              "booked 0 records: 0 entries\nrated again 0 charges: 0.000000 more\n");
    ASSERT_EQ(run({"plan", "use", "none", "--user", "alice", "--from", "2026-11-20"}).exit_code,
              report::kExitGood);
    const auto answer =
        JsonValue::parse(run({"rate", "--from", "2026-11-01", "--user", "alice", "--json"}).out);
    ASSERT_TRUE(answer);
    EXPECT_EQ((*answer)["rerated"]["charges"].integer(), 1);
    EXPECT_EQ((*answer)["rerated"]["net_ud"].integer(), -9'075);
    EXPECT_EQ(run({"rate", "--from", "2026-11-01", "--plan", "standard", "--rev", "1"}).out,
              "booked 0 records: 0 entries\nrated again 1 charge: 0.009075 more\n");
    EXPECT_EQ(run({"verify"}).exit_code, report::kExitGood);
}

// Those who log in meanwhile wait for the same lock.
TEST_F(ChargeCommands, OthersWriteBetweenTheTransactionsOfOneCommand) {
    ASSERT_EQ(run({"plan", "use", "1", "--from", "2026-11-01"}).exit_code, report::kExitGood);
    {
        auto database = open();
        ASSERT_TRUE(database.execute(
            "WITH RECURSIVE n(i) AS (SELECT 3 UNION ALL SELECT i+1 FROM n WHERE i<302) "
            "INSERT INTO account(account_id,user_id) SELECT i,'u'||i FROM n"));
        auto store = ledger::RecordStore::open(database).value();
        for (int64_t seq = 1; seq <= 300; ++seq) {
            flow::UsageRecord record;
            record.snapt_id = "zrh-1";
            record.epoch = 1;
            record.seq = seq;
            record.account_id = 2 + seq;
            record.user_id = "u" + std::to_string(record.account_id);
            record.t_end = kNoonUs;
            record.flags = flow::record_flag::kHasAccount;
            ASSERT_TRUE(store.insert(record));
        }
    }
    const auto took_at_least = [this](const std::vector<std::string>& words, int pauses) {
        const auto began = std::chrono::steady_clock::now();
        EXPECT_EQ(run(words).exit_code, report::kExitGood);
        return std::chrono::steady_clock::now() - began >= pauses * store::kBetweenTransactions;
    };
    EXPECT_TRUE(took_at_least({"rate"}, 3)) << "301 accounts, 100 a transaction";
    ASSERT_EQ(run({"plan", "use", "none", "--from", "2026-11-01"}).exit_code, report::kExitGood);
    EXPECT_TRUE(took_at_least({"rate", "--from", "2026-11-01"}, 1)) << "301 charges, 200 at a time";
}

TEST_F(ChargeCommands, AStatementTellsTheMonth) {
    ASSERT_EQ(run({"plan", "use", "standard", "--from", "2026-11-01"}).exit_code,
              report::kExitGood);
    auto database = open();
    accounting::UsageBooker booker(database);
    while (booker.step(kNoonUs + 1, accounting::kBookAll)->has_more) {
    }
    store::MoneyEntry entry;
    entry.account_id = 1;
    entry.user_id = "alice";
    entry.kind = store::EntryKind::Topup;
    entry.amount_ud = 1'000'000;
    entry.at_us = kNoonUs;
    entry.ref = "INV-1";
    ASSERT_TRUE(store::book(database, entry));
    EXPECT_EQ(run({"statement", "alice", "--month", "2026-11"}).out,
              "statement of alice (account 1), 2026-11, UTC\n\n"
              "CLASS  PAYLOAD UP  PAYLOAD DOWN     SAVED     GROSS  DISCOUNT       NET\n"
              "ht-hd         0 B      2.38 MiB  1.11 MiB  0.018149  0.009074  0.009075\n"
              "all           0 B      2.38 MiB  1.11 MiB  0.018149  0.009074  0.009075\n\n"
              "BOOKED                   AMOUNT  WHAT      REFERENCE  NOTE\n"
              "                       0.000000  before\n"
              "                      -0.018149  usage\n"
              "                       0.009074  discount\n"
              "2026-11-20T12:00:00Z   1.000000  payment   INV-1\n"
              "                       0.990925  after\n");
    const auto answer =
        JsonValue::parse(run({"statement", "alice", "--month", "2026-11", "--json"}).out);
    ASSERT_TRUE(answer);
    EXPECT_EQ((*answer)["closing_ud"].integer(), 990'925);
    EXPECT_TRUE(run({"statement", "alice", "--month", "2026-11", "--page"})
                    .out.starts_with("<!DOCTYPE html>"));
    EXPECT_EQ(run({"statement", "alice"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"statement", "carol", "--month", "2026-11"}).err,
              "snapt: carol: no such user\n");
    EXPECT_EQ(run({"statement", "alice", "--month", "november"}).exit_code, report::kExitError);
}

TEST_F(ChargeCommands, WhatCannotBeMeantIsRefused) {
    EXPECT_EQ(run({"plan", "use", "nothing"}).exit_code, report::kExitError);
    EXPECT_EQ(run({"plan", "use", "default"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"plan", "use", "standard", "--user", "carol"}).err,
              "snapt: carol: no such user\n");
    EXPECT_EQ(run({"plan", "use", "standard", "--from", "yesterday"}).exit_code,
              report::kExitUsage);
    ASSERT_EQ(run({"plan", "use", "standard"}).exit_code, report::kExitGood);
    EXPECT_EQ(run({"rate", "--user", "alice"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"rate", "--plan", "standard"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"rate", "--from", "2026-11-01", "--plan-file", "x"}).exit_code,
              report::kExitUsage);
    EXPECT_EQ(run({"topup", "alice", "1", "--ref", "u:1"}).exit_code, report::kExitUsage)
        << "it would keep usage from being booked";
}

}  // namespace
}  // namespace continuo::snapt::commands
