#include "snapt/cli.hpp"

#include "common/daemon/command_program.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/time_zone.hpp"
#include "snapt/app.hpp"

namespace continuo::snapt {

using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

constexpr daemon::DefaultPaths kDefaults = {kDefaultConfig, kDefaultSocket, kDefaultState};

CommandOutput check_command(const ParsedCommand& command) {
    std::vector<std::string> files = command.arguments;
    if (files.empty()) {
        files.push_back(command.value_or("--config", kDefaultConfig));
    }
    return daemon::check_command(files, command,
                                 [](std::string_view text, const std::string& file) {
                                     return parse_snapt_config(text, file).diagnostics;
                                 });
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
    return {{"init", "", 0, 0,
             user_options({{"--name", "NAME", OptionValue::Required},
                           {"--public", "ADDRESS:PORT,...", OptionValue::Required, true}})},
            {"run", "", 0, 0, user_options({{"--verbose", "", OptionValue::None}})},
            {"user add", "NAME", 1, 1,
             user_options({{"--quota", "Q", OptionValue::Required},
                           {"--key-file", "F|-", OptionValue::Required},
                           {"--key", "", OptionValue::Optional, false,
                            "arguments can be read by every user of this host; write the key to a "
                            "file and give --key-file FILE, or --key-file - for standard input"}})},
            {"user list", "", 0, 0, user_options()},
            {"user disable", "NAME", 1, 1, user_options()},
            {"user enable", "NAME", 1, 1, user_options()},
            {"user rotate", "NAME", 1, 1, user_options()},
            {"user remove", "NAME", 1, 1, user_options()},
            daemon::status_spec(),
            {"sessions", "", 0, 0, {}},
            {"flows", "", 0, 0, {}},
            daemon::usage_spec(),
            daemon::check_spec({{"--config", "F", OptionValue::Required}}),
            {"reload", "", 0, 0, {}}};
}

}  // namespace

const report::ProgramSpec& program_spec() {
    static const report::ProgramSpec program = {"snapt", commands(), daemon::common_options()};
    return program;
}

CommandOutput
ask_command(const report::DaemonAccess& access, const ParsedCommand& command, bool is_terminal) {
    daemon::AskTexts texts;
    texts.status = [&](const JsonValue& json) { return status_text(json, is_terminal); };
    texts.other = [&](const std::string& name, const JsonValue& json) {
        return name == "flows" ? report::flows_text(json, true, is_terminal)
                               : sessions_text(json, is_terminal);
    };
    texts.parse_time_us = parse_time_us;
    return daemon::ask_command(access, command, is_terminal, texts);
}

int run_program(std::span<const char* const> arguments) {
    return daemon::run_program(program_spec(), arguments, [](const ParsedCommand& command) {
        if (command.name == "run") {
            const daemon::RunOptions options = daemon::run_options(command, kDefaults);
            return daemon::run_command("snapt", [&] { return run_daemon(options); });
        }
        if (command.name == "check") {
            return check_command(command);
        }
        if (command.name == "init") {
            return init_command(command);
        }
        const auto access =
            daemon::access_to("snapt", command.value_or("--socket", kDefaultSocket));
        const bool is_terminal = daemon::is_stdout_terminal();
        return command.name.starts_with("user ") ? user_command(access, command, is_terminal)
                                                 : ask_command(access, command, is_terminal);
    });
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
                report::count_cell(ledger["failed_seals"]) + " failed seals" +
                (ledger["coarse"].boolean().value_or(false)
                     ? ", disk nearly full: flows share records\n"
                     : "\n");
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
                 {"LOSS", Align::Right},
                 {"RATE", Align::Right},
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
             report::milliseconds_cell(session["rtt_ms"]), report::fraction_cell(session["loss"]),
             report::rate_cell(session["delivery_bits_per_s"]),
             report::count_cell(session["handovers"]), report::cell(session["inner_ipv4"]),
             report::cell(session["inner_ipv6"]), report::bytes_cell(session["up_bytes"]),
             report::bytes_cell(session["down_bytes"]),
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
