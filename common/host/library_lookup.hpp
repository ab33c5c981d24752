// Addresses of a name as any program of this host finds them: by the C library, from the hosts
// file, DNS or whatever else nsswitch.conf(5) names.
#pragma once

#include "common/base/ip_address.hpp"

#include <string>
#include <vector>

namespace continuo::host {

// In the library's order; a literal address is its own. Empty: there are none, or no answer came.
// Blocks for as long as the library waits for servers, so never on a data loop.
std::vector<base::IpAddress> look_up_by_library(const std::string& name);

}  // namespace continuo::host
