#include "cnapt/admission/waiting_flows.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::admission {

using base::TimePoint;

void WaitingFlows::add(NodeFlow& node_flow, TimePoint now) {
    node_flow.waits_until = now + kProcessWait;
    flows_.push_back(&node_flow);
    timer_.set(std::min(timer_.deadline(), node_flow.waits_until));
}

bool WaitingFlows::keep(NodeFlow& node_flow, packet::PacketPtr packet) {
    if (node_flow.waiting.size() >= kMaxWaitingPackets) {
        return false;
    }
    node_flow.waiting.push_back(std::move(packet));
    return true;
}

std::vector<packet::PacketPtr> WaitingFlows::take(NodeFlow& node_flow) {
    node_flow.waits_until = base::kNever;
    remove(node_flow);
    return std::exchange(node_flow.waiting, {});
}

NodeFlow* WaitingFlows::next_due(TimePoint now) {
    TimePoint next = base::kNever;
    for (NodeFlow* node_flow : flows_) {
        if (node_flow->waits_until <= now) {
            return node_flow;
        }
        next = std::min(next, node_flow->waits_until);
    }
    timer_.set(next);
    return nullptr;
}

void WaitingFlows::remove(const NodeFlow& node_flow) {
    std::erase(flows_, &node_flow);
}

}  // namespace continuo::cnapt::admission
