// JSON of the user's quota and credit as a SNAPT reports them, for `status` and `usage`.
#pragma once

#include "common/control/message.hpp"
#include "common/report/json.hpp"

namespace continuo::cnapt::snapts {

// Null where nothing is limited.
void write_allowance(report::JsonWriter& json, const control::Allowance& allowance);
// The account's money in micro-denarii: `balance_ud`, and with a credit `credit_ud`, `unbooked_ud`
// and `left_ud`, else null. Null where there are no bookings and no credit.
void write_money(report::JsonWriter& json, const control::Allowance& allowance);
// "free", "warned", "noted", "throttled", "stopped"; "unknown" for one of a later version.
std::string_view to_string(control::AllowanceState state);

}  // namespace continuo::cnapt::snapts
