// `snapt balance`, `topup`, `adjust` and `verify`: the accounts of users, on the database itself,
// whether a daemon runs or not.
#pragma once

#include "common/report/command_line.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

// For the program's specification; `state` is the option of that name.
std::vector<report::CommandSpec> money_commands(const report::OptionSpec& state);
bool is_money_command(std::string_view name);

report::CommandOutput money_command(const report::ParsedCommand& command,
                                    bool is_terminal,
                                    size_t columns = report::kAnyWidth);

}  // namespace continuo::snapt::commands
