// PauseDetector: tells a packet that comes alone, such as a request, from one of many. The first
// after a pause is handled before the kernel is asked for another one: that question costs as much
// as reading the packet. Pure.
#pragma once

#include "common/base/time.hpp"

namespace continuo::dataplane {

class PauseDetector {
  public:
    // Longer than between packets of a busy sender, shorter than a round trip of a request.
    static constexpr base::Duration kPause = base::microseconds(50);

    // A descriptor became readable `now`: true when the time before was a pause.
    bool ends(base::TimePoint now) {
        const bool was_pause = now - last_ > kPause;
        last_ = now;
        return was_pause;
    }

  private:
    base::TimePoint last_{};
};

}  // namespace continuo::dataplane
