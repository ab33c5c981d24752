#include "common/report/json_value.hpp"
#include "snapt/accounting/quota.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/quota_commands.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/record_store.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using accounting::QuotaUse;
using report::CommandOutput;
using report::JsonValue;

// 2026-12-01 00:00:00 UTC, an hour later than in Zurich
constexpr int64_t kDecemberUs = 1'796'083'200'000'000;
constexpr int64_t kHourUs = 3'600'000'000;

class QuotaCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-quota-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        auto database = open();
        ASSERT_TRUE(database.execute(
            "INSERT INTO account(account_id,user_id) VALUES(1,'alice'),(2,'bob');"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,1),"
            "('bob',0,0,2)"));
        auto store = ledger::RecordStore::open(database).value();
        for (int64_t hour = -48; hour < 3; ++hour) {  // the last ends three hours into December
            flow::UsageRecord record;
            record.snapt_id = "zrh-1";
            record.epoch = 1;
            record.seq = hour + 48;
            record.user_id = "alice";
            record.account_id = 1;
            record.t_end = kDecemberUs + (hour + 1) * kHourUs;
            record.t_start = record.t_end - kHourUs;
            record.pay_up = 1;
            record.pay_down = 999;
            record.flags = flow::record_flag::kHasAccount;
            ASSERT_TRUE(store.insert(record));
        }
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
        EXPECT_TRUE(line.command && is_quota_command(line.command->name)) << line.text;
        return line.command ? quota_command(*line.command, false) : CommandOutput{};
    }
    QuotaUse use(int64_t now_us) const {
        auto database = open();
        const auto uses = accounting::quota_uses(database, "alice", now_us);
        EXPECT_TRUE(uses && uses->size() == 1U);
        EXPECT_FALSE(database.in_transaction());
        return uses && !uses->empty() ? uses->front() : QuotaUse{};
    }

    std::string folder_;
};

TEST_F(QuotaCommands, UsedIsThePayloadOfThePeriodInTheZone) {
    EXPECT_EQ(run({"quota", "set", "alice", "10kB/month"}).out, "quota of alice: 10kB/month\n");
    EXPECT_EQ(use(kDecemberUs + 4 * kHourUs).used_bytes, 3000);
    EXPECT_EQ(use(kDecemberUs - 1).used_bytes, 51'000) << "November's, and what came after";
    ASSERT_EQ(run({"quota", "set", "alice", "10kB/day", "--zone", "Europe/Zurich"}).exit_code,
              report::kExitGood);
    const QuotaUse day = use(kDecemberUs + 4 * kHourUs);
    EXPECT_EQ(day.terms.from_us, kDecemberUs - kHourUs);
    EXPECT_EQ(day.terms.until_us, kDecemberUs + 23 * kHourUs);
    EXPECT_EQ(day.used_bytes, 4000);
    EXPECT_EQ(day.terms.zone, "Europe/Zurich");
    ASSERT_EQ(run({"quota", "set", "alice", "1GiB/month"}).exit_code, report::kExitGood);
    EXPECT_EQ(use(kDecemberUs).terms.zone, "Europe/Zurich") << "it stays";
}

TEST_F(QuotaCommands, AreShownAndTakenAway) {
    EXPECT_EQ(run({"quota", "show"}).out, "no quotas\n");
    ASSERT_EQ(run({"quota", "set", "bob", "50GiB/month"}).exit_code, report::kExitGood);
    const auto answer = JsonValue::parse(run({"quota", "show", "--json"}).out);
    ASSERT_TRUE(answer);
    ASSERT_EQ(answer->items().size(), 1U);
    EXPECT_EQ(answer->items()[0].text("user"), "bob");
    EXPECT_EQ(answer->items()[0]["quota_bytes"].integer(), int64_t{50} << 30);
    EXPECT_EQ(answer->items()[0]["used_bytes"].integer(), 0);
    EXPECT_EQ(run({"quota", "show", "bob"}).out.substr(0, 4), "USER");
    const std::string csv = run({"quota", "show", "--csv"}).out;
    EXPECT_TRUE(csv.starts_with("user,account,quota_bytes,period,zone,from,until,used_bytes,"
                                "used_percent,credit_limit_ud,balance_ud,then\r\n"
                                "bob,2,53687091200,month,UTC,"))
        << csv;
    EXPECT_TRUE(csv.ends_with(",0,0,,0,notify\r\n")) << csv;
    ASSERT_EQ(run({"quota", "set", "bob", "none"}).out, "quota of bob: none\n");
    EXPECT_EQ(run({"quota", "show"}).out, "no quotas\n");
}

TEST_F(QuotaCommands, WhatHappensAtTheEndIsSaidWithAQuotaOrAlone) {
    EXPECT_EQ(run({"quota", "set", "alice", "5MB/day", "--then", "stop"}).out,
              "quota of alice: 5MB/day, then stop\n");
    EXPECT_EQ(use(kDecemberUs).terms.then.action, store::OnExhausted::Stop);
    EXPECT_EQ(run({"quota", "set", "alice", "--then", "throttle=1mbit", "--credit", "2.5"}).out,
              "quota of alice: then throttle=1mbit, credit 2.5\n");
    const accounting::AccountTerms terms = use(kDecemberUs).terms;
    EXPECT_EQ(terms.quota->bytes, 5'000'000) << "it stays";
    EXPECT_EQ(terms.then.bits_per_s, 1'000'000U);
    EXPECT_EQ(terms.credit_limit_ud, 2'500'000);
    EXPECT_EQ(terms.balance_ud, 0);
    ASSERT_EQ(run({"quota", "set", "alice", "none"}).exit_code, report::kExitGood);
    const auto answer = JsonValue::parse(run({"quota", "show", "alice", "--json"}).out);
    ASSERT_TRUE(answer && answer->items().size() == 1U) << "with a credit it is there";
    EXPECT_TRUE(answer->items()[0]["quota_bytes"].is_null());
    EXPECT_EQ(answer->items()[0]["credit_limit_ud"].integer(), 2'500'000);
    EXPECT_EQ(answer->items()[0].text("then"), "throttle=1000000");
    ASSERT_EQ(run({"quota", "set", "alice", "--credit", "none"}).exit_code, report::kExitGood);
    EXPECT_EQ(run({"quota", "show"}).out, "no quotas\n");
}

TEST_F(QuotaCommands, WhatCannotBeMeantIsRefused) {
    for (const auto& words : std::vector<std::vector<std::string>>{
             {"quota", "set", "alice"},
             {"quota", "set", "alice", "--then", "throttle"},
             {"quota", "set", "alice", "--then", "throttle=1kbit"},
             {"quota", "set", "alice", "--credit", "-1"}}) {
        EXPECT_EQ(run(words).exit_code, report::kExitUsage) << words.back();
    }
    EXPECT_EQ(run({"quota", "set", "alice", "much"}).exit_code, report::kExitUsage);
    EXPECT_EQ(run({"quota", "set", "carol", "1GB/day"}).err,
              "snapt: nothing is changed: no such user\n");
    EXPECT_EQ(run({"quota", "set", "alice", "1GB/day", "--zone", "Nowhere"}).exit_code,
              report::kExitError);
    EXPECT_EQ(run({"quota", "show"}).out, "no quotas\n");
}

}  // namespace
}  // namespace continuo::snapt::commands
