#include "snapt/live_commands.hpp"

#include "common/report/json.hpp"
#include "common/report/json_value.hpp"
#include "common/report/table.hpp"

#include <string>

namespace continuo::snapt {

using report::CommandOutput;
using report::JsonValue;
using report::ParsedCommand;

namespace {

CommandOutput disconnect_command(const report::DaemonAccess& access, const ParsedCommand& command) {
    report::JsonWriter json;
    json.begin_object().field("command", "disconnect");
    json.field("who", command.arguments.front()).end_object();
    return report::ask_daemon(access, json.take(), report::kAnswerTimeout, command.has("--json"),
                              [](const JsonValue& answer) {
                                  const auto ended =
                                      answer["sessions_ended"].unsigned_integer().value_or(0);
                                  return "ended " + report::format_count(ended) +
                                         (ended == 1 ? " session\n" : " sessions\n");
                              });
}

}  // namespace

std::vector<report::CommandSpec> live_commands() {
    return {{"disconnect",
             "USER|SESSION",
             1,
             1,
             {},
             "end the sessions of a user, or one; its node may log in again"}};
}

bool is_live_command(std::string_view name) {
    return name == "disconnect";
}

CommandOutput live_command(const report::DaemonAccess& access, const ParsedCommand& command) {
    return disconnect_command(access, command);
}

}  // namespace continuo::snapt
