// UserMeter: a user's usage since its arrival, and the count from which its quota or credit acts.
// The data loop counts and asks, a few loads per packet. The ledger's thread sets the terms before
// the user's traffic, and then whether there is credit and how far it goes (CreditWatch); the
// desk's thread sets the terms from then on (QuotaWatch). Neither is waited for: what was set acts
// by the count alone.
#pragma once

#include "common/flow/live_slot.hpp"
#include "snapt/store/account.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

namespace continuo::snapt::accounting {

// Share of the quota, or of what was there after the latest payment, at which a user is warned.
inline constexpr int64_t kWarnPercent = 80;
// Rate of a user whose granted credit is used up and, with "stop", was not looked at since: enough
// for DNS. Packets wait meanwhile instead of being refused, since credit may be left.
inline constexpr uint64_t kHeldBitsPerS = 8'000;

// Terms that apply to an account now. `then` is for its credit, too.
struct MeterTerms {
    std::optional<store::Quota> quota;
    int64_t until_us = 0;    // the quota's period ends
    int64_t used_bytes = 0;  // used of the quota, at `counted`
    uint64_t counted = 0;    // UserMeter::counted() then
    store::Exhaustion then;
    bool operator==(const MeterTerms&) const = default;
};

// The money of an account with bookings or a credit, in micro-denarii.
struct AccountMoney {
    int64_t balance_ud = 0;   // as it is booked
    int64_t unbooked_ud = 0;  // the price of usage without a booking; known with a credit alone
    std::optional<int64_t> credit_limit_ud;  // none: no balance is too low

    bool operator==(const AccountMoney&) const = default;
};

// A look at a user's credit.
struct CreditGrant {
    static constexpr uint64_t kNoEnd = std::numeric_limits<uint64_t>::max();
    bool is_out = false;              // nothing is left
    uint64_t until_counted = kNoEnd;  // UserMeter::counted() up to which the rest lasts
    bool is_low = false;              // kWarnPercent of it are used
    std::optional<AccountMoney> money{};

    bool operator==(const CreditGrant&) const = default;
};

// As reported to the user.
struct Allowance {
    enum class State : uint8_t { Free, Warned, Noted, Throttled, Stopped };
    State state = State::Free;
    bool is_for_credit = false;
    std::optional<store::Quota> quota;
    int64_t used_bytes = 0;
    int64_t until_us = 0;     // 0: unknown
    uint64_t bits_per_s = 0;  // for Throttled
    std::optional<AccountMoney> money;
};
std::string_view to_string(Allowance::State state);

class UserMeter {
  public:
    explicit UserMeter(store::Account account) : account_(std::move(account)) {}
    UserMeter(const UserMeter&) = delete;
    UserMeter& operator=(const UserMeter&) = delete;

    const store::Account& account() const { return account_; }
    // Payload, both ways; one thread writes it.
    flow::Counter& counter() { return counted_; }
    uint64_t counted() const { return flow::value(counted_); }

    // --- Data loop
    bool is_stopped() const { return counted() >= stop_at_.load(std::memory_order_relaxed); }
    // 0: none. Also that of a user whose grant is used up.
    uint64_t throttled_bits_per_s() const {
        return !is_stopped() && counted() >= throttle_at_.load(std::memory_order_relaxed)
                   ? throttle_bits_per_s_.load(std::memory_order_relaxed)
                   : 0;
    }

    // --- Any thread
    void set(const MeterTerms& terms);
    // True: a grant that was used up is renewed.
    bool set_credit(const CreditGrant& grant);
    Allowance allowance() const;

  private:
    static constexpr uint64_t kNever = CreditGrant::kNoEnd;

    const store::Account account_;
    flow::Counter counted_{0};
    std::atomic<uint64_t> stop_at_{kNever};
    std::atomic<uint64_t> throttle_at_{kNever};
    std::atomic<uint64_t> throttle_bits_per_s_{0};
    void apply();  // locked

    mutable std::mutex mutex_;  // guards what follows
    MeterTerms terms_;
    CreditGrant credit_;
};

}  // namespace continuo::snapt::accounting
