// Text of `status`, `snapts` and `paths` about failures, from the daemon's JSON.
#pragma once

#include "common/report/json_value.hpp"

#include <string>

namespace continuo::cnapt {

// "tunnel: all; kill switch off", and lines about other software that decides where traffic goes;
// empty if the answer lacks these fields.
std::string tunnel_text(const report::JsonValue& status);

// Text about another VPN on the host that has the default route, and how to change that. `vpn`: an
// element of other_vpns in the answer to `status`.
std::string vpn_text(const report::JsonValue& vpn);
std::string vpn_remedy(const report::JsonValue& vpn, bool is_kill_switch);

// A line for each SNAPT that does not work, with the time, and for each whose quota or credit is
// nearly used up, wrapped to that many columns: "zrh-1: login refused: … (TIME)".
std::string snapt_errors_text(const report::JsonValue& snapts, size_t columns);
std::string path_errors_text(const report::JsonValue& paths, size_t columns);

}  // namespace continuo::cnapt
