// Text about a user's allowance and money, from a node's JSON ("allowance" and "money" in
// `status`).
#pragma once

#include "common/report/json_value.hpp"

#include <string>

namespace continuo::report {

// "82.0 % of the quota of 50.0 GiB are used; it begins anew 2026-12-01T00:00:00Z". Empty where
// nothing is limited.
std::string allowance_text(const JsonValue& allowance);
// "4.200000 denarii are left (balance 5.000000, not booked yet 0.800000, credit 0.000000)" from
// "money", or "the balance is 5.000000 denarii" without a credit. Empty where there is none.
std::string money_text(const JsonValue& money);

}  // namespace continuo::report
