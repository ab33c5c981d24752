// WaitingFlows: flows whose first packets wait for their process. Data loop only.
#pragma once

#include "cnapt/admission/node_flow.hpp"
#include "common/io/event_loop.hpp"

#include <functional>
#include <vector>

namespace continuo::cnapt::admission {

// Most packets of one flow that wait for its process; later ones are dropped and counted.
inline constexpr size_t kMaxWaitingPackets = 32;
// Longest wait of a flow's first packets for its process; a late answer may still change the class.
inline constexpr base::Duration kProcessWait = base::milliseconds(2);

class WaitingFlows {
  public:
    // `loop` must outlive this. `on_due`: a wait may be over, ask next_due().
    WaitingFlows(io::EventLoop& loop, std::function<void()> on_due)
        : timer_(loop, std::move(on_due)) {}

    void add(NodeFlow& node_flow, base::TimePoint now);
    static bool is_waiting(const NodeFlow& node_flow) {
        return node_flow.waits_until != base::kNever;
    }
    // False: too many wait already.
    static bool keep(NodeFlow& node_flow, packet::PacketPtr packet);
    // Ends the wait. Returns the packets, oldest first.
    std::vector<packet::PacketPtr> take(NodeFlow& node_flow);
    // A flow whose wait is over, to be taken; null when there is none (any more).
    NodeFlow* next_due(base::TimePoint now);
    // The flow ends, waiting or not.
    void remove(const NodeFlow& node_flow);

  private:
    std::vector<NodeFlow*> flows_;
    io::DeadlineTimer timer_;
};

}  // namespace continuo::cnapt::admission
