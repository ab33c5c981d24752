// `snapt quota show` and `snapt quota set`: quotas of users and how much of them is used. They work
// on the database itself, whether a daemon runs or not.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

std::vector<report::CommandSpec> quota_commands(const report::OptionSpec& state);
bool is_quota_command(std::string_view name);
report::CommandOutput quota_command(const report::ParsedCommand& command,
                                    bool is_terminal,
                                    size_t columns = report::kAnyWidth);

}  // namespace continuo::snapt::commands
