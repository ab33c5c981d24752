// The answer to `top`: what sessions carry now, summed by user, class or both, the busiest first.
#pragma once

#include "common/report/json_value.hpp"
#include "snapt/relay.hpp"

#include <string>

namespace continuo::snapt {

// Rows beyond are summed up in `others`. At most, and where the request does not say.
inline constexpr size_t kMaxTopRows = 1000;
inline constexpr size_t kUsualTopRows = 20;

// {"by":["user"],"rows":[{…}],"others":{…}}. The request has `by`, "user", "class" or
// "user,class", and `limit`; what is wrong gives {"error":"…"}. Data loop; linear in sessions.
std::string top_json(const Relay& relay, const report::JsonValue& request, base::TimePoint now);

}  // namespace continuo::snapt
