// Updates of the capture when the host's interfaces change. Data loop.
#pragma once

#include "cnapt/capture_switch.hpp"
#include "cnapt/node.hpp"

namespace continuo::cnapt {

// Call at each change of the network and once a second. `has_names`: systemd-resolved is to look
// names up through the tunnel.
void tell_links(Node& node, const CaptureConfig& config, bool has_names, CaptureSwitch& capture);

}  // namespace continuo::cnapt
