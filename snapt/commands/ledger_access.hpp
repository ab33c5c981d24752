// Access to the ledger database for commands that work on it directly, whether a daemon runs or
// not, and their error messages.
#pragma once

#include "common/report/daemon_client.hpp"
#include "snapt/store/database.hpp"

#include <optional>
#include <string>

namespace continuo::snapt::commands {

inline constexpr const char* kDefaultConfig = "/etc/continuo/snapt.toml";
inline constexpr const char* kDefaultSocket = "/run/continuo/snapt.sock";
inline constexpr const char* kDefaultState = "/var/lib/snapt";

// A command that fails with one sentence.
report::CommandOutput told(const std::string& text, int exit_code = report::kExitError);

// The database in the folder of --state; nothing, with the answer to print in `failure`, when there
// is none or it cannot be opened.
std::optional<store::Database> open_ledger(const report::ParsedCommand& command,
                                           store::OpenMode mode,
                                           report::CommandOutput& failure);

// The user who gives the command: from sudo, otherwise by user id.
std::string actor();

}  // namespace continuo::snapt::commands
