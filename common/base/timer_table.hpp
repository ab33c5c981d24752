// One optional deadline for each enumerator of `Timer`; many timers, one next deadline. `Timer` is
// an enum class with consecutive values from 0 and a last enumerator `Count`.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace continuo::base {

template <typename Timer>
class TimerTable {
  public:
    TimerTable() { deadlines_.fill(kNever); }

    void set(Timer timer, TimePoint at) { deadlines_[index(timer)] = at; }
    // Keeps an earlier deadline.
    void set_earlier(Timer timer, TimePoint at) { set(timer, std::min(at, deadline(timer))); }
    void stop(Timer timer) { set(timer, kNever); }
    TimePoint deadline(Timer timer) const { return deadlines_[index(timer)]; }
    bool is_set(Timer timer) const { return deadline(timer) != kNever; }
    // True once for a deadline at or before `now`; the timer is then stopped.
    bool expire(Timer timer, TimePoint now) {
        if (deadline(timer) > now) {
            return false;
        }
        stop(timer);
        return true;
    }
    TimePoint next_deadline() const {
        return *std::min_element(deadlines_.begin(), deadlines_.end());
    }

  private:
    static constexpr size_t index(Timer timer) { return static_cast<size_t>(timer); }
    std::array<TimePoint, static_cast<size_t>(Timer::Count)> deadlines_;
};

}  // namespace continuo::base
