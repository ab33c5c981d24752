// `cnapt classify`: the class of each flow in a capture, and the rule of the policy that gives it.
// Needs no daemon.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

namespace continuo::cnapt::commands {

report::CommandSpec classify_spec();

// JSON: {"policy":F|null,"frames":n,"packets":n,"whole":b,"skipped":{…},"flows":[{…}]}. A capture
// that is cut off, or damaged, is shown as far as it was read, with exit code 1.
report::CommandOutput classify_command(const report::ParsedCommand& command,
                                       bool is_terminal,
                                       size_t columns = report::kAnyWidth);

}  // namespace continuo::cnapt::commands
