#include "snapt/quota_commands.hpp"

#include "common/daemon/command_program.hpp"
#include "common/io/privileges.hpp"
#include "common/report/json.hpp"
#include "snapt/accounting/quota.hpp"
#include "snapt/cli.hpp"
#include "snapt/ledger_access.hpp"
#include "snapt/user_commands.hpp"

namespace continuo::snapt {

using report::Align;
using report::CommandOutput;
using report::JsonWriter;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

CommandOutput show_quotas(const ParsedCommand& command, bool is_terminal, size_t columns) {
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadOnly, failure);
    if (!database) {
        return failure;
    }
    const auto user =
        command.arguments.empty() ? std::nullopt : std::optional(command.arguments.front());
    const auto uses = quota_uses(*database, user, daemon::utc_us());
    io::match_owner(command.value_or("--state", kDefaultState));
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
                 {"SINCE", Align::Left, 2}});
    for (const QuotaUse& use : *uses) {
        const double percent =
            100.0 * static_cast<double>(use.used_bytes) / static_cast<double>(use.quota.bytes);
        json.begin_object().field("user", use.account.user).field("account", use.account.id);
        json.field("quota_bytes", use.quota.bytes).field("period", use.quota.period);
        json.field("zone", use.zone).field("from", use.from_us / kUsPerSecond);
        json.field("used_bytes", use.used_bytes).field("used_percent", percent, 2).end_object();
        table.add_row({use.account.user, report::format_signed_bytes(use.quota.bytes),
                       use.quota.period, report::format_signed_bytes(use.used_bytes),
                       report::format_percent(percent),
                       report::format_utc(use.from_us / kUsPerSecond)});
    }
    json.end_array();
    const std::string text = command.has("--json") ? json.take() + "\n"
                             : table.rows() == 0   ? "no quotas\n"
                                                   : table.render(is_terminal, columns);
    return {text, "", report::kExitGood};
}

CommandOutput change_quota(const ParsedCommand& command) {
    const std::string& user = command.arguments[0];
    const std::string& text = command.arguments[1];
    const auto quota = text == "none" ? std::nullopt : parse_user_quota(text);
    if (text != "none" && !quota) {
        return told("quota \"" + text + "\"; expected such as 50GiB/month, 1GB/day or none",
                    report::kExitUsage);
    }
    CommandOutput failure;
    auto database = open_ledger(command, OpenMode::ReadWrite, failure);
    if (!database) {
        return failure;
    }
    const auto changed = set_quota(*database, user, quota, command.value("--zone"));
    io::match_owner(command.value_or("--state", kDefaultState));
    if (!changed) {
        return told("nothing is changed: " + daemon::describe(changed.error()));
    }
    if (command.has("--json")) {
        JsonWriter json;
        json.begin_object().field("user", user);
        json.field("quota_bytes", quota ? std::optional(quota->bytes) : std::nullopt);
        json.field("period", quota ? std::optional(quota->period) : std::nullopt).end_object();
        return {json.take() + "\n", "", report::kExitGood};
    }
    return {"quota of " + user + ": " + text + "\n", "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> quota_commands(const report::OptionSpec& state) {
    return {
        daemon::shown_as_table(
            {"quota show", "[USER]", 0, 1, {state}, "how much of their quotas users have used"}),
        {"quota set",
         "USER QUOTA",
         2,
         2,
         {{"--zone",
           "ZONE",
           OptionValue::Required,
           false,
           {},
           "time zone in which the user's days and months begin"},
          state},
         "give a user a quota, such as 50GiB/month, or none"}};
}

bool is_quota_command(std::string_view name) {
    return name == "quota show" || name == "quota set";
}

CommandOutput quota_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    return command.name == "quota show" ? show_quotas(command, is_terminal, columns)
                                        : change_quota(command);
}

}  // namespace continuo::snapt
