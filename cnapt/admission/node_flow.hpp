// NodeFlow: per-flow data of the daemon.
#pragma once

#include "classifier/ruleset.hpp"
#include "common/flow/flow.hpp"
#include "common/process/process_lookup.hpp"
#include "policy/promotion_tracker.hpp"

#include <memory>
#include <string>
#include <vector>

namespace continuo::cnapt::links {
struct SnaptLink;
}

namespace continuo::cnapt::admission {

struct NodeFlow : flow::FlowDetails {
    flow::Flow* flow = nullptr;
    links::SnaptLink* link = nullptr;
    std::shared_ptr<const classifier::Ruleset> ruleset;  // owns the views below
    classifier::Classification classification;
    uint8_t dscp = 0;
    process::SocketOwner owner;
    std::string user;
    uint64_t committed_bits_per_s = 0;
    std::string refused_reason;
    std::vector<packet::PacketPtr> waiting;  // for the process
    base::TimePoint waits_until = base::kNever;
    policy::PromotionTracker promotion;
    bool is_classified = false;
    // Started for the resets of an unknown connection: nothing of it goes to the host.
    bool is_unknown = false;
};

inline bool is_unknown(const flow::Flow& flow) {
    return flow.state == flow::FlowState::Closing &&
           flow::details_as<const NodeFlow>(flow)->is_unknown;
}

}  // namespace continuo::cnapt::admission
