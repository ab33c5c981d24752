// Checks of the host before a daemon starts.
#pragma once

#include "common/base/result.hpp"

#include <string>

namespace continuo::host {

// A sentence if this process lacks the right to configure the network; empty: it has it.
std::string missing_right();
// Opens /dev/net/tun, which loads the driver; creates no interface. Errors: System.
base::Result<void> try_tun();
// One sentence on what is missing for a TUN interface, routes and nftables: the right to configure
// the network, or the TUN driver. Empty when nothing is.
std::string missing_for_tun();

}  // namespace continuo::host
