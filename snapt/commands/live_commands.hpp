// Commands on current sessions, `snapt top`, `snapt disconnect` and `snapt drain`. They ask the
// running daemon.
#pragma once

#include "common/report/command_line.hpp"
#include "common/report/daemon_client.hpp"

#include <string_view>
#include <vector>

namespace continuo::snapt::commands {

std::vector<report::CommandSpec> live_commands();
bool is_live_command(std::string_view name);
report::CommandOutput live_command(const report::DaemonAccess& access,
                                   const report::ParsedCommand& command,
                                   bool is_terminal,
                                   size_t columns);

}  // namespace continuo::snapt::commands
