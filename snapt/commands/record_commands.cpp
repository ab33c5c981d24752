#include "snapt/commands/record_commands.hpp"

#include "common/base/traffic_class.hpp"
#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/usage_json.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/ledger/record_store.hpp"
#include "snapt/store/time_zone.hpp"

#include <cerrno>
#include <limits>
#include <system_error>

namespace continuo::snapt::commands {

using flow::UsageRecord;
using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using store::kUsPerSecond;

namespace {

// JSON readers use doubles.
constexpr int64_t kLargestExact = int64_t{1} << 53U;
constexpr size_t kChunkBytes = size_t{64} * 1024;

struct Time {
    int64_t us = 0;
};

std::string session_hex(const flow::SessionKey& key) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string hex;
    for (const uint8_t byte : key) {
        hex += kDigits[byte >> 4U];
        hex += kDigits[byte & 0x0FU];
    }
    return hex;
}

std::string class_of(const UsageRecord& record) {
    const bool is_known = record.cls >= 0 && record.cls < int64_t{base::kTrafficClasses};
    return is_known ? std::string(base::token(static_cast<base::TrafficClass>(record.cls))) : "?";
}

std::optional<std::string> if_any(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

// Calls `visit` with name and value of each column.
template <typename Visit>
void for_each_column(const UsageRecord& record, Visit&& visit) {
    visit("snapt_id", record.snapt_id);
    visit("epoch", record.epoch);
    visit("seq", record.seq);
    visit("user_id", record.user_id);
    visit("account_id", record.account_id);
    visit("session_id", session_hex(record.session_id));
    visit("cnapt_id", record.cnapt_id);
    visit("sharer_id", if_any(record.sharer_id));
    visit("flow_id", record.flow_id);
    visit("class", class_of(record));
    visit("proto", record.proto);
    visit("app", record.app);
    visit("dport", record.dport);
    visit("dst", record.dst);
    visit("t_start", Time{record.t_start});
    visit("t_end", Time{record.t_end});
    visit("active_us", record.active_us);
    visit("pay_up", record.pay_up);
    visit("pay_down", record.pay_down);
    visit("inner_up", record.inner_up);
    visit("inner_down", record.inner_down);
    visit("pkt_up", record.pkt_up);
    visit("pkt_down", record.pkt_down);
    visit("pre", record.pre);
    visit("post", record.post);
    visit("undelivered", record.undelivered);
    visit("tun_up", record.tun_up);
    visit("tun_down", record.tun_down);
    visit("delay_us", record.delay_us);
    visit("delay_max_us", record.delay_max_us);
    visit("jitter_us", record.jitter_us);
    visit("handovers", record.handovers);
    visit("lost_pkts", record.lost_pkts);
    visit("cause", static_cast<int64_t>(record.cause));
    visit("flags", int64_t{record.flags});
    visit("delay_src", record.delay_src);
}

struct CsvWriter {
    std::string line;

    void operator()(const char* /*name*/, const std::string& text) {
        line += (is_first_ ? "" : ",") + report::csv_field(text);
        is_first_ = false;
    }
    void operator()(const char* name, int64_t value) { (*this)(name, std::to_string(value)); }
    void operator()(const char* name, const Time& time) {
        std::string text = report::format_utc(time.us / kUsPerSecond);
        const std::string rest = std::to_string(kUsPerSecond + time.us % kUsPerSecond).substr(1);
        text.insert(text.size() - 1, "." + rest);
        (*this)(name, text);
    }
    template <typename Value>
    void operator()(const char* name, const std::optional<Value>& value) {
        value ? (*this)(name, *value) : (*this)(name, std::string());
    }

  private:
    bool is_first_ = true;
};

struct JsonFields {
    JsonWriter& json;

    void operator()(const char* name, const std::string& text) const { json.field(name, text); }
    void operator()(const char* name, int64_t value) const {
        const bool is_exact = value <= kLargestExact && value >= -kLargestExact;
        is_exact ? json.field(name, value) : json.field(name, std::to_string(value));
    }
    void operator()(const char* name, const Time& time) const { (*this)(name, time.us); }
    template <typename Value>
    void operator()(const char* name, const std::optional<Value>& value) const {
        if (value) {
            (*this)(name, *value);
        } else {
            json.key(name).null();
        }
    }
};

// Passes its input on in large pieces.
class Chunks {
  public:
    explicit Chunks(const std::function<bool(std::string_view)>& write) : write_(write) {}
    // False: writing failed, and no more is written.
    bool add(const std::string& text) {
        text_ += text;
        return text_.size() < kChunkBytes || flush();
    }
    bool flush() {
        if (error_ == 0 && !text_.empty() && !write_(text_)) {
            error_ = errno == 0 ? EIO : errno;
        }
        text_.clear();
        return error_ == 0;
    }
    int error() const { return error_; }

  private:
    const std::function<bool(std::string_view)>& write_;
    int error_ = 0;
    std::string text_;
};

std::optional<int64_t> moment_in_zone(const std::string& text, const std::string& zone) {
    const auto loaded = store::TimeZone::load(zone);
    return loaded ? loaded->parse_time_us(text) : std::nullopt;
}

std::optional<ledger::UsageQuery> query_of(const ParsedCommand& command, CommandOutput& failure) {
    std::string reason;
    const auto text = report::usage_request(command, moment_in_zone, reason);
    const auto request = report::JsonValue::parse(text.value_or("{}"));
    auto query = text && request ? accounting::usage_query_from(*request, reason) : std::nullopt;
    if (!query) {
        failure = told(reason, report::kExitUsage);
    }
    return query;
}

// The most rows to show; nothing, with the answer in `failure`, when the option is wrong.
std::optional<size_t> limit_of(const ParsedCommand& command, CommandOutput& failure) {
    const auto text = command.value("--limit");
    if (!text) {
        return command.name == "export" ? std::numeric_limits<size_t>::max() : kShownRecords;
    }
    const auto number = config::parse_unsigned(*text, std::numeric_limits<int64_t>::max());
    if (!number || *number == 0) {
        failure = told("--limit \"" + *text + "\"; expected a number from 1", report::kExitUsage);
        return std::nullopt;
    }
    return static_cast<size_t>(*number);
}

enum class Format : uint8_t { Table, Csv, JsonLines, Json };

// Nothing, with the answer in `failure`, when it is missing or wrong.
std::optional<Format> format_of(const ParsedCommand& command, CommandOutput& failure) {
    if (command.name == "records") {
        return command.has("--json")  ? Format::Json
               : command.has("--csv") ? Format::Csv
                                      : Format::Table;
    }
    const std::string text = command.value_or("--format", "");
    if (text == "csv" || text == "jsonl") {
        return text == "csv" ? Format::Csv : Format::JsonLines;
    }
    failure = told(text.empty() ? "--format is missing: csv or jsonl"
                                : "--format \"" + text + "\"; expected csv or jsonl",
                   report::kExitUsage);
    return std::nullopt;
}

Table record_table() {
    return Table({{"RECORD"},
                  {"USER"},
                  {"NODE", Align::Left, 3},
                  {"CLASS"},
                  {"APP", Align::Left, 4},
                  {"END"},
                  {"PAYLOAD UP", Align::Right, 1},
                  {"PAYLOAD DOWN", Align::Right, 1},
                  {"BEFORE", Align::Right, 2},
                  {"AFTER", Align::Right, 2}});
}

void add_row(Table& table, const UsageRecord& record) {
    table.add_row(
        {std::to_string(record.epoch) + "/" + std::to_string(record.seq), record.user_id,
         record.cnapt_id, class_of(record), record.app.value_or(""),
         report::format_utc(record.t_end / kUsPerSecond),
         report::format_signed_bytes(record.pay_up), report::format_signed_bytes(record.pay_down),
         report::format_signed_bytes(record.pre), report::format_signed_bytes(record.post)});
}

}  // namespace

std::string record_csv_head() {
    CsvWriter writer;
    for_each_column(UsageRecord{}, [&writer](const char* name, const auto& /*value*/) {
        writer(name, std::string(name));
    });
    return writer.line + "\r\n";
}

std::string record_csv(const UsageRecord& record) {
    CsvWriter writer;
    for_each_column(record, writer);
    return writer.line + "\r\n";
}

std::string record_json(const UsageRecord& record) {
    JsonWriter json;
    json.begin_object();
    for_each_column(record, JsonFields{json});
    json.end_object();
    return json.take();
}

std::vector<report::CommandSpec> record_commands(const report::OptionSpec& state) {
    std::vector<report::OptionSpec> choice;
    for (const report::OptionSpec& option : daemon::usage_spec().options) {
        if (option.name == "--from" || option.name == "--to" || option.name == "--zone" ||
            option.name == "--user") {
            choice.push_back(option);
        }
    }
    choice.push_back({"--limit", "N", OptionValue::Required, false, {}, "at most N records"});
    choice.push_back(state);
    report::CommandSpec records = {"records", "", 0, 0, choice, "usage records one by one"};
    records.options.push_back(
        {"--csv", "", OptionValue::None, false, {}, "as comma-separated values"});
    records.options.push_back(
        {"--wide", "", OptionValue::None, false, {}, "all columns, however wide the screen is"});
    report::CommandSpec all = {"export", "", 0, 0, choice, "all usage records, for other programs"};
    all.options.push_back({"--format",
                           "FORMAT",
                           OptionValue::Required,
                           false,
                           {},
                           "csv, or jsonl: one JSON object per line"});
    return {std::move(records), std::move(all)};
}

bool is_record_command(std::string_view name) {
    return name == "records" || name == "export";
}

CommandOutput record_command(const ParsedCommand& command,
                             const std::function<bool(std::string_view)>& write,
                             bool is_terminal,
                             size_t columns) {
    CommandOutput failure;
    const auto format = format_of(command, failure);
    const auto limit = format ? limit_of(command, failure) : std::nullopt;
    const auto query = limit ? query_of(command, failure) : std::nullopt;
    if (!query) {
        return failure;
    }
    auto database = open_ledger(command, store::OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    Chunks chunks(write);
    Table table = record_table();
    size_t count = 0;
    if (*format == Format::Csv) {
        chunks.add(record_csv_head());
    }
    const auto shown =
        ledger::visit_records_of(*database, *query, *limit, [&](const UsageRecord& record) {
            if (*format == Format::Table) {
                add_row(table, record);
            } else if (*format == Format::Csv) {
                chunks.add(record_csv(record));
            } else {
                const std::string before = *format == Format::Json ? (count == 0 ? "[" : ",") : "";
                chunks.add(before + record_json(record) +
                           (*format == Format::JsonLines ? "\n" : ""));
            }
            ++count;
            return chunks.error() == 0;
        });
    host::match_owner(command.value_or("--state", kDefaultState));
    if (*format == Format::Json) {
        chunks.add(count == 0 ? "[]\n" : "]\n");
    }
    if (!chunks.flush()) {
        return told("cannot write the output: " + std::generic_category().message(chunks.error()));
    }
    if (!shown) {
        return told("cannot read the records: " + daemon::describe(shown.error()));
    }
    const bool is_table = *format == Format::Table;
    const std::string more =
        is_table && count == *limit ? "the first " + std::to_string(count) + "; see --limit\n" : "";
    return {!is_table           ? std::string()
            : table.rows() == 0 ? "no records\n"
                                : table.render(is_terminal, columns) + more,
            "", report::kExitGood};
}

}  // namespace continuo::snapt::commands
