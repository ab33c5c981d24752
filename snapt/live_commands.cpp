#include "snapt/live_commands.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "common/report/json_value.hpp"
#include "common/report/status_report.hpp"
#include "common/report/table.hpp"
#include "snapt/top.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

namespace continuo::snapt {

using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

// Keys of the rows of sums, with their column heads.
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kGroups = {
    {{"user", "USER"}, {"class", "CLASS"}}};

// Between looks at a drain; it may take hours.
constexpr base::Duration kDrainPoll = base::milliseconds(500);

// "2 sessions"
std::string counted(uint64_t count, const char* what) {
    std::string text = report::format_count(count) + " " + what;
    text += count == 1 ? "" : "s";
    return text;
}

std::string ended_text(const JsonValue& answer) {
    const uint64_t logins = answer["logins_ended"].unsigned_integer().value_or(0);
    std::string text =
        "ended " + counted(answer["sessions_ended"].unsigned_integer().value_or(0), "session");
    text += logins == 0 ? "" : " and " + counted(logins, "login");
    return text + "\n";
}

CommandOutput disconnect_command(const report::DaemonAccess& access, const ParsedCommand& command) {
    report::JsonWriter json;
    json.begin_object().field("command", "disconnect");
    json.field("who", command.arguments.front()).end_object();
    return report::ask_daemon(access, json.take(), report::kAnswerTimeout, command.has("--json"),
                              ended_text);
}

CommandOutput wrong_option(const report::DaemonAccess& access, const std::string& text) {
    CommandOutput output = report::failed(access, text);
    output.exit_code = report::kExitUsage;
    return output;
}

std::string drain_text(const JsonValue& answer) {
    const std::string sessions =
        counted(answer["sessions"].unsigned_integer().value_or(0), "session");
    const std::string flows = counted(answer["flows"].unsigned_integer().value_or(0), "flow");
    if (!answer["draining"].boolean().value_or(false)) {
        return "new sessions and flows are taken again; " + sessions + ", " + flows + "\n";
    }
    return "draining: no new sessions and flows; " + sessions + ", " + flows + " left\n";
}

std::string drain_request(std::string_view action, std::optional<base::Duration> most) {
    report::JsonWriter json;
    json.begin_object().field("command", "drain").field("action", action);
    if (most) {
        json.field("timeout_ms", static_cast<uint64_t>(base::to_ms(*most)));
    }
    json.end_object();
    return json.take();
}

// Until no flow is left. A daemon that stops meanwhile is an error: nobody knows how they ended.
CommandOutput wait_for_empty(const report::DaemonAccess& access, bool as_json) {
    while (true) {
        CommandOutput output = report::ask_daemon(access, drain_request("show", std::nullopt),
                                                  report::kAnswerTimeout, true, drain_text);
        if (output.exit_code != report::kExitGood) {
            return output;
        }
        const auto answer = JsonValue::parse(output.out);
        if (!answer || !(*answer)["draining"].boolean().value_or(false)) {
            return report::failed(access, "the drain was undone");
        }
        if ((*answer)["flows"].unsigned_integer() == 0) {
            output.out = as_json ? output.out : drain_text(*answer);
            return output;
        }
        access.pause(kDrainPoll);
    }
}

CommandOutput drain_command(const report::DaemonAccess& access, const ParsedCommand& command) {
    const bool as_json = command.has("--json");
    const auto text = command.value("--timeout");
    if (command.has("--undo") && (text || command.has("--wait"))) {
        return wrong_option(access, "--undo goes with neither --timeout nor --wait");
    }
    const auto most = text ? report::parse_timeout(*text) : std::nullopt;
    if (text && !most) {
        return wrong_option(access,
                            "--timeout \"" + *text + "\"; expected at most 24h, such as 10min");
    }
    const std::string request = drain_request(command.has("--undo") ? "undo" : "begin", most);
    CommandOutput output =
        report::ask_daemon(access, request, report::kAnswerTimeout, as_json, drain_text);
    return output.exit_code == report::kExitGood && command.has("--wait")
               ? wait_for_empty(access, as_json)
               : output;
}

std::string top_text(const JsonValue& answer, bool is_terminal, size_t columns) {
    const auto& rows = answer["rows"].items();
    if (rows.empty()) {
        return "no sessions\n";
    }
    std::vector<Table::Column> heads;
    for (const auto& [key, head] : kGroups) {
        if (rows.front().has(key)) {
            heads.push_back({std::string(head)});
        }
    }
    const Table::Column figures[] = {
        {"SESSIONS", Align::Right, 2}, {"UP RATE", Align::Right}, {"DOWN RATE", Align::Right},
        {"UP", Align::Right, 1},       {"DOWN", Align::Right, 1}, {"SAVED DOWN", Align::Right, 3}};
    heads.insert(heads.end(), std::begin(figures), std::end(figures));
    Table table(std::move(heads));
    const auto add = [&table](std::vector<std::string> cells, const JsonValue& row) {
        for (std::string text :
             {report::count_cell(row["sessions"]), report::rate_cell(row["up_bits_per_s"]),
              report::rate_cell(row["down_bits_per_s"]), report::bytes_cell(row["up_bytes"]),
              report::bytes_cell(row["down_bytes"]),
              report::percent_cell(row["down_saved_percent"])}) {
            cells.push_back(std::move(text));
        }
        table.add_row(std::move(cells));
    };
    for (const JsonValue& row : rows) {
        std::vector<std::string> cells;
        for (const auto& [key, head] : kGroups) {
            if (row.has(key)) {
                cells.push_back(report::cell(row[key]));
            }
        }
        add(std::move(cells), row);
    }
    const JsonValue& others = answer["others"];
    if (const uint64_t more = others["rows"].unsigned_integer().value_or(0); more > 0) {
        std::vector<std::string> cells = {report::format_count(more) + " others"};
        cells.resize(rows.front().has(kGroups[0].first) && rows.front().has(kGroups[1].first) ? 2
                                                                                              : 1);
        add(std::move(cells), others);
    }
    return table.render(is_terminal, columns);
}

// The rows that are shown; the others have no place.
std::string top_csv(const JsonValue& answer, const std::vector<std::string_view>& by) {
    std::vector<std::string_view> names = by;
    names.insert(names.end(), {"sessions", "up_bits_per_s", "down_bits_per_s", "up_bytes",
                               "down_bytes", "down_saved_percent"});
    return report::rows_csv(answer["rows"].items(), names);
}

CommandOutput top_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          size_t columns) {
    const std::vector<std::string> keys = report::list_values(command, "--by");
    std::string by;
    std::vector<std::string_view> shown;
    for (const auto& group : kGroups) {
        if (std::find(keys.begin(), keys.end(), group.first) != keys.end()) {
            by += by.empty() ? "" : ",";
            by += group.first;
            shown.push_back(group.first);
        }
    }
    if (shown.empty()) {
        shown.push_back(kGroups[0].first);  // as the daemon takes it
    }
    for (const std::string& key : keys) {
        if (std::none_of(kGroups.begin(), kGroups.end(),
                         [&key](const auto& group) { return group.first == key; })) {
            return wrong_option(access, "--by \"" + key + "\"; expected user, class or both");
        }
    }
    report::JsonWriter json;
    json.begin_object().field("command", "top").field("by", by);
    if (const auto text = command.value("--limit")) {
        const auto limit = config::parse_unsigned(*text, kMaxTopRows);
        if (!limit || *limit == 0) {
            return wrong_option(access, "--limit \"" + *text + "\"; expected 1 to " +
                                            std::to_string(kMaxTopRows));
        }
        json.field("limit", *limit);
    }
    json.end_object();
    return report::ask_daemon(access, json.take(), report::kAnswerTimeout, command.has("--json"),
                              [&](const JsonValue& answer) {
                                  return command.has("--csv")
                                             ? top_csv(answer, shown)
                                             : top_text(answer, is_terminal, columns);
                              });
}

}  // namespace

std::vector<report::CommandSpec> live_commands() {
    return {daemon::shown_as_table({"top",
                                    "",
                                    0,
                                    0,
                                    {{"--by",
                                      "KEY,...",
                                      OptionValue::Required,
                                      true,
                                      {},
                                      "group by user (default), class or both"},
                                     {"--limit",
                                      "N",
                                      OptionValue::Required,
                                      false,
                                      {},
                                      "at most N rows; the others are summed in one (default: 20)"},
                                     report::csv_option()},
                                    "users with the most traffic now"}),
            {"disconnect", "USER|SESSION", 1, 1, {}, "end sessions; the nodes may log in again"},
            {"drain",
             "",
             0,
             0,
             {{"--timeout",
               "TIME",
               OptionValue::Required,
               false,
               {},
               "end the sessions left after this time, such as 10min"},
              {"--wait", "", OptionValue::None, false, {}, "wait until no flow is left"},
              {"--undo", "", OptionValue::None, false, {}, "take new sessions and flows again"}},
             "take no new sessions or flows; keep the others"}};
}

bool is_live_command(std::string_view name) {
    return name == "top" || name == "disconnect" || name == "drain";
}

CommandOutput live_command(const report::DaemonAccess& access,
                           const ParsedCommand& command,
                           bool is_terminal,
                           size_t columns) {
    if (command.name == "drain") {
        return drain_command(access, command);
    }
    return command.name == "top" ? top_command(access, command, is_terminal, columns)
                                 : disconnect_command(access, command);
}

}  // namespace continuo::snapt
