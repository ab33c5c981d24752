#include "common/report/json_value.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/money_commands.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/store/database.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using report::CommandOutput;
using report::JsonValue;

class MoneyCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-money-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        change("INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
               "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
               "('bob',0,0,2)");
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void change(const char* sql) const {
        auto database = store::Database::open(folder_ + "/" + store::kLedgerFileName,
                                              store::OpenMode::ReadWrite);
        ASSERT_TRUE(database && database->execute(sql)) << sql;
    }
    CommandOutput run(std::vector<std::string> words) const {
        words.insert(words.end(), {"--state", folder_});
        std::vector<const char*> arguments;
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const auto line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command && is_money_command(line.command->name)) << line.text;
        return line.command ? money_command(*line.command, false) : CommandOutput{};
    }

    std::string folder_;
};

TEST_F(MoneyCommands, APaymentIsBookedOnceForItsReference) {
    EXPECT_EQ(run({"topup", "alice", "50", "--ref", "INV-17"}).out,
              "booked 50.000000 for alice (INV-17); balance 50.000000\n");
    EXPECT_EQ(run({"topup", "alice", "50.0", "--ref", "INV-17"}).out,
              "booked before: 50.000000 for alice (INV-17); balance 50.000000\n");
    const CommandOutput other = run({"topup", "alice", "60", "--ref", "INV-17"});
    EXPECT_EQ(other.exit_code, report::kExitError);
    EXPECT_EQ(other.err, "snapt: nothing is booked: another entry has this reference already\n");
    EXPECT_EQ(run({"balance", "alice"}).out, "USER   ACCOUNT    BALANCE  ENTRIES\n"
                                             "alice        1  50.000000        1\n");
    EXPECT_EQ(run({"balance", "--csv"}).out, "user,account,removed,balance_ud,entries\r\n"
                                             "alice,1,,50000000,1\r\nbob,2,,0,0\r\n");
}

TEST_F(MoneyCommands, ACorrectionGoesEitherWay) {
    EXPECT_EQ(run({"adjust", "bob", "--debit", "0.25", "--ref", "c-1", "--note", "late fee"}).out,
              "booked -0.250000 for bob (c-1); balance -0.250000\n");
    EXPECT_EQ(run({"adjust", "bob", "--credit", "1", "--ref", "c-2"}).out,
              "booked 1.000000 for bob (c-2); balance 0.750000\n");
    const auto answer = JsonValue::parse(run({"balance", "--json"}).out);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->items().size(), 2U);
    EXPECT_EQ(answer->items()[0].text("user"), "alice");
    EXPECT_EQ(answer->items()[0]["balance_ud"].integer(), 0);
    EXPECT_EQ(answer->items()[1]["balance_ud"].integer(), 750'000);
    EXPECT_EQ(answer->items()[1]["entries"].integer(), 2);
}

TEST_F(MoneyCommands, ARemovedUsersAccountIsNamedByItsNumber) {
    ASSERT_EQ(run({"topup", "alice", "50", "--ref", "INV-17"}).exit_code, report::kExitGood);
    change("UPDATE account SET removed=1795176000000000 WHERE account_id=1;"
           "INSERT INTO account(account_id,user_id) VALUES(3,'alice');"
           "UPDATE user SET account_id=3 WHERE user_id='alice'");
    EXPECT_EQ(run({"adjust", "alice", "--debit", "50", "--ref", "back", "--account", "1"}).out,
              "booked -50.000000 for alice (back); balance 0.000000\n");
    EXPECT_EQ(run({"topup", "alice", "2", "--ref", "new"}).out,
              "booked 2.000000 for alice (new); balance 2.000000\n");
    EXPECT_EQ(run({"balance", "alice"}).out,
              "USER                        ACCOUNT   BALANCE  ENTRIES\n"
              "alice (removed 2026-11-20)        1  0.000000        2\n"
              "alice                             3  2.000000        1\n");
    const auto answer = JsonValue::parse(run({"balance", "alice", "--json"}).out);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->items()[0].text("removed"), "2026-11-20");
    EXPECT_EQ(answer->items()[0]["account"].integer(), 1);
    EXPECT_EQ(run({"topup", "bob", "1", "--ref", "x", "--account", "1"}).err,
              "snapt: nothing is booked: no such account of this user\n");
    EXPECT_EQ(run({"topup", "bob", "1", "--ref", "x", "--account", "0"}).exit_code,
              report::kExitUsage);
}

TEST_F(MoneyCommands, WhatIsWrongIsSaidAndNotBooked) {
    const auto told = [&](std::vector<std::string> words, int exit_code) {
        const CommandOutput output = run(std::move(words));
        EXPECT_EQ(output.exit_code, exit_code) << output.err;
        return output.err;
    };
    EXPECT_EQ(told({"topup", "alice", "50"}, report::kExitUsage).find("snapt: --ref is missing"),
              0U);
    EXPECT_EQ(told({"topup", "alice", "0", "--ref", "r"}, report::kExitUsage)
                  .find("snapt: amount \"0\"; expected denarii"),
              0U);
    EXPECT_EQ(told({"adjust", "alice", "--ref", "r"}, report::kExitUsage),
              "snapt: name one of --credit and --debit\n");
    EXPECT_EQ(told({"adjust", "alice", "--ref", "r", "--credit", "1", "--debit", "1"},
                   report::kExitUsage),
              "snapt: name one of --credit and --debit\n");
    EXPECT_EQ(told({"topup", "carol", "5", "--ref", "r"}, report::kExitError),
              "snapt: nothing is booked: no such user\n");
    EXPECT_EQ(told({"balance", "carol"}, report::kExitError), "snapt: carol: no such user\n");
    EXPECT_EQ(run({"balance", "alice"}).out, "USER   ACCOUNT   BALANCE  ENTRIES\n"
                                             "alice        1  0.000000        0\n");
}

TEST_F(MoneyCommands, VerifyFailsWhenAnEntryWasChanged) {
    ASSERT_EQ(run({"topup", "alice", "50", "--ref", "INV-17"}).exit_code, report::kExitGood);
    const CommandOutput good = run({"verify"});
    EXPECT_EQ(good.exit_code, report::kExitGood);
    EXPECT_EQ(good.out, "ok    records: 0 as they were written\n"
                        "ok    sequence: no hole\n"
                        "ok    plans: 0 revisions as they were added\n"
                        "ok    entries: 1 as they were booked\n"
                        "ok    balances: 1 accounts, each the sum of entries\n"
                        "ok    charges: 0 as their records make them\n"
                        "ok    sums: 0 days, as their records and charges make them\n");
    change("DROP TRIGGER ledger_is_not_changed; UPDATE ledger SET amount_ud=90000000");
    const CommandOutput bad = run({"verify", "--json"});
    EXPECT_EQ(bad.exit_code, report::kExitError);
    const auto answer = JsonValue::parse(bad.out);
    ASSERT_TRUE(answer);
    EXPECT_EQ((*answer)["good"].boolean(), false);
    EXPECT_EQ((*answer)["checks"].items()[3]["good"].boolean(), false);
}

}  // namespace
}  // namespace continuo::snapt::commands
