#include "common/base/version.hpp"
#include "common/daemon/command_program.hpp"

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
