// How long the kernel's connection tracking must remember a connection, as kernel parameters: in
// each state in which data may still come, at least as long as the flow table remembers its flow
// (common/flow/flow_table.hpp). For a host whose NAT stands between the tunnel and somebody.
#pragma once

#include "common/io/sysctl.hpp"

#include <vector>

namespace continuo::dataplane {

// A connection with data that nobody has acknowledged is one in which data may come, too. In the
// states `syn_sent` and `syn_recv` none comes yet, in `time_wait` and `close` none any more: those
// stay the kernel's, so that connections that are never answered leave soon.
std::vector<io::SysctlSetting> conntrack_timeouts();

}  // namespace continuo::dataplane
