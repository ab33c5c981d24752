// `cnapt top`: which flows, processes, applications or classes carry most now. The daemon is asked
// for its flows twice; the rates are those of the time between. Nothing is counted for it
// meanwhile.
#pragma once

#include "common/report/daemon_client.hpp"
#include "common/report/table.hpp"

namespace continuo::cnapt::commands {

// Between the two questions. A choice: long enough for flows that send a packet now and then.
inline constexpr base::Duration kTopSpan = base::seconds(1);
// Rows beyond are summed up in `others`. At most, and without --limit.
inline constexpr size_t kMaxTopRows = 1000;
inline constexpr size_t kUsualTopRows = 20;

report::CommandSpec top_spec();

// JSON:
// {"span_ms":n,"rows":[{…,"up_bits_per_s":n,"down_bits_per_s":n}],"others":{…},"idle_flows":n}.
// Rates are of inner packets. A row is a flow, or what --by names, with traffic in the span.
report::CommandOutput top_command(const report::DaemonAccess& access,
                                  const report::ParsedCommand& command,
                                  bool is_terminal,
                                  size_t columns = report::kAnyWidth);

}  // namespace continuo::cnapt::commands
