// `cnapt estimate`: what the tunnel would save of the traffic in a capture, on a given link. Needs
// no daemon.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

namespace continuo::cnapt::commands {

report::CommandSpec estimate_spec();

// JSON: {"policy":F|null,"link":{…},"span_s":n,"flows":n,"classes":{TOKEN:{"up":{…},"down":{…}}},
// "overhead_bytes":{"up":n,"down":n},"total":{…},"left_out":{…},"whole":b}. A capture that is cut
// off, or damaged, is estimated as far as it was read, with exit code 1.
report::CommandOutput estimate_command(const report::ParsedCommand& command,
                                       bool is_terminal,
                                       size_t columns = report::kAnyWidth);

}  // namespace continuo::cnapt::commands
