#include "common/report/json_value.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/plan_commands.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/ledger/record_store.hpp"
#include "tests/unit/rating/plans.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using rating::tests::kShippedPlan;
using report::CommandOutput;
using report::JsonValue;

class PlanCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-plan-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    void make_ledger() {
        auto database = store::Database::open(folder_ + "/" + store::kLedgerFileName,
                                              store::OpenMode::ReadWrite);
        ASSERT_TRUE(database);
        auto store = ledger::RecordStore::open(*database);
        flow::UsageRecord record;  // the worked example
        record.snapt_id = "zrh-1";
        record.user_id = "alice";
        record.cls = static_cast<int64_t>(base::TrafficClass::HtHd);
        record.t_start = 1'795'176'000'000'000;
        record.t_end = record.t_start + 10'000'000;
        record.active_us = 10'000'000;
        record.pay_down = 2'500'000;
        record.pre = 2'580'000;
        record.post = 1'420'000;
        record.delay_us = 60'000;
        ASSERT_TRUE(store->insert(record));
    }
    std::string write_plan(const std::string& from, const std::string& to) {
        std::string text = rating::tests::text_of_file(kShippedPlan);
        const size_t at = text.find(from);
        EXPECT_NE(at, std::string::npos);
        text.replace(at, from.size(), to);
        std::ofstream(folder_ + "/plan.toml") << text;
        return folder_ + "/plan.toml";
    }
    CommandOutput run(std::vector<std::string> words) const {
        const bool is_check = words.size() > 1 && words[1] == "check";
        if (!is_check) {
            words.insert(words.end(), {"--state", folder_});
        }
        std::vector<const char*> arguments;
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const auto line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command && is_plan_command(line.command->name)) << line.text;
        return line.command ? plan_command(*line.command, false) : CommandOutput{};
    }
    static JsonValue json(const CommandOutput& output) {
        auto parsed = JsonValue::parse(output.out);
        EXPECT_TRUE(parsed) << output.out << output.err;
        return parsed ? std::move(*parsed) : JsonValue();
    }

    std::string folder_;
};

TEST_F(PlanCommands, CheckTellsWhatIsWrongAndWhere) {
    EXPECT_EQ(run({"plan", "check", kShippedPlan}).exit_code, report::kExitGood);
    const CommandOutput output = run({"plan", "check", write_plan("cap = 0.5", "cap = 5")});
    EXPECT_EQ(output.exit_code, report::kExitConfig);
    EXPECT_EQ(output.err, folder_ + "/plan.toml:16:7: error: \"cap\" is 5; expected a number from "
                                    "0 to 1\n");
}

TEST_F(PlanCommands, AddMakesARevisionAndShowTellsItsTerms) {
    make_ledger();
    EXPECT_EQ(run({"plan", "show"}).out, "no price plans\n");
    const CommandOutput added =
        run({"plan", "add", kShippedPlan, "--from", "2026-11-01", "--zone", "Asia/Kathmandu"});
    EXPECT_EQ(added.out, "added plan 1 standard, revision 1, valid from 2026-10-31T18:15:00Z\n");
    EXPECT_EQ(run({"plan", "add", kShippedPlan}).out,
              "nothing new: plan 1 standard, revision 1, valid from 2026-10-31T18:15:00Z\n");
    const CommandOutput later = run({"plan", "add", kShippedPlan, "--from", "2026-12-01"});
    EXPECT_EQ(later.exit_code, report::kExitError);
    EXPECT_NE(later.err.find("has this text, and is valid from 2026-10-31"), std::string::npos);
    const std::string dearer =
        write_plan("p_max_denarii_per_vu = 1.0", "p_max_denarii_per_vu = 2.0");
    EXPECT_EQ(json(run({"plan", "add", dearer, "--json"}))["revision"].integer(), 2);
    EXPECT_EQ(json(run({"plan", "show", "--json"})).items().size(), 2U);
    EXPECT_EQ(run({"plan", "show", "standard", "--toml"}).out, rating::tests::text_of_file(dearer));
    EXPECT_EQ(run({"plan", "show", "1", "--rev", "1", "--toml"}).out,
              rating::tests::text_of_file(kShippedPlan));
    const CommandOutput shown = run({"plan", "show", "1", "--rev", "1"});
    EXPECT_EQ(shown.out, "plan 1 standard, revision 1, valid from 2026-10-31T18:15:00Z\n"
                         "not calibrated: k_x, k_d and the amounts are placeholders\n"
                         "price     0 to 1 denarii/vu; a delay that was not measured is 100 ms\n"
                         "discount  0.25 denarii/MB of what was saved, at most 50 % of a charge\n"
                         "reward    0 % of that rate, to whose node carried it\n"
                         "\n"
                         "denarii for a MB at 50 ms:\n"
                         "CLASS  64 KBIT/S  1 MBIT/S  10 MBIT/S  K_X  K_D    KNOTS\n"
                         "lt-ld   0.055305  0.000000   0.000000   10  -10  15 x 16\n"
                         "ht-ld   0.645055  0.013903   0.004120  100  -10  15 x 16\n"
                         "lt-hd   0.026359  0.002223   0.000241   10    0  15 x 16\n"
                         "ht-hd   0.045335  0.012707   0.001743  100    0  15 x 16\n");
}

TEST_F(PlanCommands, RateComputesAndBooksNothing) {
    make_ledger();
    const JsonValue answer = json(
        run({"rate", "--dry-run", "--plan-file", kShippedPlan, "--by", "user,class", "--json"}));
    EXPECT_EQ(answer.text("plan"), "standard");
    EXPECT_TRUE(answer["revision"].is_null());
    const JsonValue& row = answer["usage"]["rows"].items().at(0);
    EXPECT_EQ(row.text("user"), "alice");
    EXPECT_EQ(row["gross_ud"].integer(), 18'149);
    EXPECT_EQ(row["discount_ud"].integer(), 9'074);
    EXPECT_EQ(row["net_ud"].integer(), 9'075);
    ASSERT_EQ(run({"plan", "add", kShippedPlan}).exit_code, report::kExitGood);
    const CommandOutput output = run({"rate", "--dry-run", "--plan", "standard", "--by", "user"});
    EXPECT_NE(output.out.find("0.018149  0.009074  0.009075  0.003630\n"), std::string::npos)
        << output.out;
}

TEST_F(PlanCommands, EachRefusalSaysWhatToDo) {
    const auto told = [&](std::vector<std::string> words, int exit_code) {
        const CommandOutput output = run(std::move(words));
        EXPECT_EQ(output.exit_code, exit_code) << output.err;
        EXPECT_EQ(output.out, "");
        return output.err;
    };
    EXPECT_EQ(told({"plan", "show"}, report::kExitError),
              "snapt: there is no " + folder_ +
                  "/ledger.db; run `snapt init` first, or name --state\n");
    make_ledger();
    EXPECT_EQ(told({"plan", "show", "standard"}, report::kExitError),
              "snapt: plan standard: no such price plan or revision\n");
    EXPECT_EQ(told({"plan", "show", "standard", "--rev", "0"}, report::kExitUsage),
              "snapt: --rev \"0\"; expected a number from 1\n");
    EXPECT_EQ(told({"plan", "add", folder_ + "/none.toml"}, report::kExitError),
              "snapt: cannot read " + folder_ + "/none.toml: No such file or directory\n");
    EXPECT_EQ(told({"plan", "add", kShippedPlan, "--from", "soon"}, report::kExitUsage)
                  .find("snapt: --from \"soon\"; expected a day"),
              0U);
    EXPECT_EQ(told({"rate", "--plan", "1"}, report::kExitUsage),
              "snapt: to rate again what was booked, say from when on: --from\n");
    EXPECT_EQ(told({"rate", "--dry-run"}, report::kExitUsage),
              "snapt: name the plan: --plan PLAN for one that was added, --plan-file F for a "
              "file\n");
    EXPECT_EQ(told({"plan", "add", write_plan("cap = 0.5", "cap = 5")}, report::kExitConfig)
                  .find(folder_ + "/plan.toml:16:7: error: \"cap\" is 5"),
              0U);
}

}  // namespace
}  // namespace continuo::snapt::commands
