// PromotionTracker: detects that a flow has outgrown a low-throughput class. One per flow, a few
// bytes of state, no clock of its own. The time for which the rate must last is divided into four
// slots; the flow is promoted when each of four consecutive slots exceeded the rate, so that a
// single burst does not count.
#pragma once

#include "classifier/rule.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"

#include <cstdint>

namespace continuo::policy {

// The class with the same delay and high throughput.
base::TrafficClass promoted(base::TrafficClass traffic_class);

class PromotionTracker {
  public:
    // Counts `bytes` of the flow at `now`. True once, when the flow is to be promoted; the caller
    // then changes its class. Flows in a high-throughput class need no tracker.
    bool on_bytes(const classifier::Promotion& rule, uint32_t bytes, base::TimePoint now);
    void reset() { *this = PromotionTracker(); }

  private:
    static constexpr uint8_t kSlots = 4;

    base::TimePoint slot_started_at_{};
    uint64_t slot_bytes_ = 0;
    uint8_t busy_slots_ = 0;
    bool is_started_ = false;
    bool is_promoted_ = false;
};

}  // namespace continuo::policy
