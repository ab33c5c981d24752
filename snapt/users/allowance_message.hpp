// allowance_message(): what a node is told of its user's quota and credit.
#pragma once

#include "common/control/message.hpp"
#include "snapt/accounting/user_meter.hpp"

namespace continuo::snapt::users {

// No amount is beyond kMaxBalanceUd, as the protocol has it: what absurd prices add up to is.
control::Allowance allowance_message(const accounting::Allowance& now);

}  // namespace continuo::snapt::users
