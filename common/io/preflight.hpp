// What a daemon needs of its host before it can begin.
#pragma once

#include <string>

namespace continuo::io {

// One sentence on what is missing for a TUN interface, routes and nftables: the right to configure
// the network, or the TUN driver. Empty when nothing is.
std::string missing_for_tun();

}  // namespace continuo::io
