// SlotSource: where a flow's counters live. The SNAPT takes them from its memory-mapped live file,
// the node from the heap (HeapSlots). A taken slot has zero counters and belongs to the flow's loop
// until released.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/traffic_class.hpp"
#include "common/flow/accounting_record.hpp"
#include "common/flow/live_slot.hpp"

#include <array>
#include <memory>
#include <vector>

namespace continuo::flow {

// First id of slots for a session's tunnel bytes outside flows, one per class. Below those that are
// shared or merged (snapt/ledger).
inline constexpr uint64_t kTunnelFlowIdBase = uint64_t{1} << 61U;

// The low bits of a flow's id are its number. The higher ones count its changes of class: after
// each it uses a new slot with its own id.
inline constexpr int kFlowNumberBits = 53;
inline constexpr uint64_t kMostClassChanges = 255;
constexpr uint64_t flow_number(uint64_t flow_id) {
    return flow_id & ~(kMostClassChanges << kFlowNumberBits);
}
static_assert(kMostClassChanges << kFlowNumberBits < kTunnelFlowIdBase);

// Identity of the flow, which is written into the slot.
struct SlotRequest {
    uint64_t flow_id = 0;
    uint32_t session_number = 0;
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    uint8_t protocol = 0;
    uint16_t app = 0;
    base::IpAddress remote;
    uint16_t remote_port = 0;
    int64_t opened_at_us = 0;  // UTC
    uint8_t writer = 0;        // loop that counts; a slot shared by flows is never shared by loops
};

// Resets `slot`, writes the identity and opens it, in this order for readers of other threads.
void open_slot(LiveSlot& slot, const SlotRequest& request);

class SlotSource {
  public:
    SlotSource() = default;
    SlotSource(const SlotSource&) = delete;
    SlotSource& operator=(const SlotSource&) = delete;
    virtual ~SlotSource() = default;

    // Null when there is no room.
    virtual LiveSlot* take(const SlotRequest& request) = 0;
    // The slot must not be used afterwards.
    virtual void release(LiveSlot* slot, Cause cause) = 0;
};

// Bounded slots on the heap, one loop. Memory comes in slabs when first needed and is kept. The
// counts of released slots are summed by class.
class HeapSlots final : public SlotSource {
  public:
    explicit HeapSlots(size_t max_slots);

    LiveSlot* take(const SlotRequest& request) override;
    void release(LiveSlot* slot, Cause cause) override;

    size_t in_use() const { return in_use_; }
    const LiveCounters& released_totals(base::TrafficClass traffic_class) const {
        return released_[base::index_of(traffic_class)];
    }

  private:
    static constexpr size_t kSlotsPerSlab = 64;

    size_t max_slots_;
    size_t in_use_ = 0;
    std::vector<std::unique_ptr<LiveSlot[]>> slabs_;
    std::vector<LiveSlot*> free_;
    std::array<LiveCounters, base::kTrafficClasses> released_;
};

}  // namespace continuo::flow
