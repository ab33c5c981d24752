#include "snapt/accounting/user_meter.hpp"

#include <algorithm>
#include <array>

namespace continuo::snapt::accounting {
namespace {

using store::OnExhausted;

// The value of UserMeter::counted() at which `bytes` of the quota are used.
uint64_t counted_when(const MeterTerms& terms, int64_t bytes) {
    const int64_t left = std::max<int64_t>(bytes - terms.used_bytes, 0);
    return terms.counted + static_cast<uint64_t>(left);
}

int64_t warned_from(const store::Quota& quota) {
    return quota.bytes - quota.bytes / 100 * (100 - kWarnPercent);
}

}  // namespace

std::string_view to_string(Allowance::State state) {
    constexpr std::array<std::string_view, 5> kNames = {"free", "warned", "noted", "throttled",
                                                        "stopped"};
    return kNames[static_cast<size_t>(state)];
}

void UserMeter::set(const MeterTerms& terms) {
    const std::lock_guard lock(mutex_);
    if (terms != terms_) {
        terms_ = terms;
        apply();
    }
}

bool UserMeter::set_credit(const CreditGrant& grant) {
    const std::lock_guard lock(mutex_);
    const uint64_t now = counted();
    const bool is_renewed = !grant.is_out && !credit_.is_out && now >= credit_.until_counted &&
                            now < grant.until_counted;
    if (grant != credit_) {
        credit_ = grant;
        apply();
    }
    return is_renewed;
}

void UserMeter::apply() {
    const uint64_t act_at = credit_.is_out ? 0
                            : terms_.quota ? counted_when(terms_, terms_.quota->bytes)
                                           : kNever;
    const OnExhausted action = terms_.then.action;
    const bool stops = action == OnExhausted::Stop;
    const uint64_t granted_until = credit_.is_out ? kNever : credit_.until_counted;
    throttle_bits_per_s_.store(stops ? kHeldBitsPerS : terms_.then.bits_per_s,
                               std::memory_order_relaxed);
    throttle_at_.store(stops                             ? granted_until
                       : action == OnExhausted::Throttle ? std::min(act_at, granted_until)
                                                         : kNever,
                       std::memory_order_relaxed);
    stop_at_.store(stops ? act_at : kNever, std::memory_order_relaxed);
}

Allowance UserMeter::allowance() const {
    const std::lock_guard lock(mutex_);
    Allowance allowance;
    allowance.money = credit_.money;
    allowance.quota = terms_.quota;
    allowance.until_us = terms_.quota ? terms_.until_us : 0;
    const uint64_t since = counted() - std::min(counted(), terms_.counted);
    allowance.used_bytes = terms_.quota ? terms_.used_bytes + static_cast<int64_t>(since) : 0;
    const bool is_used_up = terms_.quota && allowance.used_bytes >= terms_.quota->bytes;
    // The end of the quota is known and may come first: credit is reported when it alone acts.
    allowance.is_for_credit = credit_.is_out && !is_used_up;
    if (is_used_up || credit_.is_out) {
        constexpr std::array kStates = {Allowance::State::Noted, Allowance::State::Throttled,
                                        Allowance::State::Stopped};
        allowance.state = kStates[static_cast<size_t>(terms_.then.action)];
        allowance.bits_per_s =
            allowance.state == Allowance::State::Throttled ? terms_.then.bits_per_s : 0;
        allowance.until_us = credit_.is_out ? 0 : allowance.until_us;
    } else if (terms_.quota && allowance.used_bytes >= warned_from(*terms_.quota)) {
        allowance.state = Allowance::State::Warned;
    } else if (credit_.is_low) {
        allowance.state = Allowance::State::Warned;
        allowance.is_for_credit = true;
        allowance.until_us = 0;
    }
    return allowance;
}

}  // namespace continuo::snapt::accounting
