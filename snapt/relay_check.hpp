// Checks the host of a relay: the interfaces of `egress` are there, and no firewall drops forwarded
// packets. For the start and for `snapt doctor`.
#pragma once

#include "common/report/findings.hpp"
#include "snapt/snapt_config.hpp"

namespace continuo::snapt {

// Findings "egress NAME" and "forward policy". Blocks for milliseconds on netlink and nftables.
void check_relay(const SnaptConfig& config, report::Findings& findings);

}  // namespace continuo::snapt
