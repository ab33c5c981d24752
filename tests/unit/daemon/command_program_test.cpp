#include "common/base/version.hpp"
#include "common/daemon/command_program.hpp"

#include <cstdlib>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::daemon {
namespace {

using report::CommandOutput;
using report::JsonValue;
using report::ParsedCommand;

ParsedCommand command(std::string name,
                      std::vector<std::pair<std::string, std::string>> options = {}) {
    ParsedCommand made;
    made.name = std::move(name);
    made.options = std::move(options);
    return made;
}

const report::ProgramSpec& program() {
    static const report::ProgramSpec spec = {
        "prog", {status_spec(), usage_spec(), {"flows", "", 0, 0, {}}}, common_options()};
    return spec;
}

// Runs `arguments`, gives the exit code and what went to stdout and stderr.
struct Outcome {
    explicit Outcome(std::vector<const char*> arguments, const CommandOutput& output = {}) {
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        exit_code = run_program(program(), arguments, [&](const ParsedCommand& parsed) {
            name = parsed.name;
            return output;
        });
        out = testing::internal::GetCapturedStdout();
        err = testing::internal::GetCapturedStderr();
    }
    int exit_code = 0;
    std::string name;
    std::string out;
    std::string err;
};

TEST(RunProgram, PrintsWhatTheCommandGives) {
    const Outcome run({"flows"}, {"table\n", "note\n", 2});
    EXPECT_EQ(run.name, "flows");
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.out, "table\n");
    EXPECT_EQ(run.err, "note\n");
}

TEST(RunProgram, SaysItsVersionWithoutACommand) {
    const Outcome run({"--version"});
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.out, "prog " + std::string(base::kVersion) + "\n");
    EXPECT_EQ(run.name, "");
}

TEST(RunProgram, MistakesGoToStderrAndRunNothing) {
    const Outcome run({"fly"});
    EXPECT_EQ(run.exit_code, report::kExitUsage);
    EXPECT_EQ(run.out, "");
    EXPECT_NE(run.err, "");
    EXPECT_EQ(run.name, "");
}

TEST(RunProgram, IsGivenOneForm) {
    const Outcome run({"usage", "--json", "--csv"});
    EXPECT_EQ(run.exit_code, report::kExitUsage);
    EXPECT_EQ(run.err, "prog: name one of --csv and --json\n");
    EXPECT_EQ(run.name, "");
}

TEST(Options, HaveTheProgramsDefaults) {
    constexpr DefaultPaths kDefaults = {"c", "s", "d"};
    const RunOptions given =
        run_options(command("run", {{"--config", "x"}, {"--verbose", ""}}), kDefaults);
    EXPECT_EQ(given.config, "x");
    EXPECT_EQ(given.socket, "s");
    EXPECT_EQ(given.state, "d");
    EXPECT_TRUE(given.verbose);
    EXPECT_FALSE(run_options(command("run"), kDefaults).verbose);
}

TEST(Check, SaysWhyAFileCannotBeRead) {
    const std::vector<std::string> files = {"/nonexistent/file.toml"};
    const CommandOutput output =
        check_command(files, command("check"), [](std::string_view, const std::string&) {
            ADD_FAILURE() << "nothing to check";
            return std::vector<config::Diagnostic>{};
        });
    EXPECT_EQ(output.exit_code, report::kExitConfig);
    EXPECT_NE(output.err.find("/nonexistent/file.toml"), std::string::npos);
}

// The output of `--watch` until nobody takes it any more, and the pauses between.
struct Watched {
    explicit Watched(const std::string& seconds, std::vector<CommandOutput> outputs, size_t taken)
        : left(std::move(outputs)) {
        exit_code = watch("prog", command("flows", {{"--watch", seconds}}),
                          {[this] {
                               CommandOutput output = left.front();
                               left.erase(left.begin(), left.begin() + (left.size() > 1 ? 1 : 0));
                               return output;
                           },
                           [this, taken](const CommandOutput& output) {
                               shown.push_back(output.out + output.err);
                               return shown.size() < taken;
                           },
                           [this](base::Duration pause) { pauses.push_back(pause); }});
    }
    std::vector<CommandOutput> left;
    std::vector<std::string> shown;
    std::vector<base::Duration> pauses;
    int exit_code = 0;
};

TEST(Watch, ShowsAgainAndAgain) {
    const Watched watched("0.5", {{"a", "", 0}, {"b", "", report::kExitAlarm}, {"", "gone", 1}}, 4);
    EXPECT_EQ(watched.shown, (std::vector<std::string>{"a", "b", "gone", "gone"}))
        << "a daemon that is away may come back";
    EXPECT_EQ(watched.pauses, std::vector<base::Duration>(3, base::milliseconds(500)));
    EXPECT_EQ(Watched("", {{"a", "", 0}}, 2).pauses, std::vector<base::Duration>{kWatchPause});
}

TEST(Watch, EndsAtOnceWithWhatIsWrongFromTheStart) {
    const Watched absent("1", {{"", "no daemon", report::kExitError}}, 9);
    EXPECT_EQ(absent.exit_code, report::kExitError);
    EXPECT_EQ(absent.shown, std::vector<std::string>{"no daemon"});
    for (const char* wrong : {"soon", "0", "0.01", "-1"}) {
        const Watched mistake(wrong, {{"a", "", 0}}, 9);
        EXPECT_EQ(mistake.exit_code, report::kExitUsage) << wrong;
        ASSERT_EQ(mistake.shown.size(), 1U);
        EXPECT_NE(mistake.shown[0].find("--watch"), std::string::npos);
    }
}

TEST(TableColumns, AreAnyWithWideElseThoseOfTheEnvironment) {
    ::setenv("COLUMNS", "72", 1);  // stdout of a test may be a terminal, which says itself
    const size_t columns = table_columns(command("flows"));
    EXPECT_TRUE(columns == 72 || is_stdout_terminal());
    EXPECT_EQ(table_columns(command("flows", {{"--wide", ""}})), report::kAnyWidth);
    ::setenv("COLUMNS", "wide", 1);
    EXPECT_TRUE(table_columns(command("flows")) == report::kAnyWidth || is_stdout_terminal());
    ::unsetenv("COLUMNS");
}

// A daemon that answers `reply` to everything.
class Ask : public testing::Test {
  protected:
    CommandOutput ask(const ParsedCommand& parsed) {
        report::DaemonAccess access;
        access.program = "prog";
        access.request = [this](std::string_view line, base::Duration) {
            asked_ = line;
            return base::Result<std::string>(reply_);
        };
        AskTexts texts;
        texts.status = [](const JsonValue& json) { return "state " + json.text("state") + "\n"; };
        texts.other = [](const std::string& name, const JsonValue&) { return name + " text\n"; };
        texts.parse_time_us = [](const std::string&, const std::string&) {
            return std::optional<int64_t>();
        };
        return ask_command(access, parsed, false, texts);
    }
    std::string reply_ = "{}\n";
    std::string asked_;
};

TEST_F(Ask, StatusIsTheProgramsOwnText) {
    reply_ = "{\"state\":\"up\"}\n";
    EXPECT_EQ(ask(command("status")).out, "state up\n");
    EXPECT_EQ(asked_, R"({"command":"status"})");
}

TEST_F(Ask, OtherCommandsAreToldApartByName) {
    EXPECT_EQ(ask(command("flows")).out, "flows text\n");
    EXPECT_EQ(asked_, R"({"command":"flows"})");
}

TEST_F(Ask, ReloadTellsWhatNeedsARestart) {
    reply_ = R"({"applied":[],"needs_restart":["listen"]})";
    EXPECT_NE(ask(command("reload")).out.find("listen"), std::string::npos);
}

TEST_F(Ask, AWrongTimeIsAMistakeOfTheCallerAndNotAsked) {
    const CommandOutput output = ask(command("usage", {{"--from", "yesterday"}}));
    EXPECT_EQ(output.exit_code, report::kExitUsage);
    EXPECT_EQ(output.err.substr(0, 6), "prog: ");
    EXPECT_EQ(asked_, "");
}

}  // namespace
}  // namespace continuo::daemon
