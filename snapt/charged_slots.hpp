// ChargedSlots: counters of flows. Those of refused flows are charged to nobody.
#pragma once

#include "common/flow/slot_source.hpp"

namespace continuo::snapt {

class ChargedSlots final : public flow::SlotSource {
  public:
    // Session number of refused flows; the ledger has no such session.
    static constexpr uint32_t kNobody = UINT32_MAX;

    ChargedSlots(flow::SlotSource& charged, size_t max_flows)
        : charged_(charged), refused_(max_flows) {}
    flow::LiveSlot* take(const flow::SlotRequest& request) override {
        return of(request.session_number).take(request);
    }
    void release(flow::LiveSlot* slot, flow::Cause cause) override {
        of(slot->session_number).release(slot, cause);
    }

  private:
    flow::SlotSource& of(uint32_t session_number) {
        return session_number == kNobody ? static_cast<flow::SlotSource&>(refused_) : charged_;
    }
    flow::SlotSource& charged_;
    flow::HeapSlots refused_;
};

}  // namespace continuo::snapt
