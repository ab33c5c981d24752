#include "policy/promotion_tracker.hpp"

namespace continuo::policy {

base::TrafficClass promoted(base::TrafficClass traffic_class) {
    switch (traffic_class) {
    case base::TrafficClass::LtLd:
        return base::TrafficClass::HtLd;
    case base::TrafficClass::LtHd:
        return base::TrafficClass::HtHd;
    default:
        return traffic_class;
    }
}

bool PromotionTracker::on_bytes(const classifier::Promotion& rule,
                                uint32_t bytes,
                                base::TimePoint now) {
    if (!rule.is_enabled || is_promoted_) {
        return false;
    }
    const base::Duration slot = rule.sustained / kSlots;
    if (!is_started_) {
        is_started_ = true;
        slot_started_at_ = now;
    }
    const base::Duration elapsed = now - slot_started_at_;
    if (elapsed >= slot) {
        const double allowed_bytes = static_cast<double>(rule.above_bits_per_s) / 8.0 *
                                     std::chrono::duration<double>(slot).count();
        const bool was_busy = static_cast<double>(slot_bytes_) > allowed_bytes;
        const bool is_next = elapsed < 2 * slot;  // else a silent slot lies between
        busy_slots_ = was_busy ? static_cast<uint8_t>(busy_slots_ + 1) : uint8_t{0};
        is_promoted_ = is_next && busy_slots_ >= kSlots;
        if (!is_next) {
            busy_slots_ = 0;
        }
        slot_started_at_ = is_next ? slot_started_at_ + slot : now;
        slot_bytes_ = 0;
    }
    slot_bytes_ += bytes;
    return is_promoted_;
}

}  // namespace continuo::policy
