// `cnapt resolver --restore`: puts resolv.conf back after cnapt and its helpers were killed.
#pragma once

#include "cnapt/resolv_conf.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// Directories in which helpers keep the original: of those started by this user for a daemon with
// the state directory `state`, or `state` itself where there is none in it and it is this user's.
std::vector<std::string> kept_places_in(const std::string& state);
// The places where daemons with the usual directories keep an original, and the one that
// `resolv_conf` names.
std::vector<std::string> usual_kept_places(const std::string& resolv_conf);

struct DnsRestored {
    bool is_restored = false;
    std::string failure;  // a line for each place that could not be looked at
};

// Puts back what is kept in the first of the places that holds something; those that do not exist
// are passed over, and one that is a link is a failure. Needs the rights of root where a place lies
// in another user's directory, and gives its capabilities up. A place that a helper uses is a
// failure.
DnsRestored restore_dns(const std::vector<std::string>& places, const std::string& resolv_conf);

}  // namespace continuo::cnapt
