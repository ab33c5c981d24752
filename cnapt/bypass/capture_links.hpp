// Updates of the capture when the host's interfaces change. Data loop.
#pragma once

#include "cnapt/capture/capture_switch.hpp"
#include "cnapt/node/node.hpp"

namespace continuo::cnapt::bypass {

// Call at each change of the network and once a second. `has_names`: systemd-resolved is to look
// names up through the tunnel.
void tell_links(node::Node& node,
                const settings::CaptureConfig& config,
                bool has_names,
                capture::CaptureSwitch& capture);

}  // namespace continuo::cnapt::bypass
