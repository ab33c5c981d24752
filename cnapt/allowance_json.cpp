#include "cnapt/allowance_json.hpp"

#include <limits>
#include <optional>

namespace continuo::cnapt {

using control::AllowanceKind;
using control::AllowanceState;

namespace {

// The values come from a SNAPT and may be anything.
std::optional<int64_t> number_or_null(uint64_t number) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    return number == 0 || number > kMost ? std::nullopt
                                         : std::optional(static_cast<int64_t>(number));
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
    if (allowance == control::Allowance{}) {
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

}  // namespace continuo::cnapt
