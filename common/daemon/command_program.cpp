#include "common/daemon/command_program.hpp"

#include "common/base/version.hpp"
#include "common/host/preflight.hpp"
#include "common/host/unix_server.hpp"
#include "common/io/file.hpp"
#include "common/report/csv.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <thread>

#include <sys/ioctl.h>
#include <unistd.h>

namespace continuo::daemon {

using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;

namespace {

constexpr size_t kMaxCheckedFiles = 256;
constexpr size_t kUsualColumns = 80;  // where a terminal does not report its width
constexpr size_t kFewestColumns = 20;
// The shortest pause bounds the load on the daemon. A choice, not measured.
constexpr base::Duration kShortestWatchPause = base::milliseconds(100);
constexpr const char* kClearScreen = "\x1b[H\x1b[2J";

report::FileText read_text(const std::string& path) {
    report::FileText result;
    auto text = io::read_file(path, kMaxFileBytes);
    if (text) {
        result.text = std::move(*text);
    } else if (text.error().sys_errno != 0) {
        result.failure = std::generic_category().message(text.error().sys_errno);
    } else {
        result.failure = text.error().where;
    }
    return result;
}

// The size of the terminal that stdout is; zeros when it is none, or does not say.
winsize screen() {
    winsize size{};
    if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) {
        return {};
    }
    return size;
}

bool print(const CommandOutput& output, size_t most_lines) {
    std::fputs(report::safe_output(output.err).c_str(), stderr);
    const std::string out(report::first_lines(output.out, most_lines));
    return std::fputs(report::safe_output(out).c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

// Reports that the output could not be written: it may have been the only copy of a new key.
// SIGPIPE reports a reader that has gone.
bool is_told(std::string_view program, bool is_written) {
    if (!is_written) {
        const std::string reason = std::generic_category().message(errno);
        std::fputs((std::string(program) + ": cannot write the output: " + reason + "\n").c_str(),
                   stderr);
    }
    return is_written;
}

// An answer that a SNAPT did not give is missing in the values: that is said beside them.
std::string left_out_of(const std::string& program, const JsonValue& usage) {
    std::string text;
    for (const JsonValue& snapt : usage["snapts"].items()) {
        if (const std::string error = snapt.text("error"); !error.empty()) {
            text += program + ": not included: " + snapt.text("snapt") + " (" + error + ")\n";
        }
    }
    return text;
}

CommandOutput usage_command(const report::DaemonAccess& access,
                            const ParsedCommand& command,
                            bool is_terminal,
                            const AskTexts& texts) {
    std::string failure;
    const auto request = report::usage_request(command, texts.parse_time_us, failure);
    if (!request) {
        return {"", access.program + ": " + failure + "\n", report::kExitUsage};
    }
    std::string left_out;
    CommandOutput output = report::ask_daemon(
        access, *request, report::kUsageTimeout, command.has("--json"),
        [&](const JsonValue& usage) {
            if (!command.has("--csv")) {
                return report::usage_report_text(usage, is_terminal, texts.columns);
            }
            left_out = left_out_of(access.program, usage);
            return report::usage_csv(usage, report::list_values(command, "--by"));
        });
    output.err += left_out;
    return output;
}

// One turn on a cleared screen, if it is one.
bool print_turn(const CommandOutput& output) {
    const winsize size = screen();
    const bool is_terminal = is_stdout_terminal();
    if (is_terminal && std::fputs(kClearScreen, stdout) < 0) {
        return false;
    }
    const bool is_cut = is_terminal && size.ws_row > 1;
    return print(output, is_cut ? size.ws_row - 1U : SIZE_MAX);
}

}  // namespace

report::CommandSpec status_spec() {
    return shown_as_table({"status",
                           "",
                           0,
                           0,
                           {{"--wait",
                             "STATE",
                             OptionValue::Optional,
                             false,
                             {},
                             "wait until the state is STATE: up (default), degraded or down"},
                            {"--timeout",
                             "S",
                             OptionValue::Required,
                             false,
                             {},
                             "wait at most S seconds (default: 30)"}},
                           "state, sessions, traffic; exit code 2 unless up"});
}

report::CommandSpec usage_spec() {
    return shown_as_table(
        {"usage",
         "",
         0,
         0,
         {{"--by",
           "KEY,...",
           OptionValue::Required,
           true,
           {},
           "group by user, class, snapt, day, month or app"},
          {"--from",
           "TIME",
           OptionValue::Required,
           false,
           {},
           "from this time: 2026-11-01, 2026-11-01T12:00:00 or Unix seconds"},
          {"--to", "TIME", OptionValue::Required, false, {}, "until this time, in the same form"},
          {"--zone",
           "ZONE",
           OptionValue::Required,
           false,
           {},
           "time zone, such as Europe/Zurich (default: UTC)"},
          {"--user", "NAME", OptionValue::Required, false, {}, "only this user"},
          report::csv_option()},
         "traffic by user, class or day, from the records"});
}

report::CommandSpec check_spec(std::vector<report::OptionSpec> options) {
    return {"check",          "[F...]",           0,
            kMaxCheckedFiles, std::move(options), "look for errors in configuration files"};
}

std::vector<report::OptionSpec> common_options() {
    return {{"--socket", "PATH", OptionValue::Required}, {"--json", "", OptionValue::None}};
}

report::CommandSpec shown_as_table(report::CommandSpec command) {
    command.options.push_back(
        {"--wide", "", OptionValue::None, false, {}, "all columns, however wide the screen is"});
    command.options.push_back({"--watch",
                               "S",
                               OptionValue::Optional,
                               false,
                               {},
                               "repeat with a pause of S seconds (default: 2)"});
    return command;
}

RunOptions run_options(const ParsedCommand& command, const DefaultPaths& defaults) {
    return {command.value_or("--config", defaults.config),
            command.value_or("--socket", defaults.socket),
            command.value_or("--state", defaults.state), command.has("--verbose")};
}

int run_program(const report::ProgramSpec& program,
                std::span<const char* const> arguments,
                const RunCommand& run) {
    const auto show = [&](const CommandOutput& output) {
        const bool is_shown = is_told(program.name, print(output, SIZE_MAX));
        return is_shown ? output.exit_code : report::kExitError;
    };
    if (arguments.size() == 1 && std::string_view(arguments[0]) == "--version") {
        return show({std::string(program.name) + " " + std::string(base::kVersion) + "\n", "",
                     report::kExitGood});
    }
    const report::CommandLine line = report::parse_command_line(program, arguments);
    if (!line.command) {
        return line.exit_code == report::kExitGood ? show({line.text, "", line.exit_code})
                                                   : show({"", line.text, line.exit_code});
    }
    if (line.command->has("--csv") && line.command->has("--json")) {
        return show({"", std::string(program.name) + ": name one of --csv and --json\n",
                     report::kExitUsage});
    }
    if (line.command->has("--watch")) {
        return watch(
            program.name, *line.command,
            {[&] { return run(*line.command); },
             [&](const CommandOutput& output) { return is_told(program.name, print_turn(output)); },
             [](base::Duration pause) { std::this_thread::sleep_for(pause); }});
    }
    return show(run(*line.command));
}

int watch(std::string_view program, const ParsedCommand& command, const Watch& calls) {
    const std::string text = command.value_or("--watch", "");
    const auto pause = text.empty() ? std::optional(kWatchPause) : report::parse_timeout(text);
    if (!pause || *pause < kShortestWatchPause) {
        calls.show(
            {"",
             std::string(program) + ": --watch \"" + text + "\"; expected seconds, at least 0.1\n",
             report::kExitUsage});
        return report::kExitUsage;
    }
    bool is_first = true;
    for (;; calls.pause(*pause)) {
        const CommandOutput output = calls.run();
        const bool is_taken = calls.show(output);
        const bool is_good =
            output.exit_code == report::kExitGood || output.exit_code == report::kExitAlarm;
        if (!is_taken || (is_first && !is_good)) {
            return is_taken ? output.exit_code : report::kExitError;
        }
        is_first = false;
    }
}

CommandOutput run_command(std::string_view program, const std::function<int()>& run_daemon) {
    const std::string missing = host::missing_for_tun();
    if (!missing.empty()) {
        return {"", std::string(program) + ": " + missing + "\n", report::kExitError};
    }
    return {"", "", run_daemon()};
}

CommandOutput check_command(std::span<const std::string> files,
                            const ParsedCommand& command,
                            const report::CheckText& check) {
    report::CheckReport checked =
        report::check_files(files, command.has("--json"), read_text, check);
    return {std::move(checked.out), std::move(checked.err), checked.exit_code};
}

report::DaemonAccess access_to(std::string_view program, const std::string& socket) {
    report::DaemonAccess access;
    access.program = program;
    access.socket = socket;
    access.request = [socket](std::string_view line, base::Duration timeout) {
        return host::unix_request(socket, line, timeout);
    };
    access.now = [] { return std::chrono::steady_clock::now(); };
    access.pause = [](base::Duration span) { std::this_thread::sleep_for(span); };
    return access;
}

bool is_stdout_terminal() {
    return ::isatty(STDOUT_FILENO) == 1;
}

size_t table_columns(const ParsedCommand& command) {
    if (command.has("--wide")) {
        return report::kAnyWidth;
    }
    size_t columns = screen().ws_col;
    if (columns == 0) {
        const char* const told = std::getenv("COLUMNS");
        const std::string_view text = told == nullptr ? "" : told;
        static_cast<void>(std::from_chars(text.data(), text.data() + text.size(), columns));
    }
    if (columns == 0) {
        return is_stdout_terminal() ? kUsualColumns : report::kAnyWidth;
    }
    return std::max(columns, kFewestColumns);
}

CommandOutput ask_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          const AskTexts& texts) {
    const bool as_json = command.has("--json");
    const std::string& name = command.name;
    if (name == "status") {
        return report::status_command(access, command, as_json, texts.status);
    }
    if (name == "usage") {
        return usage_command(access, command, is_terminal, texts);
    }
    const auto render = [&](const JsonValue& json) {
        return name == "reload" ? report::reload_text(json) : texts.other(name, json);
    };
    return report::ask_daemon(access, report::plain_request(name), report::kAnswerTimeout, as_json,
                              render);
}

}  // namespace continuo::daemon
