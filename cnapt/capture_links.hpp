// What the capture follows of the host's interfaces. Data loop.
#pragma once

#include "cnapt/capture_switch.hpp"
#include "cnapt/node.hpp"

namespace continuo::cnapt {

// To be called with each change of the network, and once a second.
// `has_names`: systemd-resolved is to look them up through the tunnel.
void tell_links(Node& node, const CaptureConfig& config, bool has_names, CaptureSwitch& capture);

}  // namespace continuo::cnapt
