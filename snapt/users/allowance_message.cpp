#include "snapt/users/allowance_message.hpp"

#include "snapt/store/money.hpp"

#include <algorithm>

namespace continuo::snapt::users {
namespace {

int64_t bounded(int64_t amount_ud) {
    return std::clamp(amount_ud, -store::kMaxBalanceUd, store::kMaxBalanceUd);
}

}  // namespace

control::Allowance allowance_message(const accounting::Allowance& now) {
    control::Allowance told;
    told.state = static_cast<control::AllowanceState>(now.state);
    told.kind = now.is_for_credit ? control::AllowanceKind::Credit : control::AllowanceKind::Quota;
    told.quota_bytes = now.quota ? static_cast<uint64_t>(now.quota->bytes) : 0;
    told.used_bytes = static_cast<uint64_t>(now.used_bytes);
    told.until_s = static_cast<uint64_t>(now.until_us / store::kUsPerSecond);
    told.rate_bits_per_s = now.bits_per_s;
    if (now.money) {
        told.balance_ud = bounded(now.money->balance_ud);
    }
    if (now.money && now.money->credit_limit_ud) {
        told.credit = control::AllowanceCredit{bounded(*now.money->credit_limit_ud),
                                               bounded(now.money->unbooked_ud)};
    }
    return told;
}

}  // namespace continuo::snapt::users
