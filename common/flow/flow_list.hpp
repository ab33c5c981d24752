// FlowList: the flows that belong together, such as those of one session at a SNAPT. Intrusive: a
// flow is in one list at most, and must be taken out before its table erases it.
#pragma once

#include "common/flow/flow.hpp"

#include <cstddef>

namespace continuo::flow {

class FlowList {
  public:
    FlowList() = default;
    FlowList(const FlowList&) = delete;
    FlowList& operator=(const FlowList&) = delete;
    ~FlowList() = default;

    void add(Flow& flow) {
        flow.list_previous = nullptr;
        flow.list_next = first_;
        if (first_ != nullptr) {
            first_->list_previous = &flow;
        }
        first_ = &flow;
        ++size_;
    }
    // Only of a flow that is in it.
    void remove(Flow& flow) {
        (flow.list_previous != nullptr ? flow.list_previous->list_next : first_) = flow.list_next;
        if (flow.list_next != nullptr) {
            flow.list_next->list_previous = flow.list_previous;
        }
        flow.list_next = nullptr;
        flow.list_previous = nullptr;
        --size_;
    }
    // `visitor` may remove the flow that it is given.
    template <typename Visitor>
    void for_each(Visitor&& visitor) {
        for (Flow* flow = first_; flow != nullptr;) {
            Flow* const next = flow->list_next;
            visitor(*flow);
            flow = next;
        }
    }
    size_t size() const { return size_; }

  private:
    Flow* first_ = nullptr;
    size_t size_ = 0;
};

}  // namespace continuo::flow
