// Text of `status`, `snapts` and `paths` about failures, from the daemon's JSON.
#pragma once

#include "common/report/json_value.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::commands {

// "tunnel: all; kill switch off", and lines about other software that decides where traffic goes;
// empty if the answer lacks these fields.
std::string tunnel_text(const report::JsonValue& status);

// An IP version that some SNAPTs cannot carry, or none.
struct LostVersion {
    std::string version;
    std::string no_way_out_at;  // SNAPTs that told that: "zrh-1, ber-1"
    bool is_refused = false;    // new flows of it are
};
inline constexpr std::string_view kWayOutRemedy = "`snapt doctor` there says why, and the remedy";

// `status`: the daemon's answer.
std::vector<LostVersion> lost_versions(const report::JsonValue& status);
// "IPv6: refused, no way out at zrh-1".
std::string lost_version_text(const LostVersion& lost);

// Text about another VPN on the host that has the default route, and how to change that. `vpn`: an
// element of other_vpns in the answer to `status`.
std::string vpn_text(const report::JsonValue& vpn);
std::string vpn_remedy(const report::JsonValue& vpn, bool is_kill_switch);

// A line for each SNAPT that does not work, with the time, and for each whose quota or credit is
// nearly used up, wrapped to that many columns: "zrh-1: login refused: … (TIME)".
std::string snapt_errors_text(const report::JsonValue& snapts, size_t columns);
std::string path_errors_text(const report::JsonValue& paths, size_t columns);

}  // namespace continuo::cnapt::commands
