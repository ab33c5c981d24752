// `snapt doctor`: looks at what a SNAPT needs, in the order in which one thing needs the other, and
// says for each what was found and what to do. Works with and without a daemon, and as far as
// rights go without root. Whether it is reached from outside, `cnapt doctor` of a node tells.
#pragma once

#include "common/daemon/doctor.hpp"
#include "common/report/command_line.hpp"

namespace continuo::snapt {

report::CommandSpec doctor_spec();
report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command);

}  // namespace continuo::snapt
