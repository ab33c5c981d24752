// `snapt plan use` and `snapt rate`: which plan applies to whom, and booking of usage now. They
// work on the database itself, whether a daemon runs or not.
#pragma once

#include "common/report/daemon_client.hpp"
#include "snapt/ledger/usage.hpp"

#include <vector>

namespace continuo::snapt::commands {

std::vector<report::CommandSpec> charge_commands(const report::OptionSpec& state);

report::CommandOutput use_plan_command(const report::ParsedCommand& command);
// `rate` without --dry-run. `query`: from its options.
report::CommandOutput rate_and_book(const report::ParsedCommand& command,
                                    const ledger::UsageQuery& query);

}  // namespace continuo::snapt::commands
