// Text about a user's allowance, from a node's JSON ("allowance" in `status`).
#pragma once

#include "common/report/json_value.hpp"

#include <string>

namespace continuo::report {

// "82.0 % of the quota of 50.0 GiB are used; it begins anew 2026-12-01T00:00:00Z". Empty where
// nothing is limited.
std::string allowance_text(const JsonValue& allowance);

}  // namespace continuo::report
