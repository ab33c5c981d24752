#include "common/session/session_flows.hpp"

#include "common/flow/counter_values.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::ByteWriter;
using base::PathMode;
using base::TimePoint;
using flow::Flow;
using flow::FlowPaths;
using path::Path;
using path::Role;

namespace {

// CLOSED frames in a datagram: each costs the other end 32 look-ups.
constexpr size_t kMostClosed = 4;

}  // namespace

bool SessionFlows::give_index(Flow& flow) {
    if (role_ == Role::Node) {
        const auto index = indexes_.take();
        if (!index) {
            return false;
        }
        flow.index = *index;
    }
    return flow.index <= elision::kMaxFlowIndex;
}

void SessionFlows::attach(Flow& flow) {
    flow.paths.moves_seen = FlowPaths::kNotSeen;
    if (flows_.size() <= flow.index) {
        flows_.resize(std::max<size_t>(flow.index + size_t{1}, flows_.size() * 2));
    }
    if (Flow* const former = flows_[flow.index]) {
        // SNAPT: the node gave the index to another flow; the old one stays in the daemon's table.
        release(*former);
    }
    flows_[flow.index] = &flow;
    flow.owner = &owner_;
    ++attached_;
    count_mode(flow, 1);
}

bool SessionFlows::detach(Flow& flow, EndNotice notice) {
    if (!owns(flow) || !has(flow)) {
        return false;
    }
    flows_[flow.index] = nullptr;
    release(flow);
    const bool is_told = notice == EndNotice::Closed && closed_.add(flow.index);
    counters_.closed_untold += notice == EndNotice::Closed && !is_told ? 1U : 0U;
    if (role_ == Role::Node) {
        indexes_.release(static_cast<uint16_t>(flow.index));
        if (!is_told) {
            indexes_.make_reusable(static_cast<uint16_t>(flow.index));
        }
    }
    return true;
}

void SessionFlows::release(Flow& flow) {
    count_mode(flow, -1);
    flow.paths.pinned = FlowPaths::kNone;
    flow.owner = nullptr;
    --attached_;
}

void SessionFlows::count_mode(const Flow& flow, int change) {
    size_t& count = by_mode_[static_cast<size_t>(flow.paths.mode)];
    count = static_cast<size_t>(static_cast<int64_t>(count) + change);
    has_mode_changed_ = has_mode_changed_ || flow.paths.mode != PathMode::Handover;
}

void SessionFlows::set_mode(Flow& flow, PathMode mode) {
    if (flow.paths.mode == mode) {
        return;
    }
    const bool is_attached = owns(flow) && has(flow);
    if (is_attached) {
        count_mode(flow, -1);
    }
    flow.paths.pinned = FlowPaths::kNone;
    flow.paths.mode = mode;
    if (is_attached) {
        count_mode(flow, 1);
    }
}

void SessionFlows::count_way(
    Flow& flow, const Path& path, uint64_t handovers, uint32_t packets, uint64_t waited_us) {
    if (packets == 0) {
        return;
    }
    flow::LiveCounters& counters = flow.counters->counters;
    const auto moves = static_cast<uint32_t>(handovers);
    const uint32_t seen = std::exchange(flow.paths.moves_seen, moves);
    if (seen != moves && seen != FlowPaths::kNotSeen) {
        flow::add(counters.handovers, moves - seen);
    }
    const recovery::RttEstimator& rtt = path.feedback().rtt();
    if (rtt.has_sample()) {
        const auto one_way_us = static_cast<uint64_t>(base::to_us(rtt.smoothed() / 2));
        flow::count_delay(counters, one_way_us + waited_us / packets,
                          static_cast<uint64_t>(base::to_us(rtt.variation() / 2)), packets);
    }
}

void SessionFlows::write_closed(EpochState& epoch,
                                ByteWriter& body,
                                size_t spare,
                                TimePoint rest_until) {
    for (size_t i = 0; i < kMostClosed && !closed_.is_empty(); ++i) {
        wire::Closed frame;
        size_t bytes = wire::Closed::kHeadBytes + wire::Closed::kMaxIndexBytes;
        for (; !closed_.is_empty() && bytes <= spare && frame.count < wire::kMaxClosedFlows;
             bytes += wire::Closed::kMaxIndexBytes) {
            const uint32_t index = closed_.take();
            if (role_ == Role::Node) {
                closed_.rest(index, rest_until);
            }
            if (at(index) == nullptr && frame.add(index)) {
                epoch.encoder.count_user(index);
            }
        }
        if (frame.count == 0) {
            return;
        }
        frame.serialize(body);
        spare -= std::min(spare, frame.size());
    }
}

void SessionFlows::on_time(TimePoint now) {
    closed_.wake(now,
                 [this](uint32_t index) { indexes_.make_reusable(static_cast<uint16_t>(index)); });
}

}  // namespace continuo::session
