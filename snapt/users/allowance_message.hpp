// The message that tells a node of its user's quota and credit.
#pragma once

#include "common/control/message.hpp"
#include "snapt/accounting/user_meter.hpp"

namespace continuo::snapt::users {

// No amount is beyond kMaxBalanceUd, as the protocol has it: what absurd prices add up to is.
control::Allowance allowance_message(const accounting::Allowance& now);
// Whether a node that was told the other one is told this one.
bool is_news(const control::Allowance& now, const control::Allowance& told);

}  // namespace continuo::snapt::users
