// SessionFlows: the flows attached to a session, by their index, and how many of them use the paths
// in each way. Flows that end are told to the other end here (CLOSED, docs/PROTOCOL.md section
// 6.4). Pure.
#pragma once

#include "common/flow/flow.hpp"
#include "common/flow/index_allocator.hpp"
#include "common/session/closed_flows.hpp"
#include "common/session/epoch_state.hpp"
#include "common/session/session_types.hpp"

#include <array>
#include <utility>
#include <vector>

namespace continuo::session {

class SessionFlows {
  public:
    // `owner`: of the attached flows (Flow::owner). `counters` must outlive this object.
    SessionFlows(Role role, const flow::FlowOwner& owner, SessionCounters& counters)
        : role_(role), owner_(owner), counters_(counters) {}

    // Null: no flow has the index.
    flow::Flow* at(uint32_t index) const { return index < flows_.size() ? flows_[index] : nullptr; }
    // The flow has its index still.
    bool has(const flow::Flow& flow) const { return at(flow.index) == &flow; }
    bool owns(const flow::Flow& flow) const { return flow.owner == &owner_; }
    size_t count() const { return attached_; }
    size_t in_mode(base::PathMode mode) const { return by_mode_[static_cast<size_t>(mode)]; }
    // At least one flow has a mode other than handover.
    bool uses_several_paths() const { return attached_ > in_mode(base::PathMode::Handover); }
    // At least one flow may take another path than the others of its class.
    bool has_spread() const {
        return in_mode(base::PathMode::Flow) + in_mode(base::PathMode::Packet) > 0;
    }
    // Calls visit(Flow&).
    template <typename Visit>
    void each(const Visit& visit) const {
        for (flow::Flow* flow : flows_) {
            if (flow != nullptr) {
                visit(*flow);
            }
        }
    }

    // Node: gives the flow an index. False: none is free, or SNAPT's flow has one that is too high.
    bool give_index(flow::Flow& flow);
    // A flow that has the same index loses it.
    void attach(flow::Flow& flow);
    // Releases the index. False: the flow has none.
    bool detach(flow::Flow& flow, EndNotice notice);
    // Sets how the flow, attached or not, uses the paths.
    void set_mode(flow::Flow& flow, base::PathMode mode);
    // A flow with a mode other than handover came or went since the last call.
    bool take_mode_change() { return std::exchange(has_mode_changed_, false); }

    // Records the path that `packets` packets of the flow took; SNAPT keeps the records. Moves of
    // the session count for a flow from its first packet on. `waited_us`: of the packets together,
    // here.
    static void count_way(flow::Flow& flow,
                          const Path& path,
                          uint64_t handovers,
                          uint32_t packets,
                          uint64_t waited_us);

    bool has_closed() const { return !closed_.is_empty(); }
    // Writes flows that have ended, unless another flow has their index by now, in at most `spare`
    // bytes. They are only piggybacked: no datagram leaves for them alone. Until `rest_until` a
    // node gives their indexes to no other flow.
    void write_closed(EpochState& epoch,
                      base::ByteWriter& body,
                      size_t spare,
                      base::TimePoint rest_until);
    // Indexes that have rested may be used again.
    void on_time(base::TimePoint now);

  private:
    void count_mode(const flow::Flow& flow, int change);
    // The flow is in the table no more.
    void release(flow::Flow& flow);

    Role role_;
    const flow::FlowOwner& owner_;
    SessionCounters& counters_;
    std::vector<flow::Flow*> flows_;  // by index
    flow::IndexAllocator indexes_;
    ClosedFlows closed_;
    size_t attached_ = 0;
    std::array<size_t, base::kPathModes> by_mode_{};
    bool has_mode_changed_ = false;
};

}  // namespace continuo::session
