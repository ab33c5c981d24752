// `snapt nat who`: from the files of the log of translations, whether a daemon runs or not.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <string_view>
#include <vector>

namespace continuo::snapt {

// `state`: the option --state.
std::vector<report::CommandSpec> nat_commands(const report::OptionSpec& state);
bool is_nat_command(std::string_view name);
report::CommandOutput nat_command(const report::ParsedCommand& command,
                                  bool is_terminal,
                                  size_t columns = report::kAnyWidth);

}  // namespace continuo::snapt
