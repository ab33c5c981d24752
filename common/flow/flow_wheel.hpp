// FlowWheel: timer wheel over the flows of one table, by Flow::expires_at. A deadline that moves
// later costs nothing: the flow is looked at when its old place comes up and put on again. Never
// early; late by less than kTick.
#pragma once

#include "common/flow/flow.hpp"

#include <array>
#include <vector>

namespace continuo::flow {

class FlowWheel {
  public:
    static constexpr base::Duration kTick = base::seconds(1);
    // More ticks than the longest timeout; a deadline beyond is looked at again after one turn.
    static constexpr size_t kSlots = 8192;

    FlowWheel();

    // Sets flow.expires_at and sees to it that the flow comes up in time.
    void arm(Flow& flow, base::TimePoint expires_at, base::TimePoint now);
    void remove(Flow& flow);
    // Takes one flow with expires_at <= now off the wheel; null when there is none. Call until
    // null.
    Flow* pop_due(base::TimePoint now);
    // When to call pop_due again; may be before the first deadline.
    base::TimePoint next_deadline() const;
    size_t size() const { return size_; }

  private:
    void insert(Flow& flow);
    // First tick at or behind current_ with flows; size_ > 0.
    uint32_t next_occupied_tick() const;

    std::vector<Flow*> heads_;
    std::array<uint64_t, kSlots / 64> occupied_{};
    uint32_t current_ = 0;  // every earlier tick is done
    size_t size_ = 0;
};

}  // namespace continuo::flow
