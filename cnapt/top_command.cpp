#include "cnapt/top_command.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/report/csv.hpp"
#include "common/report/flow_list.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace continuo::cnapt {

using report::Align;
using report::CommandOutput;
using report::JsonValue;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

// Keys of --by with their heads.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kGroups = {
    {{"process", "PROCESS"}, {"app", "APP"}, {"class", "CLASS"}}};
// Fields of a row that is a flow.
constexpr std::array<std::string_view, 11> kFlowFields = {
    "flow_id", "proto", "src", "sport", "dst", "dport", "process", "app", "class", "snapt", "path"};

struct Bytes {
    uint64_t up = 0;
    uint64_t down = 0;
};

struct Row {
    const JsonValue* flow = nullptr;  // the first of them
    uint64_t flows = 0;
    Bytes all;       // since the flows have their class
    Bytes recently;  // in the span

    uint64_t rank() const { return recently.up + recently.down; }
    void add(const Row& other) {
        flow = flow == nullptr ? other.flow : flow;
        flows += other.flows;
        all.up += other.all.up;
        all.down += other.all.down;
        recently.up += other.recently.up;
        recently.down += other.recently.down;
    }
};

struct Request {
    std::vector<std::string> by;  // of kGroups, in its order; empty: each flow
    size_t limit = kUsualTopRows;
};

// All that is shown.
struct Top {
    base::Duration span{};
    std::vector<Row> rows;  // the busiest first
    Row others;
    uint64_t other_rows = 0;
    uint64_t idle_flows = 0;
};

struct Seen {
    Bytes bytes;
    std::string traffic_class;
};
using Sample = std::map<uint64_t, Seen>;  // by flow_id

uint64_t number_of(const JsonValue& flow, std::string_view key) {
    return flow[key].unsigned_integer().value_or(0);
}

Bytes bytes_of(const JsonValue& flow) {
    return {number_of(flow, "inner_bytes_up"), number_of(flow, "inner_bytes_down")};
}

// Nothing, with the reason in `failure`, when an option is wrong.
std::optional<Request> request_of(const ParsedCommand& command, std::string& failure) {
    Request request;
    const std::vector<std::string> keys = report::list_values(command, "--by");
    for (const std::string& key : keys) {
        if (std::none_of(kGroups.begin(), kGroups.end(),
                         [&key](const auto& group) { return group.first == key; })) {
            failure = "--by \"" + key + "\"; expected process, app or class, or several";
            return std::nullopt;
        }
    }
    for (const auto& group : kGroups) {
        if (std::find(keys.begin(), keys.end(), group.first) != keys.end()) {
            request.by.emplace_back(group.first);
        }
    }
    if (const auto text = command.value("--limit")) {
        const auto limit = config::parse_unsigned(*text, kMaxTopRows);
        if (!limit || *limit == 0) {
            failure = "--limit \"" + *text + "\"; expected 1 to " + std::to_string(kMaxTopRows);
            return std::nullopt;
        }
        request.limit = static_cast<size_t>(*limit);
    }
    return request;
}

// A flow that was not there before began since; one that has another class counts from 0 since.
Row row_of(const JsonValue& flow, const Sample& before) {
    Row row{&flow, 1, bytes_of(flow), bytes_of(flow)};
    const auto known = before.find(number_of(flow, "flow_id"));
    const bool is_same =
        known != before.end() && known->second.traffic_class == flow.text("class") &&
        known->second.bytes.up <= row.all.up && known->second.bytes.down <= row.all.down;
    if (is_same) {
        row.recently.up -= known->second.bytes.up;
        row.recently.down -= known->second.bytes.down;
    }
    return row;
}

Top top_of(const std::vector<JsonValue>& flows,
           const Sample& before,
           base::Duration span,
           const Request& request) {
    Top top;
    top.span = span;
    std::map<std::vector<std::string>, Row> groups;
    for (const JsonValue& flow : flows) {
        Row row = row_of(flow, before);
        if (row.rank() == 0) {
            ++top.idle_flows;
            continue;
        }
        if (request.by.empty()) {
            top.rows.push_back(row);
            continue;
        }
        std::vector<std::string> names;
        for (const std::string& key : request.by) {
            names.push_back(flow.text(key));
        }
        groups[names].add(row);
    }
    for (const auto& group : groups) {
        top.rows.push_back(group.second);
    }
    std::stable_sort(top.rows.begin(), top.rows.end(),
                     [](const Row& a, const Row& b) { return a.rank() > b.rank(); });
    while (top.rows.size() > request.limit) {
        top.others.add(top.rows.back());
        ++top.other_rows;
        top.rows.pop_back();
    }
    return top;
}

uint64_t bits_per_s(uint64_t bytes, base::Duration span) {
    const auto us = static_cast<double>(std::max<int64_t>(base::to_us(span), 1));
    const double bits = static_cast<double>(bytes) * static_cast<double>(config::kBitsPerByte);
    return static_cast<uint64_t>(bits * static_cast<double>(config::kMicroseconds) / us);
}

void write_sums(JsonWriter& json, const Row& row, base::Duration span) {
    json.field("flows", row.flows);
    json.field("up_bits_per_s", bits_per_s(row.recently.up, span));
    json.field("down_bits_per_s", bits_per_s(row.recently.down, span));
    json.field("inner_bytes_up", row.all.up);
    json.field("inner_bytes_down", row.all.down);
}

std::string top_json(const Top& top, const Request& request) {
    JsonWriter json;
    json.begin_object().field("span_ms", base::to_ms(top.span));
    json.key("rows").begin_array();
    for (const Row& row : top.rows) {
        json.begin_object();
        if (request.by.empty()) {
            for (const std::string_view field : kFlowFields) {
                json.key(field).raw(report::json_text((*row.flow)[field]));
            }
        }
        for (const std::string& field : request.by) {
            json.key(field).raw(report::json_text((*row.flow)[field]));
        }
        write_sums(json, row, top.span);
        json.end_object();
    }
    json.end_array().key("others").begin_object();
    json.field("rows", top.other_rows);
    write_sums(json, top.others, top.span);
    json.end_object().field("idle_flows", top.idle_flows).end_object();
    return json.take() + "\n";
}

// The rows that are shown, as JSON has them; the others have no place.
std::string top_csv(const Top& top, const Request& request) {
    std::vector<std::string_view> names(request.by.begin(), request.by.end());
    if (names.empty()) {
        names.assign(kFlowFields.begin(), kFlowFields.end());
    }
    names.insert(names.end(), {"flows", "up_bits_per_s", "down_bits_per_s", "inner_bytes_up",
                               "inner_bytes_down"});
    const auto json = JsonValue::parse(top_json(top, request));
    return report::rows_csv(json ? (*json)["rows"].items() : std::vector<JsonValue>(), names);
}

std::vector<Table::Column> heads_of(const Request& request) {
    std::vector<Table::Column> heads;
    if (request.by.empty()) {
        heads = {{"PROTO"},
                 {"DESTINATION", Align::Left, 0, report::kEnoughAddress},
                 {"PROCESS", Align::Left, 0, report::kEnoughName},
                 {"APP", Align::Left, 5},
                 {"CLASS", Align::Left, 1},
                 {"PATH", Align::Left, 3}};
    } else {
        for (const auto& [key, head] : kGroups) {
            if (std::find(request.by.begin(), request.by.end(), key) != request.by.end()) {
                heads.push_back({std::string(head)});
            }
        }
        heads.push_back({"FLOWS", Align::Right, 4});
    }
    const Table::Column figures[] = {{"UP RATE", Align::Right},
                                     {"DOWN RATE", Align::Right},
                                     {"UP", Align::Right, 2},
                                     {"DOWN", Align::Right, 2}};
    heads.insert(heads.end(), std::begin(figures), std::end(figures));
    return heads;
}

std::vector<std::string> names_of(const Row& row, const Request& request) {
    const JsonValue& flow = *row.flow;
    if (request.by.empty()) {
        return {report::cell(flow["proto"]),   report::endpoint_cell(flow["dst"], flow["dport"]),
                report::cell(flow["process"]), report::cell(flow["app"]),
                report::cell(flow["class"]),   report::cell(flow["path"])};
    }
    std::vector<std::string> cells;
    for (const std::string& key : request.by) {
        cells.push_back(report::cell(flow[key]));
    }
    cells.push_back(report::format_count(row.flows));
    return cells;
}

std::string top_text(const Top& top, const Request& request, bool is_terminal, size_t columns) {
    Table table(heads_of(request));
    const auto add = [&](std::vector<std::string> cells, const Row& row) {
        for (const uint64_t bytes : {row.recently.up, row.recently.down}) {
            cells.push_back(
                report::format_bits_per_s(static_cast<double>(bits_per_s(bytes, top.span))));
        }
        cells.push_back(report::format_bytes(row.all.up));
        cells.push_back(report::format_bytes(row.all.down));
        table.add_row(std::move(cells));
    };
    for (const Row& row : top.rows) {
        add(names_of(row, request), row);
    }
    if (top.other_rows > 0) {
        // Behind the name of the first column that may be long.
        std::vector<std::string> cells(heads_of(request).size() - 4);
        cells[request.by.empty() ? 1 : 0] = report::format_count(top.other_rows) + " others";
        if (!request.by.empty()) {
            cells.back() = report::format_count(top.others.flows);
        }
        add(std::move(cells), top.others);
    }
    std::string text = table.rows() == 0 ? "no traffic\n" : table.render(is_terminal, columns);
    if (top.idle_flows > 0) {
        text += "(" + report::format_count(top.idle_flows) + " without traffic)\n";
    }
    return text;
}

}  // namespace

report::CommandSpec top_spec() {
    return daemon::shown_as_table({"top",
                                   "",
                                   0,
                                   0,
                                   {{"--by",
                                     "KEY,...",
                                     OptionValue::Required,
                                     true,
                                     {},
                                     "group by process, app or class, or by several"},
                                    {"--limit",
                                     "N",
                                     OptionValue::Required,
                                     false,
                                     {},
                                     "at most N rows; the others are summed in one (default: 20)"},
                                    report::csv_option()},
                                   "flows with the most traffic now"});
}

CommandOutput top_command(const report::DaemonAccess& access,
                          const ParsedCommand& command,
                          bool is_terminal,
                          size_t columns) {
    std::string failure;
    const auto request = request_of(command, failure);
    if (!request) {
        CommandOutput output = report::failed(access, failure);
        output.exit_code = report::kExitUsage;
        return output;
    }
    const auto ask = [&access](const report::RenderList& render) {
        return report::ask_list(access, "flows", report::kAnswerTimeout, render);
    };
    return ask([&](const std::vector<JsonValue>& first) {
        const base::TimePoint begin = access.now();
        Sample before;
        for (const JsonValue& flow : first) {
            before[number_of(flow, "flow_id")] = {bytes_of(flow), flow.text("class")};
        }
        access.pause(kTopSpan);
        return ask([&](const std::vector<JsonValue>& flows) {
            const Top top = top_of(flows, before, access.now() - begin, *request);
            std::string text = command.has("--json") ? top_json(top, *request)
                               : command.has("--csv")
                                   ? top_csv(top, *request)
                                   : top_text(top, *request, is_terminal, columns);
            return CommandOutput{std::move(text), "", report::kExitGood};
        });
    });
}

}  // namespace continuo::cnapt
