// PathParts: the parts of a path that both ends have. Path and its role, NodePath or SnaptPath,
// share them.
#pragma once

#include "common/path/path_feedback.hpp"
#include "common/path/path_state.hpp"
#include "common/path/path_traffic.hpp"
#include "common/path/path_validation.hpp"
#include "common/path/probe.hpp"

namespace continuo::path {

struct PathParts {
    // `shared` must outlive the parts.
    PathParts(const PathContext& shared, uint8_t path) : context(shared), index(path) {}
    PathParts(const PathParts&) = delete;
    PathParts& operator=(const PathParts&) = delete;
    ~PathParts() = default;

    bool is_node() const { return context.role == Role::Node; }
    bool is_tcp() const { return index == wire::kTcpPath; }
    // At SNAPT health changes no state, since the node moves.
    PathState state() const {
        return state_of(validation.state(),
                        is_node() ? liveness.health() : recovery::Health::Usable);
    }
    // A PING or a CHALLENGE leaves, which is to be answered.
    void note_asked(base::TimePoint now) {
        liveness.on_sent(false, true, feedback.unacknowledged_bytes(), now);
    }
    void forget_delivery() {
        feedback.forget_delivery();
        is_ping_due = false;
    }
    // A datagram without packets to where that class goes.
    Probe probe_to(base::TrafficClass traffic_class) const {
        const Tuple& tuple = validation.tuple(traffic_class);
        return {index, traffic_class, tuple.remote(), tuple.local()};
    }

    const PathContext& context;
    const uint8_t index;
    recovery::Liveness liveness;
    recovery::MtuSearch search;
    PathValidation validation{context, liveness};
    PathFeedback feedback{liveness, search, context.memory, is_tcp()};
    PathTraffic traffic;
    bool is_ping_due = false;
};

}  // namespace continuo::path
