// The common part of both programs: the frame around their commands, the options that both have,
// and access to a running daemon.
#pragma once

#include "common/daemon/startup.hpp"
#include "common/report/check_report.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::daemon {

// --- Parts of a report::ProgramSpec
report::CommandSpec status_spec();
report::CommandSpec usage_spec();
// `options` name the files when there is no argument.
report::CommandSpec check_spec(std::vector<report::OptionSpec> options);
// --socket and --json
std::vector<report::OptionSpec> common_options();
// Adds --wide and --watch, of commands that show tables.
report::CommandSpec shown_as_table(report::CommandSpec command);

struct DefaultPaths {
    std::string_view config;
    std::string_view socket;
    std::string_view state;
};
RunOptions run_options(const report::ParsedCommand& command, const DefaultPaths& defaults);

// Parses `arguments` (without the program's name), lets `run` execute the command and prints its
// output. Handles --version. Returns the exit code.
using RunCommand = std::function<report::CommandOutput(const report::ParsedCommand& command)>;
int run_program(const report::ProgramSpec& program,
                std::span<const char* const> arguments,
                const RunCommand& run);

// --watch [S]: repeats the command with a pause of S seconds until its output is no longer read.
// Returns the exit code; one that is neither success nor an alarm ends it in the first turn.
// run_program() clears the screen before each turn, if stdout is a terminal, and cuts what does not
// fit. The default is that of watch(1).
inline constexpr base::Duration kWatchPause = base::seconds(2);
struct Watch {
    std::function<report::CommandOutput()> run;
    // Shows one turn; false when the output is no longer read.
    std::function<bool(const report::CommandOutput& output)> show;
    std::function<void(base::Duration pause)> pause;
};
int watch(std::string_view program, const report::ParsedCommand& command, const Watch& calls);

// `run`: `run_daemon` returns the exit code. Not called where the host cannot run a daemon.
report::CommandOutput run_command(std::string_view program, const std::function<int()>& run_daemon);

// `check`: reads the files and has each checked.
report::CommandOutput check_command(std::span<const std::string> files,
                                    const report::ParsedCommand& command,
                                    const report::CheckText& check);

// The daemon behind `socket`, for commands of `program`.
report::DaemonAccess access_to(std::string_view program, const std::string& socket);
// Whether stdout is one: tables then have colours.
bool is_stdout_terminal();
// Width for tables: with --wide any; else that of the terminal, or COLUMNS where stdout is none.
size_t table_columns(const report::ParsedCommand& command);

struct AskTexts {
    report::RenderAnswer status;
    // Runs a command that is not common to both programs; gets the command's name.
    std::function<std::string(const std::string& name, const report::JsonValue& answer)> other;
    report::ParseTime parse_time_us;
    size_t columns = report::kAnyWidth;
};
// `status`, `usage`, `reload`, and plain requests of other names.
report::CommandOutput ask_command(const report::DaemonAccess& access,
                                  const report::ParsedCommand& command,
                                  bool is_terminal,
                                  const AskTexts& texts);

}  // namespace continuo::daemon
