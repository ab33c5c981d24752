// Account: a user from `snapt user add` to `remove`. Records, leases and quotas belong to it.
#pragma once

#include <cstdint>
#include <string>

namespace continuo::snapt {

inline constexpr int64_t kUsPerSecond = 1'000'000;

// Id that no account has.
inline constexpr int64_t kNoAccount = 0;

struct Account {
    int64_t id = kNoAccount;  // never used twice
    std::string user;         // its name, which another account may have afterwards
};

}  // namespace continuo::snapt
