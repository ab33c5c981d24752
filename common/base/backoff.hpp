// Backoff: a pause that doubles each time, within bounds (binary exponential backoff, as RFC 6298
// section 5.5 and RFC 9002 section 6.2.1 have it).
#pragma once

#include "common/base/time.hpp"

#include <algorithm>

namespace continuo::base {

class Backoff {
  public:
    // The next pause: `first` after reset(), then twice the one before, `longest` at most.
    Duration next(Duration first, Duration longest) {
        pause_ = std::clamp<Duration>(pause_ * 2, first, longest);
        return pause_;
    }
    // The same pause again, `first` at least.
    Duration repeat(Duration first) {
        pause_ = std::max(pause_, first);
        return pause_;
    }
    void reset() { pause_ = {}; }
    Duration pause() const { return pause_; }  // zero after reset()

    bool operator==(const Backoff&) const = default;

  private:
    Duration pause_{};
};

}  // namespace continuo::base
