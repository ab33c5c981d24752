#include "snapt/cli.hpp"

#include "common/base/version.hpp"
#include "common/io/file.hpp"
#include "common/io/preflight.hpp"
#include "common/io/unix_server.hpp"
#include "common/report/check_report.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/time_zone.hpp"
#include "snapt/app.hpp"

#include <cstdio>
#include <cstring>
#include <system_error>
#include <thread>

#include <unistd.h>

namespace continuo::snapt {

using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxCheckedFiles = 256;

CommandOutput run_daemon_command(const ParsedCommand& command) {
    CommandOutput output;
    const std::string missing = io::missing_for_tun();
    if (!missing.empty()) {
        output.err = "snapt: " + missing + "\n";
        output.exit_code = report::kExitError;
        return output;
    }
    RunOptions options;
    options.config = command.value_or("--config", kDefaultConfig);
    options.socket = command.value_or("--socket", kDefaultSocket);
    options.state = command.value_or("--state", kDefaultState);
    options.verbose = command.has("--verbose");
    output.exit_code = run_daemon(options);
    return output;
}

report::FileText read_text(const std::string& path) {
    report::FileText result;
    auto text = io::read_file(path, kMaxFileBytes);
    if (text) {
        result.text = std::move(*text);
    } else if (text.error().sys_errno != 0) {
        result.failure = std::generic_category().message(text.error().sys_errno);
    } else {
        result.failure = base::to_string(text.error().code);
    }
    return result;
}

CommandOutput check_command(const ParsedCommand& command) {
    std::vector<std::string> files = command.arguments;
    if (files.empty()) {
        files.push_back(command.value_or("--config", kDefaultConfig));
    }
    report::CheckReport checked =
        report::check_files(files, command.has("--json"), read_text,
                            [](std::string_view text, const std::string& file) {
                                return parse_snapt_config(text, file).diagnostics;
                            });
    return {std::move(checked.out), std::move(checked.err), checked.exit_code};
}

report::DaemonAccess access_to(const std::string& socket) {
    report::DaemonAccess access;
    access.program = "snapt";
    access.socket = socket;
    access.request = [socket](std::string_view line, base::Duration timeout) {
        return io::unix_request(socket, line, timeout);
    };
    access.now = [] { return std::chrono::steady_clock::now(); };
    access.pause = [](base::Duration span) { std::this_thread::sleep_for(span); };
    return access;
}

std::optional<int64_t> parse_time_us(const std::string& text, const std::string& zone) {
    const auto loaded = TimeZone::load(zone);
    return loaded ? loaded->parse_time_us(text) : std::nullopt;
}

std::vector<report::OptionSpec> user_options(std::vector<report::OptionSpec> more = {}) {
    std::vector<report::OptionSpec> options = std::move(more);
    options.push_back({"--config", "F", OptionValue::Required});
    options.push_back({"--state", "DIR", OptionValue::Required});
    return options;
}

std::vector<report::CommandSpec> commands() {
    const std::vector<report::OptionSpec> usage = {{"--by", "KEY,...", OptionValue::Required, true},
                                                   {"--from", "TIME", OptionValue::Required},
                                                   {"--to", "TIME", OptionValue::Required},
                                                   {"--zone", "ZONE", OptionValue::Required},
                                                   {"--user", "NAME", OptionValue::Required}};
    return {
        {"init", "", 0, 0,
         user_options({{"--name", "NAME", OptionValue::Required},
                       {"--public", "ADDRESS:PORT,...", OptionValue::Required, true}})},
        {"run", "", 0, 0, user_options({{"--verbose", "", OptionValue::None}})},
        {"user add", "NAME", 1, 1,
         user_options({{"--quota", "Q", OptionValue::Required},
                       {"--key", "BASE64", OptionValue::Required}})},
        {"user list", "", 0, 0, user_options()},
        {"user disable", "NAME", 1, 1, user_options()},
        {"user enable", "NAME", 1, 1, user_options()},
        {"user rotate", "NAME", 1, 1, user_options()},
        {"user remove", "NAME", 1, 1, user_options()},
        {"status",
         "",
         0,
         0,
         {{"--wait", "STATE", OptionValue::Optional}, {"--timeout", "S", OptionValue::Required}}},
        {"sessions", "", 0, 0, {}},
        {"flows", "", 0, 0, {}},
        {"usage", "", 0, 0, usage},
        {"check", "[F...]", 0, kMaxCheckedFiles, {{"--config", "F", OptionValue::Required}}},
        {"reload", "", 0, 0, {}}};
}

}  // namespace

const report::ProgramSpec& program_spec() {
    static const report::ProgramSpec program = {
        "snapt",
        commands(),
        {{"--socket", "PATH", OptionValue::Required}, {"--json", "", OptionValue::None}}};
    return program;
}

CommandOutput
ask_command(const report::DaemonAccess& access, const ParsedCommand& command, bool is_terminal) {
    const bool as_json = command.has("--json");
    const auto ask = [&](std::string_view request, base::Duration timeout, auto render) {
        return report::ask_daemon(access, request, timeout, as_json, render);
    };
    const std::string& name = command.name;
    if (name == "status") {
        const auto render = [&](const JsonValue& json) { return status_text(json, is_terminal); };
        return report::status_command(access, command, as_json, render);
    }
    if (name == "usage") {
        std::string failure;
        const auto request = report::usage_request(command, parse_time_us, failure);
        if (!request) {
            return {"", "snapt: " + failure + "\n", report::kExitUsage};
        }
        return ask(*request, report::kUsageTimeout, [&](const JsonValue& json) {
            return report::usage_report_text(json, is_terminal);
        });
    }
    if (name == "reload") {
        return ask(report::plain_request(name), report::kAnswerTimeout, report::reload_text);
    }
    return ask(report::plain_request(name), report::kAnswerTimeout, [&](const JsonValue& json) {
        return name == "flows" ? report::flows_text(json, true, is_terminal)
                               : sessions_text(json, is_terminal);
    });
}

int run_program(std::span<const char* const> arguments) {
    if (arguments.size() == 1 && std::strcmp(arguments[0], "--version") == 0) {
        std::printf("snapt %s\n", std::string(base::kVersion).c_str());
        return report::kExitGood;
    }
    const report::CommandLine line = report::parse_command_line(program_spec(), arguments);
    if (!line.command) {
        std::fputs(line.text.c_str(), line.exit_code == report::kExitGood ? stdout : stderr);
        return line.exit_code;
    }
    const ParsedCommand& command = *line.command;
    const auto access = access_to(command.value_or("--socket", kDefaultSocket));
    const bool is_terminal = isatty(STDOUT_FILENO) == 1;
    CommandOutput output;
    if (command.name == "run") {
        output = run_daemon_command(command);
    } else if (command.name == "check") {
        output = check_command(command);
    } else if (command.name == "init") {
        output = init_command(command);
    } else if (command.name.starts_with("user ")) {
        output = user_command(access, command, is_terminal);
    } else {
        output = ask_command(access, command, is_terminal);
    }
    std::fputs(output.err.c_str(), stderr);
    const bool is_printed = std::fputs(output.out.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
    return is_printed ? output.exit_code : report::kExitError;
}

std::string status_text(const JsonValue& status, bool is_terminal) {
    const uint64_t uptime_s = status["uptime_s"].unsigned_integer().value_or(0);
    std::string text = "snapt " + report::cell(status["version"]) + "  " +
                       report::cell(status["name"]) + "  " +
                       report::state_word(status.text("state", "unknown"), is_terminal) +
                       "  up for " + report::format_uptime(uptime_s) + "\n";
    text += "sessions  " + report::count_cell(status["sessions"]) + "\n";
    text += "flows     " + report::count_cell(status["flows"]) + "\n";
    const JsonValue& ledger = status["ledger"];
    if (ledger.is_object()) {
        text += "ledger    epoch " + report::cell(ledger["epoch"]) + ", " +
                report::count_cell(ledger["records"]) + " records, " +
                report::count_cell(ledger["live_slots_in_use"]) + " of " +
                report::count_cell(ledger["live_slots"]) + " slots in use, " +
                report::count_cell(ledger["failed_seals"]) + " failed seals\n";
    } else {
        text += "ledger    off\n";
    }
    text += "deny      " + report::list_cell(status["deny"]) + "\n\n";
    text += report::classes_text(status["classes"], is_terminal) + "\n";
    text += report::drops_text(status["drops"]);
    return text + report::io_text(status["io"]);
}

std::string sessions_text(const JsonValue& sessions, bool is_terminal) {
    Table table({{"USER"},
                 {"NODE"},
                 {"FROM"},
                 {"BY"},
                 {"RTT", Align::Right},
                 {"HANDOVERS", Align::Right},
                 {"INNER IPV4"},
                 {"INNER IPV6"},
                 {"UP", Align::Right},
                 {"DOWN", Align::Right},
                 {"SAVED", Align::Right},
                 {"FLOWS", Align::Right}});
    for (const JsonValue& session : sessions.items()) {
        table.add_row(
            {report::cell(session["user"]), report::cell(session["node"]),
             report::cell(session["from"]), report::cell(session["transport"]),
             report::milliseconds_cell(session["rtt_ms"]), report::count_cell(session["handovers"]),
             report::cell(session["inner_ipv4"]), report::cell(session["inner_ipv6"]),
             report::bytes_cell(session["up_bytes"]), report::bytes_cell(session["down_bytes"]),
             report::percent_cell(session["saved_percent"]), report::count_cell(session["flows"])});
    }
    return table.rows() == 0 ? "no sessions\n" : table.render(is_terminal);
}

std::string users_text(const JsonValue& users, bool is_terminal) {
    Table table({{"USER"}, {"STATE"}, {"KEYS"}, {"QUOTA", Align::Right}, {"SINCE"}});
    for (const JsonValue& user : users.items()) {
        const bool is_disabled = user["disabled"].boolean().value_or(false);
        const std::string quota = user["quota_bytes"].is_null()
                                      ? "none"
                                      : report::bytes_cell(user["quota_bytes"]) + "/" +
                                            report::cell(user["quota_period"]);
        const int64_t created_us = user["created"].integer().value_or(0) * 1'000'000;
        table.add_row({report::cell(user["user"]), is_disabled ? "disabled" : "enabled",
                       report::list_cell(user["keys"]), quota, TimeZone::utc().day(created_us)},
                      is_disabled ? report::Colour::Dim : report::Colour::None);
    }
    return table.rows() == 0 ? "no users\n" : table.render(is_terminal);
}

}  // namespace continuo::snapt
