#include "common/flow/slot_source.hpp"

#include "common/flow/counter_values.hpp"

#include <algorithm>

namespace continuo::flow {

void open_slot(LiveSlot& slot, const SlotRequest& request) {
    slot.session_number = request.session_number;
    slot.flow_id = request.flow_id;
    slot.traffic_class = static_cast<uint8_t>(request.traffic_class);
    slot.protocol = request.protocol;
    slot.app = request.app;
    slot.remote_port = request.remote_port;
    slot.remote_is_v6 = request.remote.is_v4() ? 0 : 1;
    slot.close_cause = 0;
    slot.opened_at_us = request.opened_at_us;
    slot.last_at_us.store(request.opened_at_us, std::memory_order_relaxed);
    std::copy(request.remote.octets.begin(), request.remote.octets.end(), slot.remote_address);
    for (const auto counter : kCounterMembers) {
        (slot.counters.*counter).store(0, std::memory_order_relaxed);
    }
    slot.state.store(SlotState::Open, std::memory_order_release);
}

HeapSlots::HeapSlots(size_t max_slots) : max_slots_(max_slots) {}

LiveSlot* HeapSlots::take(const SlotRequest& request) {
    if (in_use_ >= max_slots_) {
        return nullptr;
    }
    if (free_.empty()) {
        auto& slab = slabs_.emplace_back(std::make_unique<LiveSlot[]>(kSlotsPerSlab));
        free_.reserve(slabs_.size() * kSlotsPerSlab);
        for (size_t i = kSlotsPerSlab; i > 0; --i) {
            free_.push_back(&slab[i - 1]);
        }
    }
    LiveSlot* slot = free_.back();
    free_.pop_back();
    ++in_use_;
    open_slot(*slot, request);
    return slot;
}

void HeapSlots::release(LiveSlot* slot, Cause cause) {
    CTN_ASSERT(slot->state.load(std::memory_order_relaxed) == SlotState::Open);
    slot->close_cause = static_cast<uint8_t>(cause);
    slot->state.store(SlotState::Free, std::memory_order_release);
    LiveCounters& totals = released_[slot->traffic_class];
    const uint64_t delay_max =
        std::max(value(totals.delay_us_max), value(slot->counters.delay_us_max));
    for (const auto counter : kCounterMembers) {
        add(totals.*counter, value(slot->counters.*counter));
    }
    totals.delay_us_max.store(delay_max, std::memory_order_relaxed);
    free_.push_back(slot);
    --in_use_;
}

}  // namespace continuo::flow
