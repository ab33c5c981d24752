// Checks the host of a gateway: the LAN interfaces exist, forwarding is on, and no firewall drops
// forwarded packets. Also checks packets that a host without LAN sides forwards, for containers.
// For the start and for `cnapt doctor`.
#pragma once

#include "cnapt/settings/node_config.hpp"
#include "common/report/findings.hpp"

namespace continuo::cnapt::capture {

// Findings "gateway NAME", "forwarding" and "forward policy"; none without gateway_interfaces.
// Blocks for milliseconds on netlink and nftables.
void check_gateway(const settings::CaptureConfig& config, report::Findings& findings);

// The finding "forwarded": what the kill switch has stopped, or which bridges are no LAN sides, so
// that their containers are outside the tunnel. None if the host forwards nothing. Blocks likewise;
// reads a counter of nftables, which needs root.
void check_forwarded(const settings::CaptureConfig& config, report::Findings& findings);

}  // namespace continuo::cnapt::capture
