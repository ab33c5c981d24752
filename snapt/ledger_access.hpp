// How commands that work on the ledger database itself, whether a daemon runs or not, open it, and
// what they say when they cannot.
#pragma once

#include "common/report/daemon_client.hpp"
#include "snapt/accounting/database.hpp"

#include <optional>
#include <string>

namespace continuo::snapt {

// A command that fails with one sentence.
report::CommandOutput told(const std::string& text, int exit_code = report::kExitError);

// The database in the folder of --state; nothing, with the answer to print in `failure`, when there
// is none or it cannot be opened.
std::optional<Database>
open_ledger(const report::ParsedCommand& command, OpenMode mode, report::CommandOutput& failure);

// Who gives the command: by sudo or else by the user id.
std::string actor();

}  // namespace continuo::snapt
