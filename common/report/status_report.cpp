#include "common/report/status_report.hpp"

#include "common/report/allowance_text.hpp"
#include "common/report/table.hpp"

#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

namespace continuo::report {
namespace {

constexpr int kMillisecondDigits = 3;
constexpr int kPercentDigits = 2;
constexpr int kPriceDigits = 3;
constexpr size_t kTextIndent = 10;  // indent of continued lines in reports

// A column of `usage` that is present only if requested.
struct UsageKeyColumn {
    std::string_view key;
    std::string_view title;
};
constexpr std::array<UsageKeyColumn, 6> kUsageKeys = {{{"user", "USER"},
                                                       {"class", "CLASS"},
                                                       {"snapt", "SNAPT"},
                                                       {"day", "DAY"},
                                                       {"month", "MONTH"},
                                                       {"app", "APP"}}};

// Another user may have the name now.
std::string user_cell(const JsonValue& row) {
    const std::string removed = row.text("removed");
    return cell(row["user"]) + (removed.empty() ? "" : " (removed " + removed + ")");
}

bool any_has(const JsonValue& rows, std::string_view key) {
    const auto& items = rows.items();
    return std::any_of(items.begin(), items.end(),
                       [key](const JsonValue& row) { return !row[key].is_null(); });
}

}  // namespace

std::optional<double> saved_percent(uint64_t bytes_before, uint64_t bytes_after) {
    if (bytes_before == 0) {
        return std::nullopt;
    }
    return 100.0 * (1.0 - static_cast<double>(bytes_after) / static_cast<double>(bytes_before));
}

void write_classes(JsonWriter& json, const ClassFigureTable& classes) {
    json.begin_object();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const ClassFigures& figures = classes[base::index_of(traffic_class)];
        json.key(base::token(traffic_class)).begin_object();
        json.field("packets", figures.packets);
        json.field("datagrams", figures.datagrams);
        json.field("packets_alone", figures.packets_alone);
        json.field("sent_by_timeout", figures.sent_by_timeout);
        json.field("sent_by_size", figures.sent_by_size);
        json.field("inner_bytes", figures.inner_bytes);
        json.field("wire_bytes", figures.wire_bytes);
        json.key("saved_percent");
        const auto saved = saved_percent(figures.inner_bytes, figures.wire_bytes);
        json.number(saved.value_or(NAN), kPercentDigits);
        json.field("queue_ms_p50", figures.queue_ms_p50.value_or(NAN), kMillisecondDigits);
        json.field("queue_ms_p99", figures.queue_ms_p99.value_or(NAN), kMillisecondDigits);
        json.field("queue_drops", figures.queue_drops);
        json.end_object();
    }
    json.end_object();
}

void write_traffic(JsonWriter& json, const TrafficFigures& up, const TrafficFigures& down) {
    json.begin_object();
    for (const auto& [direction, figures] : {std::pair("up", &up), std::pair("down", &down)}) {
        json.key(direction).begin_object();
        json.field("bits_per_s", figures->bits_per_s);
        json.field("inner_bytes", figures->inner_bytes);
        json.field("wire_bytes", figures->wire_bytes);
        const auto saved = saved_percent(figures->inner_bytes, figures->wire_bytes);
        json.field("saved_percent", saved.value_or(NAN), kPercentDigits);
        json.end_object();
    }
    json.end_object();
}

void write_io(JsonWriter& json, const IoFigures& io, const ClassFigureTable& classes) {
    uint64_t super_packets = 0;
    uint64_t super_segments = 0;
    uint64_t software_segmented = 0;
    for (const ClassFigures& figures : classes) {
        super_packets += figures.super_packets;
        super_segments += figures.super_segments;
        software_segmented += figures.software_segmented;
    }
    json.begin_object();
    json.field("tun_reads", io.tun_reads);
    json.field("tun_read_bytes", io.tun_read_bytes);
    json.field("tun_writes", io.tun_writes);
    json.key("segments_per_write");
    json.number(io.frames_written == 0 ? NAN
                                       : static_cast<double>(io.segments_written) /
                                             static_cast<double>(io.frames_written),
                2);
    json.field("super_packets", super_packets);
    json.field("super_segments", super_segments);
    json.field("software_segmented", software_segmented);
    json.field("uso", io.uso);
    json.field("slow_iterations", io.slow_iterations);
    json.end_object();
}

void write_drops(JsonWriter& json,
                 const base::DropCounters& drops,
                 std::initializer_list<std::pair<std::string_view, uint64_t>> others) {
    json.begin_object();
    for (size_t i = 0; i < base::kDropReasons; ++i) {
        const auto reason = static_cast<base::DropReason>(i);
        json.field(base::to_string(reason), drops.count(reason));
    }
    for (const auto& [name, count] : others) {
        json.field(name, count);
    }
    json.end_object();
}

void write_flow(JsonWriter& json, const FlowFigures& flow) {
    json.begin_object();
    json.field("flow_id", flow.flow_id);
    if (flow.user || flow.node) {
        json.field("user", flow.user);
        json.field("node", flow.node);
    }
    json.field("proto", flow.proto);
    json.field("src", flow.src);
    json.field("sport", flow.sport);
    json.field("dst", flow.dst);
    json.field("dport", flow.dport);
    json.field("process", flow.process);
    json.field("app", flow.app);
    json.field("class", base::token(flow.traffic_class));
    json.field("snapt", flow.snapt);
    json.field("path", flow.path);
    json.field("state", flow.state);
    json.field("packets_up", flow.packets_up);
    json.field("packets_down", flow.packets_down);
    json.field("inner_bytes_up", flow.inner_bytes_up);
    json.field("inner_bytes_down", flow.inner_bytes_down);
    json.field("wire_bytes_up", flow.wire_bytes_up);
    json.field("wire_bytes_down", flow.wire_bytes_down);
    json.field("age_s", flow.age_s, kMillisecondDigits);
    json.field("idle_s", flow.idle_s, kMillisecondDigits);
    json.field("refused_reason", flow.refused_reason);
    json.end_object();
}

std::string error_json(std::string_view text) {
    JsonWriter json;
    json.begin_object().field("error", text).end_object();
    return json.take();
}

std::string cell(const JsonValue& value) {
    switch (value.kind()) {
    case JsonValue::Kind::Null:
    case JsonValue::Kind::Array:
    case JsonValue::Kind::Object:
        return std::string(kUnknown);
    case JsonValue::Kind::Boolean:
        return *value.boolean() ? "yes" : "no";
    case JsonValue::Kind::String:
        return std::string(*value.string());
    case JsonValue::Kind::Integer:
    case JsonValue::Kind::Unsigned:
        return value.unsigned_integer() ? std::to_string(*value.unsigned_integer())
                                        : std::to_string(value.integer().value_or(0));
    case JsonValue::Kind::Real:
        break;
    }
    JsonWriter json;
    return json.number(value.number().value_or(0), 2).take();
}

std::string price_cell(const JsonValue& value) {
    const auto price = value.number();
    JsonWriter json;
    return price ? json.number(*price, kPriceDigits).take() : std::string(kUnknown);
}

std::string bytes_cell(const JsonValue& value) {
    if (const auto bytes = value.unsigned_integer()) {
        return format_bytes(*bytes);
    }
    const auto bytes = value.integer();
    return bytes ? format_signed_bytes(*bytes) : std::string(kUnknown);
}

std::string count_cell(const JsonValue& value) {
    const auto count = value.unsigned_integer();
    return count ? format_count(*count) : std::string(kUnknown);
}

std::string denarii_cell(const JsonValue& value) {
    const auto micro = value.integer();
    return micro ? format_denarii(*micro) : std::string(kUnknown);
}

std::string milliseconds_cell(const JsonValue& value) {
    return format_milliseconds(value.number());
}

std::string percent_cell(const JsonValue& value) {
    return format_percent(value.number());
}

std::string fraction_cell(const JsonValue& value) {
    const auto fraction = value.number();
    return format_percent(fraction ? std::optional(*fraction * 100.0) : std::nullopt);
}

std::string rate_cell(const JsonValue& value) {
    const auto bits_per_s = value.number();
    return bits_per_s ? format_bits_per_s(*bits_per_s) : "-";
}

std::string state_word(std::string_view state, bool is_terminal) {
    const Colour colour = state == "up"                                ? Colour::Green
                          : state == "degraded" || state == "draining" ? Colour::Yellow
                                                                       : Colour::Red;
    return coloured(state, colour, is_terminal);
}

std::string list_cell(const JsonValue& list) {
    std::string text;
    for (const JsonValue& item : list.items()) {
        text += text.empty() ? "" : ", ";
        text += cell(item);
    }
    return text.empty() ? "none" : text;
}

std::string classes_text(const JsonValue& classes, bool is_terminal, size_t columns) {
    Table table({{"CLASS"},
                 {"PACKETS", Align::Right},
                 {"DATAGRAMS", Align::Right, 3},
                 {"ALONE", Align::Right, 5},
                 {"BY TIME", Align::Right, 6},
                 {"BY SIZE", Align::Right, 7},
                 {"INNER", Align::Right},
                 {"WIRE", Align::Right},
                 {"SAVED", Align::Right},
                 {"QUEUE P50", Align::Right, 4},
                 {"QUEUE P99", Align::Right, 1},
                 {"DROPS", Align::Right, 2}});
    for (const auto& [name, figures] : classes.members()) {
        table.add_row({name, count_cell(figures["packets"]), count_cell(figures["datagrams"]),
                       count_cell(figures["packets_alone"]), count_cell(figures["sent_by_timeout"]),
                       count_cell(figures["sent_by_size"]), bytes_cell(figures["inner_bytes"]),
                       bytes_cell(figures["wire_bytes"]), percent_cell(figures["saved_percent"]),
                       milliseconds_cell(figures["queue_ms_p50"]),
                       milliseconds_cell(figures["queue_ms_p99"]),
                       count_cell(figures["queue_drops"])});
    }
    return table.render(is_terminal, columns);
}

std::string traffic_text(const JsonValue& traffic, bool is_terminal, size_t columns) {
    Table table({{"TRAFFIC"},
                 {"RATE", Align::Right},
                 {"INNER", Align::Right},
                 {"WIRE", Align::Right},
                 {"SAVED", Align::Right}});
    for (const auto& [direction, figures] : traffic.members()) {
        table.add_row({direction, rate_cell(figures["bits_per_s"]),
                       bytes_cell(figures["inner_bytes"]), bytes_cell(figures["wire_bytes"]),
                       percent_cell(figures["saved_percent"])});
    }
    return table.rows() == 0 ? "" : table.render(is_terminal, columns) + "\n";
}

std::string drops_text(const JsonValue& drops, size_t columns) {
    std::string text;
    for (const auto& [reason, count] : drops.members()) {
        if (count.unsigned_integer().value_or(0) > 0) {
            text += text.empty() ? "dropped  " : ", ";
            text += reason + " " + count_cell(count);
        }
    }
    return text.empty() ? text : wrapped(text, columns, kTextIndent) + "\n";
}

std::string io_text(const JsonValue& io, size_t columns) {
    return wrapped("device  " + count_cell(io["tun_reads"]) + " reads (" +
                       bytes_cell(io["tun_read_bytes"]) + "), " + count_cell(io["tun_writes"]) +
                       " writes, " + cell(io["segments_per_write"]) + " segments a write, " +
                       count_cell(io["super_packets"]) + " super-packets, " +
                       count_cell(io["slow_iterations"]) + " slow iterations",
                   columns, kTextIndent) +
           "\n";
}

namespace {

// The price at a SNAPT, where usage is charged or the price is not the plan's own.
std::string price_text(const JsonValue& told, bool is_priced, size_t columns) {
    const auto price = told["price"].number();
    if (!price || (!is_priced && *price == 1)) {
        return {};
    }
    const std::string snapt = told.text("snapt");
    return wrapped((snapt.empty() ? "" : snapt + ": ") + "usage costs " +
                       price_cell(told["price"]) + " times the plan's price",
                   columns, kTextIndent) +
           "\n";
}

// The lines below the table: prices, quotas and balances of each SNAPT, and what is missing.
std::string usage_notes(const JsonValue& usage, bool is_priced, size_t columns) {
    std::string text = price_text(usage, is_priced, columns);
    for (const JsonValue& snapt : usage["snapts"].items()) {
        text += price_text(snapt, is_priced, columns);
        if (const std::string error = snapt.text("error"); !error.empty()) {
            text += wrapped("not included: " + snapt.text("snapt") + " (" + error + ")", columns,
                            kTextIndent) +
                    "\n";
        }
        for (const std::string& left :
             {allowance_text(snapt["allowance"]), money_text(snapt["money"])}) {
            text += left.empty()
                        ? ""
                        : wrapped(snapt.text("snapt") + ": " + left + "\n", columns, kTextIndent);
        }
    }
    return text;
}

}  // namespace

std::string usage_report_text(const JsonValue& usage, bool is_terminal, size_t columns) {
    const JsonValue& rows = usage["rows"];
    std::vector<UsageKeyColumn> keys;
    std::vector<Table::Column> shown;
    for (const UsageKeyColumn& candidate : kUsageKeys) {
        if (any_has(rows, candidate.key)) {
            keys.push_back(candidate);
            shown.push_back({std::string(candidate.title)});
        }
    }
    const Table::Column numbers[] = {{"FLOWS", Align::Right, 3},     {"PAYLOAD UP", Align::Right},
                                     {"PAYLOAD DOWN", Align::Right}, {"BEFORE", Align::Right, 2},
                                     {"AFTER", Align::Right, 2},     {"AS SENT", Align::Right, 4},
                                     {"SAVED", Align::Right, 5},     {"SAVED %", Align::Right, 1}};
    shown.insert(shown.end(), std::begin(numbers), std::end(numbers));
    const bool is_priced = any_has(rows, "net_ud");
    if (is_priced) {
        const Table::Column prices[] = {{"GROSS", Align::Right, 5},
                                        {"DISCOUNT", Align::Right, 5},
                                        {"NET", Align::Right},
                                        {"NET/MB", Align::Right, 5}};
        shown.insert(shown.end(), std::begin(prices), std::end(prices));
    }
    const auto& all = rows.items();
    const bool has_balance = any_has(rows, "balance_ud");
    if (has_balance) {
        shown.push_back({"BALANCE", Align::Right, 4});
    }
    const bool has_undelivered = std::any_of(all.begin(), all.end(), [](const JsonValue& row) {
        return row["undelivered"].integer().value_or(0) != 0;
    });
    if (has_undelivered) {
        shown.push_back({"UNDELIVERED", Align::Right, 5});
    }
    Table table(std::move(shown));
    for (const JsonValue& row : rows.items()) {
        std::vector<std::string> cells;
        for (const UsageKeyColumn& key : keys) {
            cells.push_back(key.key == "user" ? user_cell(row) : cell(row[key.key]));
        }
        for (std::string text : {count_cell(row["flows"]), bytes_cell(row["payload_up"]),
                                 bytes_cell(row["payload_down"]), bytes_cell(row["pre"]),
                                 bytes_cell(row["post"]), bytes_cell(row["as_sent"]),
                                 bytes_cell(row["saved"]), percent_cell(row["saved_percent"])}) {
            cells.push_back(std::move(text));
        }
        for (const char* price : {"gross_ud", "discount_ud", "net_ud", "net_ud_per_mb"}) {
            if (is_priced) {
                cells.push_back(denarii_cell(row[price]));
            }
        }
        if (has_balance) {
            cells.push_back(denarii_cell(row["balance_ud"]));
        }
        if (has_undelivered) {
            cells.push_back(bytes_cell(row["undelivered"]));
        }
        table.add_row(std::move(cells));
    }
    std::string text = table.rows() == 0 ? "no usage\n" : table.render(is_terminal, columns);
    return text + usage_notes(usage, is_priced, columns);
}

std::string reload_json(std::span<const std::string> applied,
                        std::span<const std::string> needs_restart) {
    JsonWriter json;
    json.begin_object();
    json.key("applied").begin_array();
    for (const std::string& key : applied) {
        json.string(key);
    }
    json.end_array().key("needs_restart").begin_array();
    for (const std::string& key : needs_restart) {
        json.string(key);
    }
    json.end_array().end_object();
    return json.take();
}

std::string reload_text(const JsonValue& answer) {
    if (!answer.has("applied")) {
        return "reloaded; the daemon's log has the details\n";
    }
    const JsonValue& applied = answer["applied"];
    const JsonValue& restart = answer["needs_restart"];
    std::string text = applied.items().empty() ? "reloaded; nothing changed\n"
                                               : "reloaded: " + list_cell(applied) + "\n";
    if (!restart.items().empty()) {
        text += "needs restart: " + list_cell(restart) + "\n";
    }
    return text;
}

}  // namespace continuo::report
