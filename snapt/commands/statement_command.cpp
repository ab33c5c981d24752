#include "snapt/commands/statement_command.hpp"

#include "common/base/traffic_class.hpp"
#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "snapt/commands/ledger_access.hpp"

#include <algorithm>
#include <array>
#include <limits>

namespace continuo::snapt::commands {

using accounting::AccountStatement;
using accounting::StatementUsage;
using ledger::ChargeSums;
using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using store::EntryKind;
using store::kUsPerSecond;
using store::MoneyEntry;

namespace {

// The account of --account, otherwise the current user's, otherwise the only removed one.
std::optional<int64_t> account_of_statement(store::Database& database,
                                            const ParsedCommand& command,
                                            CommandOutput& failure) {
    const std::string& user = command.arguments.front();
    const auto all = store::balances(database, user);
    if (!all) {
        failure = told("cannot read the accounts: " + daemon::describe(all.error()));
        return std::nullopt;
    }
    if (const auto text = command.value("--account")) {
        const auto number = config::parse_unsigned(*text, std::numeric_limits<int64_t>::max());
        for (const store::Balance& balance : *all) {
            if (number && balance.account.id == static_cast<int64_t>(*number)) {
                return balance.account.id;
            }
        }
        failure = told("--account \"" + *text + "\": no such account of " + user);
        return std::nullopt;
    }
    for (const store::Balance& balance : *all) {
        if (!balance.removed_us || all->size() == 1) {
            return balance.account.id;
        }
    }
    failure = told(all->empty() ? user + ": no such user"
                                : user + " was removed more than once: name the --account, as "
                                         "`snapt balance` shows it");
    return std::nullopt;
}

void write_sums(JsonWriter& json, const ChargeSums& sums) {
    json.field("records", sums.records);
    json.field("payload_up", sums.pay_up).field("payload_down", sums.pay_down);
    json.field("pre", sums.pre).field("post", sums.post);
    json.field("saved", sums.pre - sums.post);
    json.field("gross_ud", sums.gross_ud).field("discount_ud", sums.discount_ud);
    json.field("net_ud", sums.net_ud());
}

std::string usage_text(const AccountStatement& statement, bool is_terminal, size_t columns) {
    Table table({{"CLASS"},
                 {"PAYLOAD UP", Align::Right, 1},
                 {"PAYLOAD DOWN", Align::Right, 1},
                 {"SAVED", Align::Right, 2},
                 {"GROSS", Align::Right},
                 {"DISCOUNT", Align::Right},
                 {"NET", Align::Right}});
    const auto add = [&table](const std::string& name, const ChargeSums& sums) {
        table.add_row({name, report::format_signed_bytes(sums.pay_up),
                       report::format_signed_bytes(sums.pay_down),
                       report::format_signed_bytes(sums.pre - sums.post),
                       report::format_denarii(sums.gross_ud),
                       report::format_denarii(sums.discount_ud),
                       report::format_denarii(sums.net_ud())});
    };
    for (const StatementUsage& usage : statement.usage) {
        add(class_name(usage.cls), usage.sums);
    }
    add("all", statement.total);
    if (statement.late.records > 0) {
        add("booked late", statement.late);
    }
    return table.render(is_terminal, columns);
}

std::string bookings_text(const AccountStatement& statement, bool is_terminal, size_t columns) {
    Table table({{"BOOKED"},
                 {"AMOUNT", Align::Right},
                 {"WHAT"},
                 {"REFERENCE", Align::Left, 1},
                 {"NOTE", Align::Left, 2}});
    const auto add = [&table](const std::string& at, int64_t amount_ud, std::string_view what,
                              const std::string& ref, const std::string& note) {
        table.add_row({at, report::format_denarii(amount_ud), std::string(what), ref, note});
    };
    add("", statement.opening_ud, "before", "", "");
    add("", statement.usage_ud, "usage", "", "");
    add("", statement.discount_ud, "discount", "", "");
    if (statement.late_ud != 0) {
        add("", statement.late_ud, "usage booked late", "", "");
    }
    if (statement.rerated_ud != 0) {
        add("", statement.rerated_ud, "usage rated again", "", "");
    }
    for (const MoneyEntry& entry : statement.bookings) {
        add(report::format_utc(entry.at_us / kUsPerSecond), entry.amount_ud,
            booking_name(entry.kind), entry.ref, entry.note);
    }
    if (statement.further_bookings > 0) {
        add("", statement.further_ud, std::to_string(statement.further_bookings) + " further ones",
            "", "");
    }
    add("", statement.closing_ud, "after", "", "");
    return table.render(is_terminal, columns);
}

std::string
csv_usage(const std::string& what, const std::string& traffic_class, const ChargeSums& sums) {
    std::vector<std::string> fields = {what, traffic_class};
    for (const int64_t value : {sums.records, sums.pay_up, sums.pay_down, sums.pre, sums.post,
                                sums.gross_ud, sums.discount_ud, -sums.net_ud()}) {
        fields.push_back(std::to_string(value));
    }
    fields.insert(fields.end(), {"", "", ""});
    return report::csv_line(fields);
}

std::string csv_sum(const std::string& what, int64_t amount_ud) {
    return report::csv_line(
        {what, "", "", "", "", "", "", "", "", std::to_string(amount_ud), "", "", ""});
}

}  // namespace

std::string_view booking_name(EntryKind kind) {
    switch (kind) {
    case EntryKind::Topup:
        return "payment";
    case EntryKind::Adjust:
        return "correction";
    default:
        return to_string(kind);
    }
}

std::string class_name(int64_t cls) {
    const bool is_known = cls >= 0 && cls < int64_t{base::kTrafficClasses};
    return is_known ? std::string(base::token(static_cast<base::TrafficClass>(cls))) : "?";
}

std::string statement_json(const AccountStatement& statement) {
    JsonWriter json;
    json.begin_object().field("user", statement.account.user);
    json.field("account", statement.account.id).field("month", statement.month);
    json.field("zone", statement.zone).field("from", statement.from_us / kUsPerSecond);
    json.field("to", statement.to_us / kUsPerSecond);
    json.field("opening_ud", statement.opening_ud).key("usage").begin_array();
    for (const StatementUsage& usage : statement.usage) {
        json.begin_object().field("class", class_name(usage.cls));
        write_sums(json, usage.sums);
        json.end_object();
    }
    json.end_array().key("total").begin_object();
    write_sums(json, statement.total);
    json.end_object().key("late").begin_object();
    write_sums(json, statement.late);
    json.end_object().field("usage_ud", statement.usage_ud);
    json.field("discount_ud", statement.discount_ud).field("late_ud", statement.late_ud);
    json.field("rerated_ud", statement.rerated_ud).key("bookings").begin_array();
    for (const MoneyEntry& entry : statement.bookings) {
        json.begin_object().field("entry_id", entry.entry_id);
        json.field("kind", to_string(entry.kind)).field("amount_ud", entry.amount_ud);
        json.field("at", entry.at_us / kUsPerSecond).field("ref", entry.ref);
        json.field("note", entry.note).end_object();
    }
    json.end_array().field("further_bookings", statement.further_bookings);
    json.field("further_ud", statement.further_ud);
    json.field("closing_ud", statement.closing_ud).end_object();
    return json.take();
}

std::string statement_csv(const AccountStatement& statement) {
    std::string text = "what,class,records,payload_up,payload_down,pre,post,gross_ud,discount_ud,"
                       "amount_ud,at,ref,note\r\n";
    text += csv_sum("before", statement.opening_ud);
    for (const StatementUsage& usage : statement.usage) {
        text += csv_usage("usage", class_name(usage.cls), usage.sums);
    }
    text += csv_usage("usage booked late", "", statement.late);
    text += csv_sum("usage rated again", statement.rerated_ud);
    for (const MoneyEntry& entry : statement.bookings) {
        text += report::csv_line({std::string(booking_name(entry.kind)), "", "", "", "", "", "", "",
                                  "", std::to_string(entry.amount_ud),
                                  report::format_utc(entry.at_us / kUsPerSecond), entry.ref,
                                  entry.note});
    }
    if (statement.further_bookings > 0) {
        text += csv_sum(std::to_string(statement.further_bookings) + " further ones",
                        statement.further_ud);
    }
    return text + csv_sum("after", statement.closing_ud);
}

report::CommandSpec statement_spec(const report::OptionSpec& state) {
    return {
        "statement",
        "USER",
        1,
        1,
        {{"--month", "MONTH", OptionValue::Required, false, {}, "month, such as 2026-11"},
         {"--zone",
          "ZONE",
          OptionValue::Required,
          false,
          {},
          "time zone of the month (default: the account's)"},
         {"--account",
          "N",
          OptionValue::Required,
          false,
          {},
          "account number, such as of a removed user"},
         {"--csv", "", OptionValue::None, false, {}, "as comma-separated values"},
         {"--page", "", OptionValue::None, false, {}, "as an HTML page for printing"},
         {"--wide", "", OptionValue::None, false, {}, "all columns, however wide the screen is"},
         state},
        "usage, payments and balance of a user's month"};
}

CommandOutput statement_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    const auto month = command.value("--month");
    if (!month) {
        return told("--month is missing, such as 2026-11", report::kExitUsage);
    }
    const std::array forms = {command.has("--csv"), command.has("--page"), command.has("--json")};
    if (std::count(forms.begin(), forms.end(), true) > 1) {
        return told("name one of --csv, --page and --json", report::kExitUsage);
    }
    CommandOutput failure;
    auto database = open_ledger(command, store::OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    const auto account_id = account_of_statement(*database, command, failure);
    if (!account_id) {
        return failure;
    }
    const auto statement = accounting::account_statement(*database, *account_id, *month,
                                                         command.value_or("--zone", ""));
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!statement) {
        return told("no statement: " + daemon::describe(statement.error()));
    }
    if (command.has("--json")) {
        return {statement_json(*statement) + "\n", "", report::kExitGood};
    }
    if (command.has("--csv")) {
        return {statement_csv(*statement), "", report::kExitGood};
    }
    if (command.has("--page")) {
        return {statement_page(*statement), "", report::kExitGood};
    }
    return {"statement of " + statement->account.user + " (account " + std::to_string(*account_id) +
                "), " + statement->month + ", " + statement->zone + "\n\n" +
                usage_text(*statement, is_terminal, columns) + "\n" +
                bookings_text(*statement, is_terminal, columns),
            "", report::kExitGood};
}

}  // namespace continuo::snapt::commands
