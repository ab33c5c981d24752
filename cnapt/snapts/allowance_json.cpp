#include "cnapt/snapts/allowance_json.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace continuo::cnapt::snapts {

using control::AllowanceKind;
using control::AllowanceState;

namespace {

// The values come from a SNAPT and may be anything.
std::optional<int64_t> number_or_null(uint64_t number) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return number == 0 || number > kMost ? std::nullopt
                                         : std::optional(static_cast<int64_t>(number));
}

// 10^12 denarii, as a SNAPT bounds its bookings: no sum overflows.
int64_t amount(int64_t told_ud) {
    constexpr int64_t kMostUd = 1'000'000'000'000'000'000;
    return std::clamp(told_ud, -kMostUd, kMostUd);
}

}  // namespace

std::string_view to_string(AllowanceState state) {
    switch (state) {
    case AllowanceState::Free:
        return "free";
    case AllowanceState::Warned:
        return "warned";
    case AllowanceState::Noted:
        return "noted";
    case AllowanceState::Throttled:
        return "throttled";
    case AllowanceState::Stopped:
        return "stopped";
    }
    return "unknown";
}

void write_allowance(report::JsonWriter& json, const control::Allowance& allowance) {
    if (allowance.state == AllowanceState::Free && allowance.quota_bytes == 0) {
        json.null();
        return;
    }
    const bool is_credit = allowance.kind == AllowanceKind::Credit;
    json.begin_object();
    json.field("of", is_credit ? "credit" : "quota");
    json.field("state", to_string(allowance.state));
    json.field("quota_bytes", number_or_null(allowance.quota_bytes));
    json.field("used_bytes", number_or_null(allowance.used_bytes).value_or(0));
    json.field("until", number_or_null(allowance.until_s));
    json.field("rate_bits_per_s", number_or_null(allowance.rate_bits_per_s));
    json.end_object();
}

void write_money(report::JsonWriter& json, const control::Allowance& allowance) {
    if (!allowance.balance_ud) {
        json.null();
        return;
    }
    const int64_t balance_ud = amount(*allowance.balance_ud);
    std::optional<int64_t> credit_ud;
    std::optional<int64_t> unbooked_ud;
    std::optional<int64_t> left_ud;
    if (allowance.credit) {
        credit_ud = amount(allowance.credit->limit_ud);
        unbooked_ud = amount(allowance.credit->unbooked_ud);
        left_ud = balance_ud + *credit_ud - *unbooked_ud;
    }
    json.begin_object().field("balance_ud", balance_ud).field("credit_ud", credit_ud);
    json.field("unbooked_ud", unbooked_ud).field("left_ud", left_ud).end_object();
}

}  // namespace continuo::cnapt::snapts
