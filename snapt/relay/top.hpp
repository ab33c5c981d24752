// The answer to `top`: current traffic of sessions, summed by user, class or both, busiest first.
#pragma once

#include "common/report/json_value.hpp"
#include "snapt/relay/relay.hpp"

#include <string>

namespace continuo::snapt::relay {

// Most rows, and the default; further rows are summed in `others`.
inline constexpr size_t kMaxTopRows = 1000;
inline constexpr size_t kUsualTopRows = 20;

// {"by":["user"],"rows":[{…}],"others":{…}}. The request has `by`, "user", "class" or "user,class",
// and `limit`; a wrong one gives {"error":"…"}. Data loop; linear in sessions.
std::string top_json(const Relay& relay, const report::JsonValue& request, base::TimePoint now);

}  // namespace continuo::snapt::relay
