// `snapt plan …` and `snapt rate`: price plans, and the price of usage under one. They work on
// files and on the database itself, whether a daemon runs or not.
#pragma once

#include "common/config/diagnostic.hpp"
#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

// For the program's specification; `state` is the option of that name.
std::vector<report::CommandSpec> plan_commands(const report::OptionSpec& state);
bool is_plan_command(std::string_view name);

report::CommandOutput plan_command(const report::ParsedCommand& command,
                                   bool is_terminal,
                                   size_t columns = report::kAnyWidth);

// The faults in the text of a plan.
std::vector<config::Diagnostic> check_plan_file(std::string_view text, const std::string& file);

}  // namespace continuo::snapt::commands
