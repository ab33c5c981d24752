// `cnapt resolver --restore`: puts resolv.conf back after cnapt and its helpers were killed.
#pragma once

#include "cnapt/names/resolv_conf.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::commands {

// Directories in which helpers keep the original: those that this user started for a daemon with
// the state directory `state`; or `state` itself, if it is this user's and has none in it.
std::vector<std::string> kept_places_in(const std::string& state);
// The places where daemons with the usual directories keep an original, and the one named in
// `resolv_conf`.
std::vector<std::string> usual_kept_places(const std::string& resolv_conf);

struct DnsRestored {
    bool is_restored = false;
    std::string failure;  // a line for each place that could not be checked
};

// Restores the original from the first place that holds one; places that do not exist are skipped,
// a link is a failure, and so is a place that a helper is using. Needs root's rights where a place
// lies in another user's directory, and gives its capabilities up.
DnsRestored restore_dns(const std::vector<std::string>& places, const std::string& resolv_conf);

}  // namespace continuo::cnapt::commands
