// ChargedSlots: counters of flows, and the number of flows by class. Counters of refused flows are
// charged to nobody.
#pragma once

#include "common/flow/slot_source.hpp"

#include <array>

namespace continuo::snapt {

class ChargedSlots final : public flow::SlotSource {
  public:
    // Session number of refused flows; the ledger has no such session.
    static constexpr uint32_t kNobody = UINT32_MAX;

    ChargedSlots(flow::SlotSource& charged, size_t max_flows)
        : charged_(charged), refused_(max_flows) {}
    flow::LiveSlot* take(const flow::SlotRequest& request) override {
        flow::LiveSlot* slot = of(request.session_number).take(request);
        if (slot != nullptr) {
            ++by_class_[slot->traffic_class];
        }
        return slot;
    }
    void release(flow::LiveSlot* slot, flow::Cause cause) override {
        --by_class_[slot->traffic_class];
        of(slot->session_number).release(slot, cause);
    }
    // A slot for the tunnel's own traffic: no flow is counted.
    flow::LiveSlot* take_for_tunnel(const flow::SlotRequest& request) {
        return charged_.take(request);
    }
    void release_of_tunnel(flow::LiveSlot* slot, flow::Cause cause) {
        charged_.release(slot, cause);
    }
    // Flows that hold a slot, of their own or shared, by base::index_of.
    const std::array<size_t, base::kTrafficClasses>& by_class() const { return by_class_; }

  private:
    flow::SlotSource& of(uint32_t session_number) {
        return session_number == kNobody ? static_cast<flow::SlotSource&>(refused_) : charged_;
    }
    flow::SlotSource& charged_;
    flow::HeapSlots refused_;
    std::array<size_t, base::kTrafficClasses> by_class_{};
};

}  // namespace continuo::snapt
