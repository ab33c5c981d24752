#include "snapt/commands/quota_commands.hpp"

#include "common/daemon/command_program.hpp"
#include "common/host/privileges.hpp"
#include "common/report/csv.hpp"
#include "common/report/json.hpp"
#include "snapt/accounting/quota.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/store/money.hpp"
#include "snapt/users/user_commands.hpp"

#include <array>

namespace continuo::snapt::commands {

using accounting::QuotaUse;
using accounting::TermsChange;
using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;
using store::kUsPerSecond;

namespace {

constexpr std::string_view kNothing = "-";
// Fields of --csv.
constexpr std::array<std::string_view, 12> kUseFields = {
    "user",  "account",    "quota_bytes",  "period",          "zone",       "from",
    "until", "used_bytes", "used_percent", "credit_limit_ud", "balance_ud", "then"};

double percent_of(const QuotaUse& use) {
    return 100.0 * static_cast<double>(use.used_bytes) /
           static_cast<double>(use.terms.quota->bytes);
}

// "quota of alice: 5MB/day, then stop"
std::string change_text(const std::string& user, const ParsedCommand& command) {
    std::string text = "quota of " + user + ":";
    std::string_view comma;
    const auto add = [&](const std::string& part) {
        text += comma;
        text += " " + part;
        comma = ",";
    };
    if (command.arguments.size() > 1) {
        add(command.arguments[1]);
    }
    for (const char* option : {"--then", "--credit", "--zone"}) {
        if (const auto value = command.value(option)) {
            add(std::string(option + 2) + " " + *value);
        }
    }
    return text + "\n";
}

void write_use(JsonWriter& json, const QuotaUse& use) {
    const accounting::AccountTerms& terms = use.terms;
    const bool has_quota = terms.quota.has_value();
    const auto with_quota = [&](int64_t value) {
        return has_quota ? std::optional(value) : std::nullopt;
    };
    json.begin_object().field("user", terms.account.user).field("account", terms.account.id);
    json.field("quota_bytes", has_quota ? std::optional(terms.quota->bytes) : std::nullopt);
    json.field("period", has_quota ? std::optional(terms.quota->period) : std::nullopt);
    json.field("zone", terms.zone);
    json.field("from", with_quota(terms.from_us / kUsPerSecond));
    json.field("until", with_quota(terms.until_us / kUsPerSecond));
    json.field("used_bytes", with_quota(use.used_bytes));
    json.key("used_percent");
    has_quota ? json.number(percent_of(use), 2) : json.null();
    json.field("credit_limit_ud", terms.credit_limit_ud).field("balance_ud", terms.balance_ud);
    json.field("then", accounting::to_string(terms.then)).end_object();
}

std::vector<std::string> row_of(const QuotaUse& use) {
    const accounting::AccountTerms& terms = use.terms;
    const std::string nothing(kNothing);
    const std::string credit =
        terms.credit_limit_ud ? report::format_denarii(*terms.credit_limit_ud) : nothing;
    std::vector<std::string> row = {
        terms.account.user, nothing, nothing, nothing, nothing, nothing, nothing};
    if (terms.quota) {
        row = {terms.account.user,
               report::format_signed_bytes(terms.quota->bytes),
               terms.quota->period,
               report::format_signed_bytes(use.used_bytes),
               report::format_percent(percent_of(use)),
               report::format_utc(terms.from_us / kUsPerSecond),
               report::format_utc(terms.until_us / kUsPerSecond)};
    }
    row.push_back(credit);
    row.push_back(report::format_denarii(terms.balance_ud));
    row.push_back(accounting::to_string(terms.then));
    return row;
}

CommandOutput show_quotas(const ParsedCommand& command, bool is_terminal, size_t columns) {
    CommandOutput failure;
    auto database = open_ledger(command, store::OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    const auto user =
        command.arguments.empty() ? std::nullopt : std::optional(command.arguments.front());
    const auto uses = accounting::quota_uses(*database, user, daemon::utc_us());
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!uses) {
        return told("cannot read the quotas: " + daemon::describe(uses.error()));
    }
    JsonWriter json;
    json.begin_array();
    Table table({{"USER"},
                 {"QUOTA", Align::Right},
                 {"PERIOD"},
                 {"USED", Align::Right},
                 {"USED %", Align::Right, 1},
                 {"SINCE", Align::Left, 3},
                 {"UNTIL", Align::Left, 2},
                 {"CREDIT", Align::Right, 2},
                 {"BALANCE", Align::Right, 2},
                 {"THEN"}});
    std::string csv = report::csv_head(kUseFields);
    for (const QuotaUse& use : *uses) {
        JsonWriter row;
        write_use(row, use);
        const std::string row_json = row.take();
        json.raw(row_json);
        csv += report::csv_row(row_json, kUseFields);
        table.add_row(row_of(use));
    }
    json.end_array();
    const std::string text = command.has("--csv")    ? csv
                             : command.has("--json") ? json.take() + "\n"
                             : table.rows() == 0     ? "no quotas\n"
                                                     : table.render(is_terminal, columns);
    return {text, "", report::kExitGood};
}

std::optional<std::string> read_quota(const std::string& text, TermsChange& change) {
    const auto quota = text == "none" ? std::nullopt : users::parse_user_quota(text);
    if (text != "none" && !quota) {
        return "quota \"" + text + "\"; expected such as 50GiB/month, 1GB/day or none";
    }
    change.quota = quota;
    return std::nullopt;
}

std::optional<std::string> read_credit(const std::string& text, TermsChange& change) {
    const auto limit_ud = text == "none" ? std::nullopt : store::parse_denarii(text);
    if (text != "none" && !limit_ud) {
        return "--credit \"" + text + "\"; expected denarii such as 0 or 10, or none";
    }
    change.credit_limit_ud = limit_ud;
    return std::nullopt;
}

// The fault of the command line; nothing: none.
std::optional<std::string> read_change(const ParsedCommand& command, TermsChange& change) {
    if (command.arguments.size() > 1) {
        if (auto wrong = read_quota(command.arguments[1], change)) {
            return wrong;
        }
    }
    if (const auto credit = command.value("--credit")) {
        if (auto wrong = read_credit(*credit, change)) {
            return wrong;
        }
    }
    if (const auto then = command.value("--then")) {
        change.then = accounting::parse_exhaustion(*then);
        if (!change.then) {
            return "--then \"" + *then + "\"; expected " + std::string(accounting::kExhaustionForm);
        }
    }
    change.zone = command.value("--zone");
    const bool is_empty = !change.quota && !change.credit_limit_ud && !change.then && !change.zone;
    return is_empty ? std::optional<std::string>("nothing to change: name a quota, --credit, "
                                                 "--then or --zone")
                    : std::nullopt;
}

CommandOutput change_quota(const ParsedCommand& command) {
    const std::string& user = command.arguments[0];
    TermsChange change;
    if (const auto wrong = read_change(command, change)) {
        return told(*wrong, report::kExitUsage);
    }
    CommandOutput failure;
    auto database = open_ledger(command, store::OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    const auto changed = accounting::change_terms(*database, user, change);
    const auto uses = changed ? accounting::quota_uses(*database, user, daemon::utc_us())
                              : base::Result<std::vector<QuotaUse>>(changed.error());
    host::match_owner(command.value_or("--state", kDefaultState));
    if (!changed) {
        return told("nothing is changed: " + daemon::describe(changed.error()));
    }
    if (command.has("--json")) {
        JsonWriter json;
        if (uses && !uses->empty()) {
            write_use(json, uses->front());
        } else {
            json.begin_object().field("user", user).end_object();
        }
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {change_text(user, command), "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> quota_commands(const report::OptionSpec& state) {
    return {daemon::shown_as_table({"quota show",
                                    "[USER]",
                                    0,
                                    1,
                                    {report::csv_option(), state},
                                    "how much of quotas and credits is used"}),
            {"quota set",
             "USER [QUOTA]",
             1,
             2,
             {{"--then",
               "ACTION",
               OptionValue::Required,
               false,
               {},
               "when quota or credit is used up: notify, stop or throttle=RATE"},
              {"--credit",
               "AMOUNT",
               OptionValue::Required,
               false,
               {},
               "how far the balance may be below zero, or none for no limit"},
              {"--zone",
               "ZONE",
               OptionValue::Required,
               false,
               {},
               "time zone in which the user's days and months begin"},
              state},
             "set a quota, such as 50GiB/month, or a credit"}};
}

bool is_quota_command(std::string_view name) {
    return name == "quota show" || name == "quota set";
}

CommandOutput quota_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    return command.name == "quota show" ? show_quotas(command, is_terminal, columns)
                                        : change_quota(command);
}

}  // namespace continuo::snapt::commands
