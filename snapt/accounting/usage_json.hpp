// Usage for the commands and the nodes: the JSON of `usage`, and its query from a request.
#pragma once

#include "common/report/json_value.hpp"
#include "snapt/ledger/usage.hpp"

#include <optional>
#include <string>

namespace continuo::snapt::accounting {

std::string usage_json(const ledger::UsageReport& report);
// The same, or {"error":…}.
std::string usage_answer(const base::Result<ledger::UsageReport>& usage);
// {"by":["user",…],"from":us|null,"to":us|null,"zone":"UTC","user":"…"|null}. Empty with a reason
// in `failure`.
std::optional<ledger::UsageQuery> usage_query_from(const report::JsonValue& request,
                                                   std::string& failure);

}  // namespace continuo::snapt::accounting
