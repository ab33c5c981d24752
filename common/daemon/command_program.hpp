// The common part of the programs of both daemons: the frame around their commands, the options of
// the commands that both know, and how the commands reach a running daemon.
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
// `options` say where the files are when there is no argument.
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

// Parses `arguments` (without the program's name), has `run` do the command and prints what it
// gives. --version is answered here. Gives the exit code.
using RunCommand = std::function<report::CommandOutput(const report::ParsedCommand& command)>;
int run_program(const report::ProgramSpec& program,
                std::span<const char* const> arguments,
                const RunCommand& run);

// --watch [S]: runs the command again and again, with a pause of S seconds, until nobody takes what
// it shows. Gives the exit code; one that is neither good nor an alarm ends it in the first turn.
// run_program() clears the screen before each turn, if stdout is one, and cuts what does not fit.
// The default is that of watch(1).
inline constexpr base::Duration kWatchPause = base::seconds(2);
struct Watch {
    std::function<report::CommandOutput()> run;
    // Shows one turn; false when nobody takes it any more.
    std::function<bool(const report::CommandOutput& output)> show;
    std::function<void(base::Duration pause)> pause;
};
int watch(std::string_view program, const report::ParsedCommand& command, const Watch& calls);

// `run`: `run_daemon` gives the exit code. Not called where the host lacks what a daemon needs.
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
