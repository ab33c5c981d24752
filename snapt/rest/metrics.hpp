// Metrics: the status of the SNAPT in the text format of Prometheus (exposition format 0.0.4). No
// series is per user, so their number does not grow with users. Pure.
#pragma once

#include "common/report/json_value.hpp"
#include "snapt/rest/http_server.hpp"

#include <string>

namespace continuo::rest {

inline constexpr std::string_view kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// `status`: the answer of the command of that name. `now_s`: Unix time. Unknown values are left
// out.
std::string
metrics_text(const report::JsonValue& status, const HttpServer::Counters& http, int64_t now_s);

}  // namespace continuo::rest
