#include "snapt/users/allowance_message.hpp"

#include "snapt/store/bounded_sum.hpp"
#include "snapt/store/money.hpp"

#include <algorithm>

namespace continuo::snapt::users {
namespace {

// Usage is reported again when it has grown by a hundredth of the quota, or of what is left by the
// bookings, but not for less than a hundredth of a denarius.
constexpr int kToldParts = 100;
constexpr int64_t kLeastToldUd = 10'000;

bool has_spent_part(const control::Allowance& now, const control::Allowance& told) {
    if (!now.credit || !told.credit) {
        return false;
    }
    const int64_t whole_ud =
        std::max<int64_t>(store::bounded_sum(now.balance_ud.value_or(0), now.credit->limit_ud), 0);
    const int64_t part_ud = std::max(whole_ud / kToldParts, kLeastToldUd);
    return now.credit->unbooked_ud / part_ud != told.credit->unbooked_ud / part_ud;
}

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

bool is_news(const control::Allowance& now, const control::Allowance& told) {
    control::Allowance rest = now;
    rest.used_bytes = told.used_bytes;
    if (rest.credit && told.credit) {
        rest.credit->unbooked_ud = told.credit->unbooked_ud;
    }
    const uint64_t part = now.quota_bytes / kToldParts + 1;
    return rest != told || now.used_bytes / part != told.used_bytes / part ||
           has_spent_part(now, told);
}

}  // namespace continuo::snapt::users
