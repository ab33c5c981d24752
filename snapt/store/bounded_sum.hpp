// bounded_sum(): at the bound where 64 bits do not hold the sum. Charges of absurd prices must not
// become small ones.
#pragma once

#include <cstdint>
#include <limits>

namespace continuo::snapt::store {

inline int64_t bounded_sum(int64_t one, int64_t other) {
    int64_t sum = 0;
    if (__builtin_add_overflow(one, other, &sum)) {
        sum = one < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    }
    return sum;
}

}  // namespace continuo::snapt::store
