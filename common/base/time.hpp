// Time as the pure layers see it: monotonic nanoseconds, injected. Wall-clock time appears only in
// accounting.
#pragma once

#include <chrono>

namespace continuo::base {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

// "No deadline": later than every point in time.
inline constexpr TimePoint kNever = TimePoint::max();

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

inline int64_t to_ms(Duration span) {
    return std::chrono::duration_cast<milliseconds>(span).count();
}
inline int64_t to_us(Duration span) {
    return std::chrono::duration_cast<microseconds>(span).count();
}

}  // namespace continuo::base
