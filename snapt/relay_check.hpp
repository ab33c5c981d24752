// Checks the host of a relay: the interfaces of `egress` are there, and no firewall drops forwarded
// packets. For the start, the running daemon and `snapt doctor`.
#pragma once

#include "common/report/findings.hpp"
#include "snapt/snapt_config.hpp"

#include <string>
#include <vector>

namespace continuo::snapt {

// Findings "egress NAME" and "forward policy". Blocks for milliseconds on netlink and nftables.
void check_relay(const SnaptConfig& config, report::Findings& findings);

// The interfaces by which IPv4 packets of nodes leave: those of `egress`, or that of the default
// route.
std::vector<std::string> ways_out(const SnaptConfig& config);

}  // namespace continuo::snapt
