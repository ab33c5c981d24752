// `cnapt doctor`: looks at what a node needs, in the order in which one thing needs the other, and
// says for each what was found and what to do. Works with and without a daemon, and as far as
// rights go without root. While a daemon runs nothing here touches its sessions.
#pragma once

#include "common/daemon/doctor.hpp"
#include "common/report/command_line.hpp"

namespace continuo::cnapt {

report::CommandSpec doctor_spec();
report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command);

}  // namespace continuo::cnapt
