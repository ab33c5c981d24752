// Text of `status`, `snapts` and `paths` about failures, from the daemon's JSON.
#pragma once

#include "common/report/json_value.hpp"

#include <string>

namespace continuo::cnapt {

// "tunnel: all; kill switch off", and lines of what else decides where traffic goes; empty for an
// answer that does not say.
std::string tunnel_text(const report::JsonValue& status);

// Of a tunnel of the host's own that has the default route, and what to do to have it otherwise.
// `vpn`: of other_vpns in the answer to `status`.
std::string vpn_text(const report::JsonValue& vpn);
std::string vpn_remedy(const report::JsonValue& vpn, bool is_kill_switch);

// A line for each that does not work now, with the time, and for each where a quota or credit nears
// its end, in lines of so many columns: "zrh-1: login refused: … (TIME)".
std::string snapt_errors_text(const report::JsonValue& snapts, size_t columns);
std::string path_errors_text(const report::JsonValue& paths, size_t columns);

}  // namespace continuo::cnapt
