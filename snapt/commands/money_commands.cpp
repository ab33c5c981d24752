#include "snapt/commands/money_commands.hpp"

#include "common/config/units.hpp"
#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "snapt/accounting/verify.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/commands/statement_command.hpp"
#include "snapt/ledger/charges.hpp"

#include <array>
#include <limits>
#include <optional>

namespace continuo::snapt::commands {

using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionSpec;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using store::Balance;
using store::OpenMode;

namespace {

// --- balance

// Fields of --csv.
constexpr std::array<std::string_view, 5> kBalanceFields = {"user", "account", "removed",
                                                            "balance_ud", "entries"};

// The day in UTC; empty if unknown.
std::string removed_day(const Balance& balance) {
    constexpr size_t kDayBytes = 10;
    const int64_t at_us = balance.removed_us.value_or(0);
    return at_us == 0 ? "" : report::format_utc(at_us / store::kUsPerSecond).substr(0, kDayBytes);
}

// Another account may have the name.
std::string account_text(const Balance& balance) {
    const std::string day = removed_day(balance);
    return balance.account.user +
           (balance.removed_us ? " (removed" + (day.empty() ? "" : " " + day) + ")" : "");
}

void write_balance(JsonWriter& json, const Balance& balance) {
    json.begin_object().field("user", balance.account.user);
    json.field("account", balance.account.id);
    json.field("removed", balance.removed_us ? std::optional(removed_day(balance)) : std::nullopt);
    json.field("balance_ud", balance.balance_ud);
    json.field("entries", balance.entries).end_object();
}

CommandOutput balance_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    const auto user =
        command.arguments.empty() ? std::nullopt : std::optional(command.arguments.front());
    const auto all = store::balances(*database, user);
    if (!all) {
        return told("cannot read the accounts: " + daemon::describe(all.error()));
    }
    if (user && all->empty()) {
        return told(*user + ": no such user");
    }
    JsonWriter json;
    json.begin_array();
    Table table({{"USER"},
                 {"ACCOUNT", Align::Right, 1},
                 {"BALANCE", Align::Right},
                 {"ENTRIES", Align::Right, 1}});
    std::string csv = report::csv_head(kBalanceFields);
    for (const Balance& balance : *all) {
        JsonWriter row;
        write_balance(row, balance);
        const std::string row_json = row.take();
        json.raw(row_json);
        csv += report::csv_row(row_json, kBalanceFields);
        table.add_row({account_text(balance), std::to_string(balance.account.id),
                       report::format_denarii(balance.balance_ud),
                       report::format_count(static_cast<uint64_t>(balance.entries))});
    }
    json.end_array();
    const std::string text = command.has("--csv")    ? csv
                             : command.has("--json") ? json.take() + "\n"
                             : table.rows() == 0     ? "no users\n"
                                                     : table.render(is_terminal, columns);
    return {text, "", report::kExitGood};
}

// --- topup, adjust

// The entry to book; nothing, with the answer in `failure`, when the command is wrong.
std::optional<store::MoneyEntry> entry_from(const ParsedCommand& command, CommandOutput& failure) {
    store::MoneyEntry entry;
    entry.user_id = command.arguments.front();
    if (const auto account = command.value("--account")) {
        const auto number = config::parse_unsigned(*account, std::numeric_limits<int64_t>::max());
        if (!number || *number == 0) {
            failure = told("--account \"" + *account + "\"; expected a number from 1",
                           report::kExitUsage);
            return std::nullopt;
        }
        entry.account_id = static_cast<int64_t>(*number);
    }
    entry.ref = command.value_or("--ref", "");
    entry.note = command.value_or("--note", "");
    entry.at_us = daemon::utc_us();
    entry.actor = actor();
    const bool is_topup = command.name == "topup";
    entry.kind = is_topup ? store::EntryKind::Topup : store::EntryKind::Adjust;
    const auto credit = is_topup ? command.arguments[1] : command.value("--credit");
    const auto debit = is_topup ? std::nullopt : command.value("--debit");
    if (credit.has_value() == debit.has_value()) {
        failure = told("name one of --credit and --debit", report::kExitUsage);
        return std::nullopt;
    }
    const std::string text = credit ? *credit : *debit;
    const auto amount_ud = store::parse_denarii(text);
    if (!amount_ud || *amount_ud == 0) {
        failure = told("amount \"" + text +
                           "\"; expected denarii such as 50 or 0.25, above zero, with six "
                           "decimals at most",
                       report::kExitUsage);
        return std::nullopt;
    }
    entry.amount_ud = credit ? *amount_ud : -*amount_ud;
    if (entry.ref.empty()) {
        failure = told("--ref is missing: a unique name of this booking, such as the number of "
                       "an invoice; repeating it books nothing",
                       report::kExitUsage);
        return std::nullopt;
    }
    if (ledger::is_reserved_ref(entry.ref)) {
        failure = told("--ref \"" + entry.ref + "\"; u:, d: and r: begin those of usage",
                       report::kExitUsage);
        return std::nullopt;
    }
    return entry;
}

CommandOutput book_command(const ParsedCommand& command) {
    CommandOutput failure;
    const auto wanted = entry_from(command, failure);
    if (!wanted) {
        return failure;
    }
    auto database = open_ledger(command, OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    const auto booked = store::book(*database, *wanted);
    const auto balance = booked ? store::balance_of(*database, booked->entry.account_id)
                                : base::Result<Balance>(booked.error());
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!balance) {
        const std::string what =
            booked ? "booked, but the balance cannot be read: " : "nothing is booked: ";
        return told(what + daemon::describe(balance.error()));
    }
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("user", wanted->user_id);
        json.field("account", booked->entry.account_id);
        json.field("entry_id", booked->entry.entry_id).field("booked", booked->is_new);
        json.field("amount_ud", booked->entry.amount_ud);
        json.field("balance_ud", balance->balance_ud).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {(booked->is_new ? "booked " : "booked before: ") +
                report::format_denarii(booked->entry.amount_ud) + " for " + wanted->user_id + " (" +
                wanted->ref + "); balance " + report::format_denarii(balance->balance_ud) + "\n",
            "", report::kExitGood};
}

// --- verify

CommandOutput verify_command(const ParsedCommand& command, bool is_terminal) {
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    const auto checks = accounting::verify_ledger(*database);
    if (!checks) {
        return told("cannot verify: " + daemon::describe(checks.error()));
    }
    bool is_good = true;
    std::string text;
    JsonWriter list;
    list.begin_array();
    for (const accounting::LedgerCheck& check : *checks) {
        is_good = is_good && check.is_good;
        const std::string word = check.is_good
                                     ? report::coloured("ok  ", report::Colour::Green, is_terminal)
                                     : report::coloured("fail", report::Colour::Red, is_terminal);
        text += word + "  " + std::string(check.what) + ": " + check.found + "\n";
        list.begin_object().field("check", check.what).field("good", check.is_good);
        list.field("found", check.found).end_object();
    }
    list.end_array();
    const int exit_code = is_good ? report::kExitGood : report::kExitError;
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("good", is_good).key("checks").raw(list.take()).end_object();
        return {json.take() + "\n", "", exit_code};
    }
    return {text, "", exit_code};
}

}  // namespace

std::vector<report::CommandSpec> money_commands(const OptionSpec& state) {
    const OptionSpec ref = {
        "--ref", "REF", OptionValue::Required,
        false,   {},    "unique name of the booking; repeating it books nothing"};
    const OptionSpec account = {"--account", "N", OptionValue::Required,
                                false,       {},  "account number, such as of a removed user"};
    const OptionSpec note = {"--note", "TEXT", OptionValue::Required,
                             false,    {},     "text kept with the booking"};
    return {daemon::shown_as_table({"balance",
                                    "[USER]",
                                    0,
                                    1,
                                    {report::csv_option(), state},
                                    "users' balances, in denarii"}),
            {"topup", "USER AMOUNT", 2, 2, {account, ref, note, state}, "book a payment of a user"},
            {"adjust",
             "USER",
             1,
             1,
             {{"--credit", "AMOUNT", OptionValue::Required, false, {}, "credit the user"},
              {"--debit", "AMOUNT", OptionValue::Required, false, {}, "charge the user"},
              account,
              ref,
              note,
              state},
             "book a correction"},
            statement_spec(state),
            {"verify", "", 0, 0, {state}, "check that the ledger is whole and unchanged"}};
}

bool is_money_command(std::string_view name) {
    return name == "balance" || name == "topup" || name == "adjust" || name == "verify" ||
           name == "statement";
}

CommandOutput money_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    if (command.name == "balance") {
        return balance_command(command, is_terminal, columns);
    }
    if (command.name == "statement") {
        return statement_command(command, is_terminal, columns);
    }
    return command.name == "verify" ? verify_command(command, is_terminal) : book_command(command);
}

}  // namespace continuo::snapt::commands
