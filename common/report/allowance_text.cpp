#include "common/report/allowance_text.hpp"

#include "common/report/table.hpp"

namespace continuo::report {
namespace {

double number_of(const JsonValue& value) {
    return static_cast<double>(value.integer().value_or(0));
}

// The consequence of having nothing left.
std::string consequence_text(const JsonValue& allowance) {
    const std::string state = allowance.text("state");
    if (state == "stopped") {
        return "; the SNAPT refuses everything";
    }
    if (state == "throttled") {
        return "; " + format_bits_per_s(number_of(allowance["rate_bits_per_s"])) + " are left";
    }
    return {};
}

}  // namespace

std::string allowance_text(const JsonValue& allowance) {
    const bool is_credit = allowance.text("of") == "credit";
    const double quota = number_of(allowance["quota_bytes"]);
    if (!allowance.is_object() || (!is_credit && quota <= 0)) {
        return {};
    }
    if (is_credit && allowance.text("state") == "warned") {
        return "the credit runs low: most of it is used";
    }
    if (is_credit) {
        return "no credit is left" + consequence_text(allowance) + "; until a payment is booked";
    }
    const std::string size = format_signed_bytes(allowance["quota_bytes"].integer().value_or(0));
    const std::string state = allowance.text("state");
    const bool is_used_up = state != "free" && state != "warned";
    std::string text = "the quota of " + size + " is used up" + consequence_text(allowance);
    if (!is_used_up) {
        text = format_percent(100.0 * number_of(allowance["used_bytes"]) / quota) +
               " of the quota of " + size + " is used";
    }
    if (const auto until = allowance["until"].integer()) {
        text += std::string("; it begins anew ") + format_utc(*until);
    } else {
        text += "; until a payment is booked";
    }
    return text;
}

std::string money_text(const JsonValue& money) {
    const auto balance_ud = money["balance_ud"].integer();
    if (!balance_ud) {
        return {};
    }
    const std::string balance = format_denarii(*balance_ud);
    const auto left_ud = money["left_ud"].integer();
    if (!left_ud) {
        return "the balance is " + balance + " denarii";
    }
    return format_denarii(*left_ud) + " denarii are left (balance " + balance +
           ", not booked yet " + format_denarii(money["unbooked_ud"].integer().value_or(0)) +
           ", credit " + format_denarii(money["credit_ud"].integer().value_or(0)) + ")";
}

}  // namespace continuo::report
