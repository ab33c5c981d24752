#include "snapt/commands/charge_commands.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/report/json.hpp"
#include "common/report/table.hpp"
#include "snapt/accounting/usage_booker.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/store/time_zone.hpp"

#include <algorithm>
#include <limits>

namespace continuo::snapt::commands {

using accounting::Booked;
using ledger::kQuarterUs;
using ledger::Rerated;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using store::Database;

namespace {

constexpr std::string_view kNoneText = "none";
constexpr std::string_view kDefaultText = "default";
// Charges checked per transaction.
constexpr size_t kCommandBatch = 200;

// A quarter of an hour has one plan.
int64_t quarter_from(int64_t at_us) {
    return (at_us + kQuarterUs - 1) / kQuarterUs * kQuarterUs;
}

// The number of the plan for `plan use`; nothing, with the answer in `failure`, when there is none.
std::optional<int64_t>
plan_named(Database& database, const ParsedCommand& command, CommandOutput& failure) {
    const std::string& name = command.arguments.front();
    if (name == kNoneText) {
        return store::kNoPlan;
    }
    if (name == kDefaultText) {
        if (!command.has("--user")) {
            failure = told("\"default\" is for a --user, who then has the plan of all others",
                           report::kExitUsage);
            return std::nullopt;
        }
        return store::kPlanOfOthers;
    }
    const auto plan = store::find_plan(database, name, std::nullopt);
    if (!plan) {
        failure = told("plan " + name + ": " + daemon::describe(plan.error()));
        return std::nullopt;
    }
    return plan->plan_id;
}

// The account of the current user.
std::optional<int64_t>
account_named(Database& database, const std::string& user, CommandOutput& failure) {
    const auto all = store::balances(database, user);
    if (!all) {
        failure = told("cannot read the accounts: " + daemon::describe(all.error()));
        return std::nullopt;
    }
    for (const store::Balance& balance : *all) {
        if (!balance.removed_us) {
            return balance.account.id;
        }
    }
    failure = told(user + ": no such user");
    return std::nullopt;
}

// The plan for `rate`; nothing in `terms`: the one in force. False: the reason is in `failure`.
bool take_terms(Database& database,
                const ParsedCommand& command,
                std::optional<store::PlanTerms>& terms,
                CommandOutput& failure) {
    const auto name = command.value("--plan");
    if (command.has("--plan-file")) {
        failure = told("--plan-file is for --dry-run: a plan that is booked by is added first",
                       report::kExitUsage);
        return false;
    }
    if (!name) {
        return true;
    }
    std::optional<int64_t> revision;
    if (const auto text = command.value("--rev")) {
        const auto number = config::parse_unsigned(*text, std::numeric_limits<int64_t>::max());
        if (!number || *number == 0) {
            failure = told("--rev \"" + *text + "\"; expected a number from 1", report::kExitUsage);
            return false;
        }
        revision = static_cast<int64_t>(*number);
    }
    const auto plan = store::find_plan(database, *name, revision);
    if (!plan) {
        failure = told("plan " + *name + ": " + daemon::describe(plan.error()));
        return false;
    }
    terms = store::PlanTerms{plan->plan_id, plan->revision};
    return true;
}

base::Result<Booked> book_all(accounting::UsageBooker& booker) {
    Booked all;
    while (true) {
        const Booked some = CTN_TRY(booker.step(daemon::utc_us(), accounting::kBookAll));
        all.records += some.records;
        all.entries += some.entries;
        all.faults += some.faults;
        if (!some.has_more) {
            return all;
        }
        if (some.has_written) {
            store::pause_between_transactions();
        }
    }
}

base::Result<Rerated>
rerate_all(Database& database, store::PlanBook& plans, const ledger::RerateSpan& span) {
    Rerated all;
    while (true) {
        const Rerated some = CTN_TRY(ledger::rerate(database, plans, span, daemon::utc_us(),
                                                    actor(), all.next, kCommandBatch));
        all.charges += some.charges;
        all.gone += some.gone;
        all.net_ud += some.net_ud;
        all.next = some.next;
        if (all.next == 0) {
            return all;
        }
        if (some.charges > 0) {
            store::pause_between_transactions();
        }
    }
}

std::string count_text(size_t count, const std::string& what) {
    return report::format_count(count) + " " + what + (count == 1 ? "" : "s");
}

CommandOutput rated_output(const ParsedCommand& command,
                           const Booked& booked,
                           const std::optional<Rerated>& rerated,
                           const std::string& trouble) {
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("dry_run", false);
        json.field("booked_records", static_cast<int64_t>(booked.records));
        json.field("entries", static_cast<int64_t>(booked.entries));
        json.field("faults", static_cast<int64_t>(booked.faults));
        json.key("rerated");
        if (rerated) {
            json.begin_object().field("charges", static_cast<int64_t>(rerated->charges));
            json.field("gone", static_cast<int64_t>(rerated->gone));
            json.field("net_ud", rerated->net_ud).end_object();
        } else {
            json.null();
        }
        json.end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    std::string text =
        "booked " + count_text(booked.records, "record") + ": " +
        (booked.entries == 1 ? "1 entry" : report::format_count(booked.entries) + " entries") +
        "\n";
    if (rerated) {
        text += "rated again " + count_text(rerated->charges, "charge") + ": " +
                report::format_denarii(rerated->net_ud) + " more\n";
        if (rerated->gone > 0) {
            text += "left " + count_text(rerated->gone, "charge") +
                    " as before: their records were removed\n";
        }
    }
    text += trouble.empty() ? "" : trouble + "\n";
    return {text, "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> charge_commands(const report::OptionSpec& state) {
    return {{"plan use",
             "PLAN",
             1,
             1,
             {{"--user", "USER", OptionValue::Required, false, {}, "for this user alone"},
              {"--from", "TIME", OptionValue::Required, false, {}, "from then on (default: now)"},
              {"--zone",
               "ZONE",
               OptionValue::Required,
               false,
               {},
               "time zone, such as Europe/Zurich (default: UTC)"},
              state},
             "charge usage by PLAN, by none or by default"}};
}

CommandOutput use_plan_command(const ParsedCommand& command) {
    CommandOutput failure;
    store::PlanUse use;
    use.valid_from_us = daemon::utc_us();
    if (const auto from = command.value("--from")) {
        const auto zone = store::TimeZone::load(command.value_or("--zone", "UTC"));
        const auto time_us = zone ? zone->parse_time_us(*from) : std::nullopt;
        if (!time_us) {
            return told("--from \"" + *from +
                            "\"; expected a day (2026-11-01) or a time "
                            "(2026-11-01T12:00:00Z), and a known --zone",
                        report::kExitUsage);
        }
        use.valid_from_us = *time_us;
    }
    auto database = open_ledger(command, store::OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    const auto user = command.value("--user");
    const auto plan_id = plan_named(*database, command, failure);
    const auto account_id = plan_id && user ? account_named(*database, *user, failure)
                                            : std::optional(store::kNoAccount);
    if (!plan_id || !account_id) {
        return failure;
    }
    use.plan_id = *plan_id;
    use.account_id = *account_id;
    const auto used = store::use_plan(*database, use, daemon::utc_us(), actor());
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!used) {
        return told("nothing is changed: " + daemon::describe(used.error()));
    }
    const int64_t from_us = quarter_from(use.valid_from_us);
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("plan_id", use.plan_id);
        json.field("user", user);
        json.field("from", from_us / store::kUsPerSecond).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {"plan " + command.arguments.front() + " for " +
                (user ? *user : std::string("all who have none of their own")) +
                ", of usage from " + report::format_utc(from_us / store::kUsPerSecond) + " on\n",
            "", report::kExitGood};
}

CommandOutput rate_and_book(const ParsedCommand& command, const ledger::UsageQuery& query) {
    const bool is_again = command.has("--from");
    for (const char* option : {"--by", "--csv"}) {
        if (command.has(option)) {
            return told(std::string(option) + " is for --dry-run", report::kExitUsage);
        }
    }
    if (!is_again && (command.has("--plan") || command.has("--to") || command.has("--user"))) {
        return told("to rate again what was booked, say from when on: --from", report::kExitUsage);
    }
    CommandOutput failure;
    auto database = open_ledger(command, store::OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    ledger::RerateSpan span;
    if (!take_terms(*database, command, span.terms, failure)) {
        return failure;
    }
    accounting::UsageBooker booker(*database);
    const auto booked = book_all(booker);
    if (!booked) {
        return told("cannot book usage: " + daemon::describe(booked.error()));
    }
    std::optional<Rerated> rerated;
    if (is_again) {
        span.from_us = query.from_us.value_or(0);
        span.to_us = query.to_us.value_or(std::numeric_limits<int64_t>::max());
        span.user = query.user;
        store::PlanBook plans;
        const auto again = rerate_all(*database, plans, span);
        if (!again) {
            return told("cannot rate again: " + daemon::describe(again.error()));
        }
        rerated = *again;
    }
    host::match_owner(command.value_or("--state", kDefaultState));
    if (booker.has_no_plan()) {
        return told("no price plan is in use: see `snapt plan use`");
    }
    const auto trouble = ledger::charge_trouble(*database);
    if (!trouble) {
        return told("cannot read the charges: " + daemon::describe(trouble.error()));
    }
    return rated_output(command, *booked, rerated, *trouble);
}

}  // namespace continuo::snapt::commands
