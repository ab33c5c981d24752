// Checks the host of a gateway: the interfaces of the LAN are there, forwarding is switched on, and
// no firewall drops forwarded packets. For the start and for `cnapt doctor`.
#pragma once

#include "cnapt/node_config.hpp"
#include "common/report/findings.hpp"

namespace continuo::cnapt {

// Findings "gateway NAME", "forwarding" and "forward policy"; none without gateway_interfaces.
// Blocks for milliseconds on netlink and nftables.
void check_gateway(const CaptureConfig& config, report::Findings& findings);

}  // namespace continuo::cnapt
