// Kernel parameters for the time-outs of connection tracking: in each state in which data may still
// come, at least as long as the flow table remembers a flow (common/flow/flow_table.hpp). For a
// host whose NAT is between the tunnel and others.
#pragma once

#include "common/host/sysctl.hpp"

#include <vector>

namespace continuo::dataplane {

// Data may also come in a connection with unacknowledged data. In the states `syn_sent` and
// `syn_recv` none comes yet, in `time_wait` and `close` none any more: the kernel's values stay
// there, so that unanswered connections expire soon.
std::vector<host::SysctlSetting> conntrack_timeouts();

}  // namespace continuo::dataplane
