// Lists of IP prefixes and host addresses of both daemons' files.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/config/section.hpp"
#include "common/config/values.hpp"

#include <vector>

namespace continuo::config {

// The prefixes of `key`: a prefix twice is an error, one inside another a warning.
std::vector<base::IpPrefix> read_prefixes(Section& section, std::string_view key);

// The hosts of `key`. An error when an address is none that one host may have, or when the list is
// there and empty.
std::vector<HostPort> read_hosts(Section& section, std::string_view key);

}  // namespace continuo::config
