#include "snapt/nat_commands.hpp"

#include "common/daemon/startup.hpp"
#include "common/report/status_report.hpp"
#include "snapt/accounting/account.hpp"
#include "snapt/cli.hpp"
#include "snapt/ledger_access.hpp"
#include "snapt/nat_log.hpp"
#include "snapt/nat_question.hpp"

#include <string>

namespace continuo::snapt {

using report::Align;
using report::CommandOutput;
using report::OptionValue;
using report::ParsedCommand;
using report::Table;

namespace {

std::string answer_text(const NatAnswer& answer, bool is_terminal, size_t columns) {
    Table table({{"USER"},
                 {"NODE"},
                 {"PROTO", Align::Left, 1},
                 {"LEASE", Align::Left, 3},
                 {"DESTINATION", Align::Left, 2},
                 {"FROM"},
                 {"UNTIL"}});
    const auto time_text = [](int64_t us) { return report::format_utc(us / kUsPerSecond); };
    for (const NatUse& use : answer.uses) {
        table.add_row(
            {use.user, use.node, use.protocol, use.inner,
             use.destination ? use.destination->to_string() : std::string(report::kUnknown),
             (use.is_from_known ? "" : "before ") + time_text(use.from_us),
             use.until_us ? time_text(*use.until_us) : std::string(report::kUnknown)});
    }
    std::string text = table.rows() == 0 ? "nobody\n" : table.render(is_terminal, columns);
    if (answer.left_out > 0) {
        text += "(" + report::format_count(answer.left_out) + " more: narrow by --proto)\n";
    }
    if (!answer.is_whole) {
        text += "not all of that time was logged\n";
    }
    return text;
}

CommandOutput who_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    for (const char* option : {"--ext", "--at"}) {
        if (!command.has(option)) {
            return told(std::string(option) + " is missing", report::kExitUsage);
        }
    }
    NatQuestionText text;
    text.outer = command.value_or("--ext", "");
    text.at = command.value_or("--at", "");
    text.zone = command.value_or("--zone", "UTC");
    text.protocol = command.value("--proto");
    text.within = command.value("--within");
    std::string failure;
    const auto question = parse_nat_question(text, failure);
    if (!question) {
        return told("--" + failure, report::kExitUsage);
    }
    const std::string folder =
        command.value_or("--state", kDefaultState) + std::string("/") + kNatFolder;
    const auto answer = find_nat_uses(folder, *question);
    if (!answer) {
        return told(daemon::describe(answer.error()));
    }
    if (command.has("--json")) {
        return {nat_answer_json(*question, *answer) + "\n", "", report::kExitGood};
    }
    return {answer_text(*answer, is_terminal, columns), "", report::kExitGood};
}

}  // namespace

std::vector<report::CommandSpec> nat_commands(const report::OptionSpec& state) {
    return {
        {"nat who",
         "",
         0,
         0,
         {{"--ext", "A:P", OptionValue::Required, false, {}, "outer address and port"},
          {"--at",
           "TIME",
           OptionValue::Required,
           false,
           {},
           "in that second: 2026-12-01T12:00:00 or Unix seconds"},
          {"--within", "S", OptionValue::Required, false, {}, "so many seconds around it, too"},
          {"--proto", "PROTO", OptionValue::Required, false, {}, "tcp or udp"},
          {"--zone", "ZONE", OptionValue::Required, false, {}, "of --at (default: UTC)"},
          state,
          {"--wide", "", OptionValue::None, false, {}, "all columns, however wide the screen is"}},
         "who had an outer address and port"}};
}

bool is_nat_command(std::string_view name) {
    return name == "nat who";
}

CommandOutput nat_command(const ParsedCommand& command, bool is_terminal, size_t columns) {
    return who_command(command, is_terminal, columns);
}

}  // namespace continuo::snapt
