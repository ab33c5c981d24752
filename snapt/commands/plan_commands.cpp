#include "snapt/commands/plan_commands.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/io/file.hpp"
#include "common/report/check_report.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/rated_usage.hpp"
#include "snapt/accounting/usage_json.hpp"
#include "snapt/commands/charge_commands.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/store/plan_store.hpp"

#include <array>
#include <cstdio>
#include <limits>
#include <system_error>

namespace continuo::snapt::commands {

using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using store::OpenMode;
using store::PlanRevision;

namespace {

constexpr size_t kMaxPlanFiles = 256;

// Throughputs for which `plan show` gives the price of a megabyte.
constexpr std::array<double, 3> kShownKbps = {64, 1000, 10'000};
constexpr double kShownDelayMs = 50;

// The plan in a file; nothing, with all its faults in `failure`.
std::shared_ptr<const rating::Plan>
plan_of_file(const std::string& path, std::string& text, CommandOutput& failure) {
    auto read = io::read_file(path, daemon::kMaxFileBytes);
    if (!read) {
        const int reason = read.error().sys_errno;
        failure = told("cannot read " + path + ": " +
                       (reason != 0 ? std::generic_category().message(reason)
                                    : std::string(read.error().where)));
        return nullptr;
    }
    text = std::move(*read);
    rating::ParsedPlan parsed = rating::parse_plan(text, path, rating::PlanUse::New);
    if (!parsed.plan) {
        failure = {"", report::diagnostics_text(parsed.diagnostics), report::kExitConfig};
    }
    return parsed.plan;
}

std::optional<int64_t> time_in_zone(const std::string& text, const std::string& zone) {
    const auto loaded = store::TimeZone::load(zone);
    return loaded ? loaded->parse_time_us(text) : std::nullopt;
}

std::string time_text(int64_t at_us) {
    return report::format_utc(at_us / store::kUsPerSecond);
}

std::string number_text(double value) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.6g", value);
    return text.data();
}

void write_revision(JsonWriter& json, const PlanRevision& plan) {
    json.field("plan_id", plan.plan_id);
    json.field("name", plan.name);
    json.field("revision", plan.revision);
    json.field("valid_from", plan.valid_from_us / store::kUsPerSecond);
}

// --- plan add

CommandOutput add_command(const ParsedCommand& command) {
    const std::string& path = command.arguments.front();
    CommandOutput failure;
    std::string text;
    const auto plan = plan_of_file(path, text, failure);
    if (!plan) {
        return failure;
    }
    int64_t valid_from_us = daemon::utc_us();
    if (const auto from = command.value("--from")) {
        const auto time_us = time_in_zone(*from, command.value_or("--zone", "UTC"));
        if (!time_us) {
            return told("--from \"" + *from +
                            "\"; expected a day (2026-11-01) or a time "
                            "(2026-11-01T12:00:00Z), and a known --zone",
                        report::kExitUsage);
        }
        valid_from_us = *time_us;
    }
    auto database = open_ledger(command, OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    const auto added = store::add_plan(*database, plan->name, text, valid_from_us);
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!added) {
        return told("cannot add the plan: " + daemon::describe(added.error()));
    }
    if (!added->is_new && command.has("--from") && added->plan.valid_from_us != valid_from_us) {
        return told("revision " + std::to_string(added->plan.revision) + " of plan " + plan->name +
                    " has this text, and is valid from " + time_text(added->plan.valid_from_us) +
                    "; a revision keeps its time, so change the text to add another");
    }
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object();
        write_revision(json, added->plan);
        json.field("added", added->is_new);
        json.end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    const std::string what = "plan " + std::to_string(added->plan.plan_id) + " " +
                             added->plan.name + ", revision " +
                             std::to_string(added->plan.revision) + ", valid from " +
                             time_text(added->plan.valid_from_us);
    return {(added->is_new ? "added " : "nothing new: ") + what + "\n", "", report::kExitGood};
}

// --- plan show

CommandOutput
show_all(const std::vector<PlanRevision>& plans, bool as_json, bool is_terminal, size_t columns) {
    JsonWriter json;
    json.begin_array();
    Table table({{"PLAN", Align::Right}, {"NAME"}, {"REVISION", Align::Right}, {"VALID FROM"}});
    for (const PlanRevision& plan : plans) {
        json.begin_object();
        write_revision(json, plan);
        json.end_object();
        table.add_row({std::to_string(plan.plan_id), plan.name, std::to_string(plan.revision),
                       time_text(plan.valid_from_us)});
    }
    json.end_array();
    const std::string text = as_json             ? json.take() + "\n"
                             : table.rows() == 0 ? "no price plans\n"
                                                 : table.render(is_terminal, columns);
    return {text, "", report::kExitGood};
}

// In micro-denarii, for 10^6 bytes of payload at that throughput and kShownDelayMs.
int64_t price_of_mb(const rating::Plan& plan, base::TrafficClass traffic_class, double x_kbps) {
    constexpr double kMicro = 1e6;
    constexpr double kKbitOfMb = 8000;
    rating::Usage usage;
    usage.traffic_class = traffic_class;
    usage.payload_bytes = static_cast<uint64_t>(kMicro);
    usage.active_us = static_cast<int64_t>(kKbitOfMb / x_kbps * kMicro);
    usage.delay_us = static_cast<int64_t>(kShownDelayMs * 1000);
    return rating::rate(plan, usage).gross_ud;
}

void write_terms(JsonWriter& json, const rating::Plan& plan) {
    json.field("calibrated", plan.is_calibrated);
    json.field("delay_unknown_ms", plan.delay_unknown_ms);
    json.field("p_min_denarii_per_vu", plan.p_min, 9);
    json.field("p_max_denarii_per_vu", plan.p_max, 9);
    json.key("discount").begin_object();
    json.field("basis", to_string(plan.discount.basis));
    json.field("rho_denarii_per_mb", plan.discount.rho_denarii_per_mb, 9);
    json.field("cap", plan.discount.cap, 9);
    json.field("sharer_share", plan.discount.sharer_share, 9);
    json.end_object().key("classes").begin_array();
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const rating::ClassTerms& terms = plan.classes[base::index_of(traffic_class)];
        json.begin_object();
        json.field("class", base::token(traffic_class));
        json.field("k_x", terms.k_x, 9);
        json.field("k_d", terms.k_d, 9);
        json.field("x_knots", terms.utility.knots().x_kbps.size());
        json.field("d_knots", terms.utility.knots().d_ms.size());
        json.key("ud_per_mb").begin_array();
        for (const double x_kbps : kShownKbps) {
            json.integer(price_of_mb(plan, traffic_class, x_kbps));
        }
        json.end_array().end_object();
    }
    json.end_array();
}

std::string terms_text(const rating::Plan& plan, bool is_terminal, size_t columns) {
    std::string text;
    if (!plan.is_calibrated) {
        text += "not calibrated: k_x, k_d and the amounts are placeholders\n";
    }
    const rating::Discount& discount = plan.discount;
    text += "price     " + number_text(plan.p_min) + " to " + number_text(plan.p_max) +
            " denarii/vu; a delay that was not measured is " + number_text(plan.delay_unknown_ms) +
            " ms\n";
    text += "discount  " + number_text(discount.rho_denarii_per_mb) + " denarii/MB of what was " +
            (discount.basis == rating::DiscountBasis::Saved ? "saved" : "served") + ", at most " +
            number_text(100 * discount.cap) + " % of a charge\n";
    text += "reward    " + number_text(100 * discount.sharer_share) +
            " % of that rate, to whose node carried it" +
            (discount.sharer_share > 0 ? ": not booked" : "") + "\n\ndenarii for a MB at " +
            number_text(kShownDelayMs) + " ms:\n";
    Table table({{"CLASS"},
                 {"64 KBIT/S", Align::Right},
                 {"1 MBIT/S", Align::Right},
                 {"10 MBIT/S", Align::Right},
                 {"K_X", Align::Right, 1},
                 {"K_D", Align::Right, 1},
                 {"KNOTS", Align::Right, 2}});
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const rating::ClassTerms& terms = plan.classes[base::index_of(traffic_class)];
        std::vector<std::string> cells = {std::string(base::token(traffic_class))};
        for (const double x_kbps : kShownKbps) {
            cells.push_back(report::format_denarii(price_of_mb(plan, traffic_class, x_kbps)));
        }
        cells.push_back(number_text(terms.k_x));
        cells.push_back(number_text(terms.k_d));
        cells.push_back(std::to_string(terms.utility.knots().x_kbps.size()) + " x " +
                        std::to_string(terms.utility.knots().d_ms.size()));
        table.add_row(std::move(cells));
    }
    return report::wrapped(text, columns, 10) + table.render(is_terminal, columns);
}

// A number of a revision; nothing when the option is wrong.
bool take_revision(const ParsedCommand& command, std::optional<int64_t>& revision) {
    const auto text = command.value("--rev");
    if (!text) {
        return true;
    }
    const auto number = config::parse_unsigned(*text, std::numeric_limits<int64_t>::max());
    if (number && *number > 0) {
        revision = static_cast<int64_t>(*number);
    }
    return revision.has_value();
}

// The stored plan that the command names; nothing, with the answer in `failure`.
std::optional<PlanRevision> stored_plan(store::Database& database,
                                        const ParsedCommand& command,
                                        const std::string& name,
                                        CommandOutput& failure) {
    std::optional<int64_t> revision;
    if (!take_revision(command, revision)) {
        failure = told("--rev \"" + command.value_or("--rev", "") + "\"; expected a number from 1",
                       report::kExitUsage);
        return std::nullopt;
    }
    auto plan = store::find_plan(database, name, revision);
    if (!plan) {
        failure = told("plan " + name + ": " + daemon::describe(plan.error()));
        return std::nullopt;
    }
    return std::move(*plan);
}

// Parses a plan that was valid when it was added.
std::shared_ptr<const rating::Plan> parsed_plan(const PlanRevision& stored,
                                                CommandOutput& failure) {
    const rating::ParsedPlan parsed =
        rating::parse_plan(stored.toml, stored.name + ".toml", rating::PlanUse::Stored);
    if (!parsed.plan) {
        failure = {"", report::diagnostics_text(parsed.diagnostics), report::kExitConfig};
    }
    return parsed.plan;
}

CommandOutput show_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    if (command.arguments.empty()) {
        const auto plans = store::list_plans(*database);
        return plans ? show_all(*plans, command.has("--json"), is_terminal, columns)
                     : told("cannot read the plans: " + daemon::describe(plans.error()));
    }
    const auto stored = stored_plan(*database, command, command.arguments.front(), failure);
    if (!stored) {
        return failure;
    }
    if (command.has("--toml")) {
        return {stored->toml, "", report::kExitGood};
    }
    const auto plan = parsed_plan(*stored, failure);
    if (!plan) {
        return failure;
    }
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object();
        write_revision(json, *stored);
        write_terms(json, *plan);
        json.end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {"plan " + std::to_string(stored->plan_id) + " " + stored->name + ", revision " +
                std::to_string(stored->revision) + ", valid from " +
                time_text(stored->valid_from_us) + "\n" + terms_text(*plan, is_terminal, columns),
            "", report::kExitGood};
}

// --- rate

// The plan of --plan or --plan-file, and its name for the answer.
std::shared_ptr<const rating::Plan> plan_to_rate_by(store::Database& database,
                                                    const ParsedCommand& command,
                                                    std::optional<int64_t>& revision,
                                                    CommandOutput& failure) {
    const auto file = command.value("--plan-file");
    const auto name = command.value("--plan");
    if (file.has_value() == name.has_value()) {
        failure =
            told("name the plan: --plan PLAN for one that was added, --plan-file F for a file",
                 report::kExitUsage);
        return nullptr;
    }
    if (file) {
        std::string text;
        return plan_of_file(*file, text, failure);
    }
    const auto stored = stored_plan(database, command, *name, failure);
    if (!stored) {
        return nullptr;
    }
    revision = stored->revision;
    return parsed_plan(*stored, failure);
}

// The query from the options; nothing, with the reason in `failure`, when one is wrong.
std::optional<ledger::UsageQuery> query_from(const ParsedCommand& command, std::string& failure) {
    const auto text = report::usage_request(command, time_in_zone, failure);
    if (!text) {
        return std::nullopt;
    }
    const auto request = report::JsonValue::parse(*text);
    return request ? accounting::usage_query_from(*request, failure) : std::nullopt;
}

CommandOutput rate_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    std::string reason;
    const auto query = query_from(command, reason);
    if (!query) {
        return told(reason, report::kExitUsage);
    }
    if (!command.has("--dry-run")) {
        return rate_and_book(command, *query);
    }
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    std::optional<int64_t> revision;
    const auto plan = plan_to_rate_by(*database, command, revision, failure);
    if (!plan) {
        return failure;
    }
    const auto rated = accounting::rate_usage(*database, *query, *plan);
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!rated) {
        return told("cannot rate: " + daemon::describe(rated.error()));
    }
    const std::string usage = accounting::usage_json(*rated);
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object();
        json.field("plan", plan->name).field("revision", revision).field("dry_run", true);
        json.key("usage").raw(usage).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    const auto parsed = report::JsonValue::parse(usage);
    if (!parsed) {
        return told("cannot rate: too many rows");
    }
    return {command.has("--csv") ? report::usage_csv(*parsed, report::list_values(command, "--by"))
                                 : report::usage_report_text(*parsed, is_terminal, columns),
            "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> plan_commands(const report::OptionSpec& state) {
    const report::OptionSpec revision = {"--rev", "N", OptionValue::Required,
                                         false,   {},  "this revision (default: the latest)"};
    report::CommandSpec usage = daemon::usage_spec();
    report::CommandSpec rate = {"rate", "", 0, 0, {}, "book what usage costs, or only compute it"};
    rate.options = {
        {"--dry-run", "", OptionValue::None, false, {}, "compute only, by the plan that is named"},
        {"--plan", "PLAN", OptionValue::Required, false, {}, "name or number of an added plan"},
        revision,
        {"--plan-file",
         "F",
         OptionValue::Required,
         false,
         {},
         "a plan file that has not been added"},
        state};
    for (report::OptionSpec& option : usage.options) {
        rate.options.push_back(option);
    }
    std::vector<report::CommandSpec> all = {
        {"plan check", "F...", 1, kMaxPlanFiles, {}, "look for errors in price plans"},
        {"plan add",
         "F",
         1,
         1,
         {{"--from", "TIME", OptionValue::Required, false, {}, "valid from then on (default: now)"},
          {"--zone",
           "ZONE",
           OptionValue::Required,
           false,
           {},
           "time zone, such as Europe/Zurich (default: UTC)"},
          state},
         "add a price plan, or a revision of one"},
        daemon::shown_as_table(
            {"plan show",
             "[PLAN]",
             0,
             1,
             {revision,
              {"--toml", "", OptionValue::None, false, {}, "print the file as it was added"},
              state},
             "the price plans, or the terms of one"}),
        std::move(rate)};
    for (report::CommandSpec& command : charge_commands(state)) {
        all.push_back(std::move(command));
    }
    return all;
}

bool is_plan_command(std::string_view name) {
    return name == "rate" || name.starts_with("plan ");
}

CommandOutput plan_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    if (command.name == "plan check") {
        return daemon::check_command(command.arguments, command, check_plan_file);
    }
    if (command.name == "plan add") {
        return add_command(command);
    }
    if (command.name == "plan use") {
        return use_plan_command(command);
    }
    return command.name == "rate" ? rate_command(command, is_terminal, columns)
                                  : show_command(command, is_terminal, columns);
}

std::vector<config::Diagnostic> check_plan_file(std::string_view text, const std::string& file) {
    return rating::parse_plan(text, file, rating::PlanUse::New).diagnostics;
}

}  // namespace continuo::snapt::commands
