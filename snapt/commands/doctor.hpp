// `snapt doctor`: checks what a SNAPT needs, in order of dependency, and says for each what was
// found and what to do. Works with or without a daemon, and without root as far as rights go.
// Whether it can be reached from outside, `cnapt doctor` on a node tells.
#pragma once

#include "common/daemon/doctor.hpp"
#include "common/report/command_line.hpp"

namespace continuo::snapt::commands {

report::CommandSpec doctor_spec();
report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command);

}  // namespace continuo::snapt::commands
