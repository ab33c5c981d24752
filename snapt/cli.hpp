// The program snapt: its command line and the output of its commands. docs/OPERATIONS.md.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"
#include "snapt/commands/ledger_access.hpp"
#include "snapt/users/user_commands.hpp"

#include <span>
#include <string>

namespace continuo::snapt {

const report::ProgramSpec& program_spec();

// Runs one command and gives the exit code. `arguments` without the program's name.
int run_program(std::span<const char* const> arguments);

// Commands that ask the daemon, except `user …`.
report::CommandOutput ask_command(const report::DaemonAccess& access,
                                  const report::ParsedCommand& command,
                                  bool is_terminal,
                                  size_t columns = report::kAnyWidth);

// `snapt init`: creates the database and the configuration file.
report::CommandOutput init_command(const report::ParsedCommand& command);

// `snapt user …`: by the daemon if one answers, otherwise on the database itself.
report::CommandOutput user_command(const report::DaemonAccess& access,
                                   const report::ParsedCommand& command,
                                   bool is_terminal,
                                   size_t columns = report::kAnyWidth);

// Text for people from JSON, for a screen of that many columns.
std::string
status_text(const report::JsonValue& status, bool is_terminal, size_t columns = report::kAnyWidth);
std::string sessions_text(const report::JsonValue& sessions,
                          bool is_terminal,
                          size_t columns = report::kAnyWidth);
std::string
users_text(const report::JsonValue& users, bool is_terminal, size_t columns = report::kAnyWidth);

}  // namespace continuo::snapt
