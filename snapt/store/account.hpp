// Account: a user from `snapt user add` to `remove`. Records, leases and quotas belong to it.
#pragma once

#include <cstdint>
#include <string>

namespace continuo::snapt::store {

inline constexpr int64_t kUsPerSecond = 1'000'000;

// The id of no account.
inline constexpr int64_t kNoAccount = 0;

struct Quota {
    int64_t bytes = 0;   // payload, both ways
    std::string period;  // "day" or "month"
    bool operator==(const Quota&) const = default;
};

// Effect of a used-up quota or credit: the user is notified, gets a rate, or is refused.
enum class OnExhausted : uint8_t { Notify, Throttle, Stop };
struct Exhaustion {
    OnExhausted action = OnExhausted::Notify;
    uint64_t bits_per_s = 0;  // for Throttle
    bool operator==(const Exhaustion&) const = default;
};

struct Account {
    int64_t id = kNoAccount;  // never used twice
    std::string user;         // the account's name, which may later be given to another
};

}  // namespace continuo::snapt::store
