// Flows of the relay: their begin, if there is a place for them and this SNAPT is not draining, and
// their end.
#include "snapt/relay/relay.hpp"

namespace continuo::snapt::relay {

using base::DropReason;
using base::TimePoint;
using flow::Flow;

Flow* Relay::make_flow(NodeSession& node,
                       const packet::FiveTuple& tuple,
                       base::TrafficClass traffic_class,
                       const elision::OpenInfo& open,
                       uint32_t index,
                       TimePoint now,
                       flow::Direction begun) {
    const auto end = [&](Flow& silent) {
        note_ended(silent, now);
        end_flow(silent, now);
        flows_.erase(silent);
    };
    UserShare& share = *node.share;
    if (is_stopped(node)) {
        drops_.add(DropReason::UsedUp);
        return nullptr;
    }
    const bool is_favoured =
        begun == flow::Direction::Up && flow::is_favoured(tuple, traffic_class);
    if (!GoneFlows::has_room(share.tracked->gone, share.flows.flows(), user_flows(), room_.gone(),
                             is_favoured)) {
        drops_.add(DropReason::FlowLimit);
        tell_refusal(node, now);
        return nullptr;
    }
    if (!flows_.make_room(is_favoured, &share.flows, user_flows(), end, most_flows())) {
        tell_refusal(node, now);
        return nullptr;
    }
    make_left_room(*share.tracked);
    const bool is_refused = settings_.refusals.refuses(tuple);
    flow::FlowOrigin origin;
    origin.share = &share.flows;
    origin.session_number = is_refused ? ChargedSlots::kNobody : node.grant.accounting_number;
    origin.app = open.app;
    origin.index = index;
    origin.begun = begun;
    Flow* flow = flows_.create(tuple, traffic_class, now, origin);
    if (flow == nullptr) {
        return nullptr;
    }
    left_.remove(tuple);
    flow->details = &node;
    if (is_refused) {
        flows_.refuse(*flow, now);
    }
    node.session.set_mode(*flow, node.mode_of(open.app));
    ++node.flows;
    if (index <= elision::kMaxFlowIndex) {
        node.session.attach(*flow);
    }
    // Not before: this flow may be one of them.
    if (share.tracked->gone.flows >= room_.gone() / 2 && gone_.may_hurry()) {
        tell_gone();
    }
    return flow;
}

// Called before the table erases the flow: nobody may hold it any more.
void Relay::end_flow(Flow& flow, TimePoint now) {
    auto* node = flow::details_as<NodeSession>(flow);
    engine_.flush(flow);
    node->session.detach(flow, now);
    engine_.forget(flow);
    --node->flows;
}

// A TCP connection that began before is none of the new ones, though its flow may be forgotten
// here.
bool Relay::takes_flow(const NodeSession& node,
                       const packet::FiveTuple& tuple,
                       uint8_t tcp_flags,
                       TimePoint now) {
    const bool has_begun =
        tuple.protocol == packet::Protocol::Tcp && (tcp_flags & packet::tcp_flag::kSyn) == 0;
    if (now < node.drains_from || has_begun) {
        return true;
    }
    drops_.add(DropReason::Draining);
    return false;
}

void Relay::drain(uint16_t wire_id, TimePoint from) {
    NodeSession* node = by_wire_id_[wire_id];
    if (node != nullptr && (node->drains_from == base::kNever || from == base::kNever)) {
        node->drains_from = from;  // a node that is told again gets no further time
    }
}

size_t Relay::running_flows() const {
    size_t count = 0;
    for (const auto& entry : shares_) {
        count += entry.second.flows.running();
    }
    return count;
}

}  // namespace continuo::snapt::relay
