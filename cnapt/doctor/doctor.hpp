// `cnapt doctor`: checks what a node needs, in order of dependency, and says for each what was
// found and what to do. Works with or without a daemon, and without root as far as rights go. Does
// not touch the sessions of a running daemon.
#pragma once

#include "common/daemon/doctor.hpp"
#include "common/report/command_line.hpp"

namespace continuo::cnapt::doctor {

report::CommandSpec doctor_spec();
report::CommandOutput doctor_command(const report::DaemonAccess& access,
                                     const report::ParsedCommand& command);

}  // namespace continuo::cnapt::doctor
