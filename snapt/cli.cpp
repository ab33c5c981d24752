#include "snapt/cli.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/report/csv.hpp"
#include "common/report/flow_list.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/time_zone.hpp"
#include "snapt/app.hpp"
#include "snapt/check_files.hpp"
#include "snapt/doctor.hpp"
#include "snapt/live_commands.hpp"
#include "snapt/money_commands.hpp"
#include "snapt/plan_commands.hpp"
#include "snapt/quota_commands.hpp"
#include "snapt/record_commands.hpp"
#include "snapt/token_commands.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

namespace continuo::snapt {

using config::kMicroseconds;
using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

// Fields of sessions --csv.
constexpr std::array<std::string_view, 21> kSessionFields = {"user",          "node",
                                                             "session_id",    "from",
                                                             "transport",     "rtt_ms",
                                                             "loss",          "delivery_bits_per_s",
                                                             "up_bits_per_s", "down_bits_per_s",
                                                             "mtu",           "handovers",
                                                             "inner_ipv4",    "inner_ipv6",
                                                             "up_bytes",      "down_bytes",
                                                             "saved_percent", "since",
                                                             "heard_ms_ago",  "control_open",
                                                             "flows"};
constexpr uint8_t kEnoughFrom = 18;  // width at which that column is cut on a narrow screen
constexpr daemon::DefaultPaths kDefaults = {kDefaultConfig, kDefaultSocket, kDefaultState};

CommandOutput check_command(const ParsedCommand& command) {
    std::vector<std::string> files = command.arguments;
    if (files.empty()) {
        files.push_back(command.value_or("--config", kDefaultConfig));
    }
    return daemon::check_command(files, command, check_snapt_file);
}

std::optional<int64_t> parse_time_us(const std::string& text, const std::string& zone) {
    const auto loaded = TimeZone::load(zone);
    return loaded ? loaded->parse_time_us(text) : std::nullopt;
}

report::OptionSpec config_option() {
    return {"--config", "F", OptionValue::Required, false, {}, "configuration file"};
}

report::OptionSpec state_option() {
    return {"--state", "DIR", OptionValue::Required, false, {}, "state directory"};
}

constexpr int64_t kMaxShownS = 253'402'300'799;  // the end of 9999

// "2026-11-23 18:05", UTC.
std::string minute_cell(const JsonValue& time_s) {
    const auto seconds = time_s.integer();
    if (!seconds || *seconds < 0 || *seconds > kMaxShownS) {
        return std::string(report::kUnknown);
    }
    const auto two = [](int64_t number) {
        return std::string(number < 10 ? "0" : "") + std::to_string(number);
    };
    const int64_t minute = *seconds % 86'400 / 60;
    return TimeZone::utc().day(*seconds * kMicroseconds) + " " + two(minute / 60) + ":" +
           two(minute % 60);
}

std::vector<report::OptionSpec> user_options(std::vector<report::OptionSpec> more = {}) {
    std::vector<report::OptionSpec> options = std::move(more);
    options.push_back(config_option());
    options.push_back(state_option());
    return options;
}

report::OptionSpec device_option(std::string_view help) {
    return {"--device", "DEVICE", OptionValue::Required, false, {}, help};
}

// Options that select among a user's keys.
std::vector<report::OptionSpec> key_options() {
    return user_options({device_option("only the keys of this device"),
                         {"--key-id", "ID", OptionValue::Required, false, {}, "this key alone"}});
}

// Options of a new key, or of one taken over from another SNAPT.
std::vector<report::OptionSpec> new_key_options(std::string_view device_help,
                                                const report::OptionSpec& more) {
    return user_options({device_option(device_help),
                         more,
                         {"--key-file",
                          "F|-",
                          OptionValue::Required,
                          false,
                          {},
                          "cnapt.toml or key from another SNAPT; - for standard input"},
                         {"--key-id",
                          "ID",
                          OptionValue::Required,
                          false,
                          {},
                          "id of the key, if the file has only the key"},
                         {"--block",
                          "",
                          OptionValue::None,
                          false,
                          {},
                          "print only the [[snapt]] block of this SNAPT"},
                         {"--key", "", OptionValue::Optional, false,
                          "arguments can be read by every user of this host; write the key to a "
                          "file and give --key-file FILE, or --key-file - for standard input"}});
}

std::vector<report::CommandSpec> user_commands() {
    return {{"user add", "NAME", 1, 1,
             new_key_options("device that the key is for",
                             {"--quota",
                              "Q",
                              OptionValue::Required,
                              false,
                              {},
                              "bytes per day or month, such as 50GiB/month (see quota set)"}),
             "add a user or a key; prints a cnapt.toml"},
            daemon::shown_as_table(
                {"user list", "", 0, 0, user_options(), "users with state, keys and quota"}),
            {"user disable", "NAME", 1, 1, key_options(),
             "end the user's sessions and refuse new ones"},
            {"user enable", "NAME", 1, 1, key_options(), "let a disabled user in again"},
            {"user rotate", "NAME", 1, 1,
             new_key_options("device whose key is replaced",
                             {"--overlap",
                              "TIME",
                              OptionValue::Required,
                              false,
                              {},
                              "how long the old key stays valid, such as 24h"}),
             "replace the user's keys; prints a cnapt.toml"},
            {"user revoke", "NAME", 1, 1, key_options(), "end one of the user's keys for good"},
            {"user remove", "NAME", 1, 1, user_options(), "delete the user; usage records stay"}};
}

std::vector<report::CommandSpec> commands() {
    std::vector<report::CommandSpec> all = {
        {"init", "", 0, 0,
         user_options({{"--name",
                        "NAME",
                        OptionValue::Required,
                        false,
                        {},
                        "name of this SNAPT (default: the host name)"},
                       {"--public",
                        "HOST:PORT,...",
                        OptionValue::Required,
                        true,
                        {},
                        "addresses or a name at which nodes reach it"}}),
         "write a configuration and make the database"},
        {"run", "", 0, 0,
         user_options(
             {{"--verbose", "", OptionValue::None, false, {}, "log details for debugging"},
              {"--new-ledger", "", OptionValue::None, false, {}, "move a damaged database aside"}}),
         "run the daemon in the foreground"}};
    for (report::CommandSpec& command : user_commands()) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : std::vector<report::CommandSpec>{
             daemon::status_spec(),
             daemon::shown_as_table({"sessions",
                                     "",
                                     0,
                                     0,
                                     {report::csv_option()},
                                     "connected nodes: address, delay, rates"}),
             daemon::shown_as_table(report::flows_spec("--user")),
             daemon::usage_spec(),
             daemon::check_spec({config_option()}),
             doctor_spec(),
             {"reload", "", 0, 0, {}, "apply changes of the configuration"}}) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : live_commands()) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : plan_commands(state_option())) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : money_commands(state_option())) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : record_commands(state_option())) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : quota_commands(state_option())) {
        all.push_back(std::move(command));
    }
    for (report::CommandSpec& command : token_commands(config_option(), state_option())) {
        all.push_back(std::move(command));
    }
    return all;
}

// How long ago the node was heard; it may be gone if its control link is.
std::string heard_cell(const JsonValue& session) {
    const auto ms = session["heard_ms_ago"].number();
    if (!ms) {
        return std::string(report::kUnknown);
    }
    const auto seconds = static_cast<uint64_t>(*ms / 1000);
    const std::string text =
        seconds < 60 ? std::to_string(seconds) + " s ago" : report::format_uptime(seconds) + " ago";
    return session["control_open"].boolean().value_or(true) ? text : text + ", no control";
}

std::string forwarding_text(const JsonValue& status) {
    const std::string error = status.text("forwarding_error");
    if (error.empty()) {
        return "";
    }
    const bool names_version = error.starts_with("no way out");
    return (names_version ? "" : "packets of nodes do not pass: ") + error + "\n";
}

std::string drain_text(const JsonValue& drain) {
    if (!drain.is_object()) {
        return "";
    }
    return "draining  since " + minute_cell(drain["since"]) + " UTC, no new sessions and flows, " +
           report::count_cell(drain["flows"]) + " left" +
           (drain["ends_at"].is_null() ? "" : ", which end at " + minute_cell(drain["ends_at"])) +
           "\n";
}

// The latest write, its disk and its clock, where they are known.
std::string ledger_places_text(const JsonValue& ledger) {
    std::string text;
    const auto add = [&text](const std::string& part) {
        text += (text.empty() ? "\n          " : ", ") + part;
    };
    if (const auto age_s = ledger["last_commit_age_s"].unsigned_integer()) {
        add("written " + std::to_string(*age_s) + " s ago");
    }
    if (const auto free = ledger["disk_free_bytes"].unsigned_integer()) {
        add(report::format_bytes(*free) + " of disk free");
    }
    if (const auto is_synchronised = ledger["clock_synchronised"].boolean()) {
        add(*is_synchronised ? "clock synchronised" : "clock not synchronised");
    }
    if (const auto steps = ledger["clock_steps"].unsigned_integer(); steps.value_or(0) > 0) {
        add("set " + std::to_string(*steps) + (*steps == 1 ? " time" : " times"));
    }
    return text;
}

// The state of the ledger, with what is wrong with it.
std::string ledger_text(const JsonValue& ledger) {
    if (!ledger.is_object()) {
        return "ledger    off\n";
    }
    std::string text = "ledger    epoch " + report::cell(ledger["epoch"]) + ", " +
                       report::count_cell(ledger["records"]) + " records, " +
                       report::count_cell(ledger["live_slots_in_use"]) + " of " +
                       report::count_cell(ledger["live_slots"]) + " slots in use, " +
                       report::count_cell(ledger["failed_seals"]) + " failed seals";
    if (ledger["coarse"].boolean().value_or(false)) {
        text += ", disk nearly full: flows share records";
    }
    text += ledger_places_text(ledger);
    if (const std::string error = ledger.text("write_error"); !error.empty()) {
        text += "\n          cannot be written, " + error +
                ": nodes that log in are refused, usage records wait";
    }
    if (const std::string error = ledger.text("booking_error"); !error.empty()) {
        text += "\n          " + error;
    }
    return text + "\n";
}

}  // namespace

const report::ProgramSpec& program_spec() {
    static const report::ProgramSpec program = {"snapt", commands(), daemon::common_options()};
    return program;
}

CommandOutput ask_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          size_t columns) {
    if (command.name == "flows") {
        return report::flows_command(access, command, true, is_terminal, columns);
    }
    daemon::AskTexts texts;
    texts.columns = columns;
    texts.status = [&](const JsonValue& json) { return status_text(json, is_terminal, columns); };
    texts.other = [&](const std::string& /*name*/, const JsonValue& json) {
        return command.has("--csv") ? report::rows_csv(json.items(), kSessionFields)
                                    : sessions_text(json, is_terminal, columns);
    };
    texts.parse_time_us = parse_time_us;
    return daemon::ask_command(access, command, is_terminal, texts);
}

int run_program(std::span<const char* const> arguments) {
    return daemon::run_program(program_spec(), arguments, [](const ParsedCommand& command) {
        if (command.name == "run") {
            const daemon::RunOptions options = daemon::run_options(command, kDefaults);
            return daemon::run_command(
                "snapt", [&] { return run_daemon(options, command.has("--new-ledger")); });
        }
        if (command.name == "check") {
            return check_command(command);
        }
        if (command.name == "init") {
            return init_command(command);
        }
        const auto access =
            daemon::access_to("snapt", command.value_or("--socket", kDefaultSocket));
        if (command.name == "doctor") {
            return doctor_command(access, command);
        }
        const bool is_terminal = daemon::is_stdout_terminal();
        const size_t columns = daemon::table_columns(command);
        if (is_live_command(command.name)) {
            return live_command(access, command, is_terminal, columns);
        }
        if (is_plan_command(command.name)) {
            return plan_command(command, is_terminal, columns);
        }
        if (is_money_command(command.name)) {
            return money_command(command, is_terminal, columns);
        }
        if (is_quota_command(command.name)) {
            return quota_command(command, is_terminal, columns);
        }
        if (is_token_command(command.name)) {
            return token_command(command, is_terminal, columns);
        }
        if (is_record_command(command.name)) {
            const auto write = [](std::string_view text) {
                return std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
            };
            return record_command(command, write, is_terminal, columns);
        }
        return command.name.starts_with("user ")
                   ? user_command(access, command, is_terminal, columns)
                   : ask_command(access, command, is_terminal, columns);
    });
}

std::string status_text(const JsonValue& status, bool is_terminal, size_t columns) {
    constexpr size_t kIndent = 10;
    const uint64_t uptime_s = status["uptime_s"].unsigned_integer().value_or(0);
    std::string text = "snapt " + report::cell(status["version"]) + "  " +
                       report::cell(status["name"]) + "  " +
                       report::state_word(status.text("state", "unknown"), is_terminal) +
                       "  up for " + report::format_uptime(uptime_s) + "\n";
    text += "sessions  " + report::count_cell(status["sessions"]) + "\n";
    text += "flows     " + report::count_cell(status["flows"]) + "\n";
    text +=
        drain_text(status["draining"]) + forwarding_text(status) + ledger_text(status["ledger"]);
    text += "deny      " + report::list_cell(status["deny"]) + "\n\n";
    text = report::wrapped(text, columns, kIndent);
    text += report::traffic_text(status["traffic"], is_terminal, columns);
    text += "down, by class:\n";
    text += report::classes_text(status["classes"], is_terminal, columns) + "\n";
    text += report::drops_text(status["drops"], columns);
    return text + report::io_text(status["io"], columns);
}

std::string sessions_text(const JsonValue& sessions, bool is_terminal, size_t columns) {
    Table table({{"USER"},
                 {"NODE"},
                 {"FROM", Align::Left, 1, kEnoughFrom},
                 {"BY", Align::Left, 5},
                 {"RTT", Align::Right, 3},
                 {"LOSS", Align::Right, 6},
                 {"HEARD", Align::Right, 5},
                 {"UP RATE", Align::Right},
                 {"DOWN RATE", Align::Right},
                 {"RATE", Align::Right, 9},
                 {"HANDOVERS", Align::Right, 8},
                 {"INNER IPV4", Align::Left, 10},
                 {"INNER IPV6", Align::Left, 11},
                 {"UP", Align::Right, 2},
                 {"DOWN", Align::Right, 2},
                 {"SAVED", Align::Right, 7},
                 {"FLOWS", Align::Right, 4}});
    for (const JsonValue& session : sessions.items()) {
        table.add_row(
            {report::cell(session["user"]), report::cell(session["node"]),
             report::cell(session["from"]), report::cell(session["transport"]),
             report::milliseconds_cell(session["rtt_ms"]), report::fraction_cell(session["loss"]),
             heard_cell(session), report::rate_cell(session["up_bits_per_s"]),
             report::rate_cell(session["down_bits_per_s"]),
             report::rate_cell(session["delivery_bits_per_s"]),
             report::count_cell(session["handovers"]), report::cell(session["inner_ipv4"]),
             report::cell(session["inner_ipv6"]), report::bytes_cell(session["up_bytes"]),
             report::bytes_cell(session["down_bytes"]),
             report::percent_cell(session["saved_percent"]), report::count_cell(session["flows"])});
    }
    return table.rows() == 0 ? "no sessions\n" : table.render(is_terminal, columns);
}

// One row per key; a user without keys has a row, too.
std::string users_text(const JsonValue& users, bool is_terminal, size_t columns) {
    Table table({{"USER"},
                 {"STATE"},
                 {"KEY"},
                 {"DEVICE"},
                 {"LAST SEEN", Align::Left, 1},
                 {"QUOTA", Align::Right, 4},
                 {"SINCE", Align::Left, 3},
                 {"UNTIL", Align::Left, 2}});
    const auto add_row = [&](const JsonValue& user, const JsonValue& key) {
        const bool is_disabled =
            user["disabled"].boolean().value_or(false) || key["disabled"].boolean().value_or(false);
        const std::string quota = user["quota_bytes"].is_null()
                                      ? "none"
                                      : report::bytes_cell(user["quota_bytes"]) + "/" +
                                            report::cell(user["quota_period"]);
        const auto created_s = (key.is_object() ? key : user)["created"].integer().value_or(0);
        table.add_row({report::cell(user["user"]), is_disabled ? "disabled" : "enabled",
                       report::cell(key["key_id"]), report::cell(key["device"]),
                       minute_cell(key["last_seen"]), quota,
                       TimeZone::utc().day(std::min(created_s, kMaxShownS) * kMicroseconds),
                       key["expires"].is_null() ? "" : minute_cell(key["expires"])},
                      is_disabled ? report::Colour::Dim : report::Colour::None);
    };
    for (const JsonValue& user : users.items()) {
        if (user["devices"].items().empty()) {
            add_row(user, {});
        }
        for (const JsonValue& key : user["devices"].items()) {
            add_row(user, key);
        }
    }
    return table.rows() == 0 ? "no users\n" : table.render(is_terminal, columns);
}

}  // namespace continuo::snapt
