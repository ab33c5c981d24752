// Between repetitions of what has no answer: challenges and announcements. Doubles, as RFC 9002
// section 6.2.1 has it, from less than a round trip of a thin link to a bound.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>

namespace continuo::path {

inline constexpr base::Duration kFirstProbeInterval = base::milliseconds(40);
inline constexpr base::Duration kLongestProbeInterval = base::seconds(1);
// Without an answer for so long a challenge is given up until the other end is heard again.
inline constexpr base::Duration kChallengeLifetime = base::seconds(30);

inline base::Duration longer_interval(base::Duration interval) {
    return std::min<base::Duration>(interval * 2, kLongestProbeInterval);
}

}  // namespace continuo::path
