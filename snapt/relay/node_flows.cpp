#include "snapt/relay/node_flows.hpp"

#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::relay {

using base::DropReason;
using base::TimePoint;
using flow::Direction;
using flow::Flow;
using packet::NodeSide;

NodeFlows::NodeFlows(const RelaySettings& settings,
                     dataplane::PacketEngine& engine,
                     const SessionTable& sessions,
                     flow::SlotSource& slots,
                     base::Random& random,
                     RelayEvents& events,
                     base::DropCounters& drops,
                     std::function<void(const NodeSession&)> on_peer_closed)
    : settings_(settings)
    , engine_(engine)
    , sessions_(sessions)
    , events_(events)
    , drops_(drops)
    , on_peer_closed_(std::move(on_peer_closed))
    , slots_(slots, settings.max_flows)
    , flows_(settings.max_flows, slots_, {.hash_seed = random.u64(), .drops = &drops})
    , connections_(flows_, events, random.u64(), settings.max_user_flows)
    , shares_(engine, connections_, events, settings.classes, settings.user_bits_per_s)
    , refusals_(engine, flows_, drops, settings.own_ipv4, settings.own_ipv6) {}

Flow* NodeFlows::make_flow(NodeSession& node,
                           const packet::FiveTuple& tuple,
                           base::TrafficClass traffic_class,
                           const elision::OpenInfo& open,
                           uint32_t index,
                           TimePoint now,
                           flow::Direction begun) {
    const auto end = [&](Flow& silent) { drop_flow(silent, now); };
    UserShare& share = *node.share;
    if (share.is_used_up()) {
        drops_.add(DropReason::UsedUp);
        return nullptr;
    }
    const bool is_favoured =
        begun == flow::Direction::Up && flow::is_favoured(tuple, traffic_class);
    if (!connections_.has_room(share, is_favoured)) {
        drops_.add(DropReason::FlowLimit);
        refusals_.tell(node, now);
        return nullptr;
    }
    if (!flows_.make_room(is_favoured, &share.flows, connections_.user_flows(), end,
                          connections_.most_flows())) {
        refusals_.tell(node, now);
        return nullptr;
    }
    connections_.make_room(*share.tracked);
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
    connections_.note_begun(tuple);
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
    connections_.hurry(*share.tracked);
    return flow;
}

// Called before the table erases the flow: nobody may hold it any more.
void NodeFlows::end_flow(Flow& flow, TimePoint now, bool may_stay) {
    connections_.note_ended(flow, now, may_stay);
    auto* node = flow::details_as<NodeSession>(flow);
    engine_.flush(flow);
    node->session.detach(flow, now);
    engine_.forget(flow);
    --node->flows;
}

void NodeFlows::drop_flow(Flow& flow, TimePoint now, flow::Cause cause) {
    end_flow(flow, now);
    flows_.erase(flow, cause);
}

// A TCP connection that began before is none of the new ones, though its flow may be forgotten
// here.
bool NodeFlows::takes_flow(const NodeSession& node,
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

// The kernel's NAT still knows the binding that we have forgotten; the node gets the packet as it
// is. The node may have ended the flow: until it sends, the flow gives way, and takes no place of
// another one, nor one that is kept for DNS and TCP of nodes.
Flow* NodeFlows::make_flow_of_answer(NodeSession& node,
                                     const packet::FiveTuple& tuple,
                                     TimePoint now) {
    if (!node.share->flows.has_room(connections_.user_flows(), false) ||
        !flows_.has_free_place(connections_.most_flows())) {
        drops_.add(base::DropReason::FlowLimit);
        return nullptr;
    }
    return make_flow(node, tuple, base::TrafficClass::LtHd, {}, elision::kMaxFlowIndex + 1, now,
                     flow::Direction::Down);
}

void NodeFlows::end_flows_of(const NodeSession& node, flow::Cause cause, TimePoint now) {
    flows_.for_each([&](Flow& flow) {
        if (flow.details == &node) {
            drop_flow(flow, now, cause);
        }
    });
}

// A pass over all flows, once per used-up quota.
void NodeFlows::end_flows_of(UserShare& share, TimePoint now) {
    share.is_stopped = true;
    flows_.for_each([&](Flow& flow) {
        if (flow::details_as<NodeSession>(flow)->share == &share) {
            drop_flow(flow, now, flow::Cause::Quota);
        }
    });
}

void NodeFlows::on_housekeeping(TimePoint now) {
    engine_.flush();
    flows_.expire(now,
                  [&](Flow& flow) { end_flow(flow, now, connections_.may_stay_with_nat(flow)); });
    connections_.look(now);
    connections_.tell_gone();
}

// Some packets of a refused flow go to the rules, so that the node gets their answer.
bool NodeFlows::may_go_up(Flow& flow, size_t bytes, TimePoint now) {
    auto& node = *flow::details_as<NodeSession>(flow);
    if (flow.state != flow::FlowState::Refused) {
        shares_.follow_meter(*node.share);
        base::TokenBucket& rate = node.share->up_rate;
        if (!rate.may_pass(now)) {
            drops_.add(DropReason::UserRate);
            return false;
        }
        rate.take(bytes, now);
        return true;
    }
    flows_.refuse(flow, now);  // it stays while packets come
    if (now - node.refusals_from >= base::seconds(1)) {
        node.refusals_from = now;
        node.refusals = 0;
    }
    if (node.refusals >= kRefusalsToAnswer) {
        drops_.add(DropReason::Refused);
        return false;
    }
    ++node.refusals;
    return true;
}

void NodeFlows::on_tun_packet(packet::PacketPtr packet, TimePoint now) {
    packet::SummaryResult result = packet::summarize(packet->bytes(), NodeSide::Destination);
    if (!result.summary) {
        drops_.add(result.error == packet::SummaryError::Malformed
                       ? DropReason::MalformedPacket
                       : DropReason::UnsupportedProtocol);
        return;
    }
    packet::PacketSummary& summary = *result.summary;
    NodeSession* node = sessions_.find(summary.tuple.local);
    if (node == nullptr) {
        drops_.add(DropReason::NoSession);
        return;
    }
    receivers_.note(node, now);
    UserShare& share = *node->share;
    if (!find_first(share.fragments_down, summary, now)) {
        return;
    }
    if (share.is_used_up()) {
        if (!share.is_stopped) {
            end_flows_of(share, now);  // before the answer, which has a flow
        }
        refusals_.refuse_down(*node, summary, packet->bytes(), now);
        return;
    }
    shares_.follow_meter(share);
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr && summary.is_icmp_error) {
        drops_.add(DropReason::NoBinding);  // belongs to no flow: nobody here has asked for it
        return;
    }
    if (flow == nullptr) {
        flow = make_flow_of_answer(*node, summary.tuple, now);
        if (flow == nullptr) {
            return;
        }
    }
    flows_.on_packet(*flow, Direction::Down, summary, now);
    if ((summary.tcp_flags & packet::tcp_flag::kSyn) != 0) {
        const auto destination =
            node->session.paths().selector().destination(flow->traffic_class, now);
        packet::clamp_mss(
            packet->bytes(),
            session::largest_segment(destination.value_or(path::Destination{}), flow->paths.mode),
            packet->offload.partial_checksum);
    }
    node->session.on_packet(*flow, std::move(packet), now);
    engine_.touch(node->session);
}

Flow* NodeFlows::on_flow_opened(tunnel::Session& session,
                                const session::FlowOpening& opening,
                                TimePoint now) {
    NodeSession& node = sessions_.owner_of(session);
    Flow* flow = flows_.find(opening.tuple);
    // A version without a lease has no address; another node's flow cannot be used.
    if (opening.tuple.local.is_unspecified() || (flow != nullptr && flow->details != &node)) {
        drops_.add(DropReason::SpoofedSource);
        return nullptr;
    }
    // Where the node's word of its end was lost.
    Flow* former = session.flow_table().at(opening.index);
    if (former != nullptr && former != flow) {
        flows_.on_ended_there(*former, now);
    }
    if (flow == nullptr && !opening.has_packet && now >= node.drains_from) {
        return nullptr;  // the packet decides
    }
    if (flow == nullptr) {
        const uint8_t flags = opening.fields != nullptr ? opening.fields->flags : uint8_t{0};
        if (takes_flow(node, opening.tuple, flags, now)) {
            flow = make_flow(node, opening.tuple, opening.traffic_class, opening.open,
                             opening.index, now);
        }
        if (flow == nullptr) {
            refusals_.answer(node, opening, now);
        }
        return flow;
    }
    flow->app = opening.open.app;
    session.set_mode(*flow, node.mode_of(flow->app));
    on_other_class(session, *flow, opening.traffic_class, now);
    if (flow->owner == &session && flow->index == opening.index) {
        return flow;
    }
    // Known only by its tuple so far, or under another index.
    if (flow->owner == &session) {
        session.detach(*flow, now);
    }
    flow->index = opening.index;
    return session.attach(*flow) ? flow : nullptr;
}

// A flow takes the class of the packets it sends, whatever it was opened with. Classes are served
// in order: a change to an earlier one applies at once, to a later one when the class has not
// changed for a while.
void NodeFlows::on_other_class(tunnel::Session& session,
                               Flow& flow,
                               base::TrafficClass traffic_class,
                               TimePoint now) {
    const bool is_earlier = base::index_of(traffic_class) < base::index_of(flow.traffic_class);
    if (flow.traffic_class == traffic_class ||
        (!is_earlier && now - flow.class_changed_at < kClassStays)) {
        return;
    }
    engine_.flush(flow);  // earlier packets belong to the former class
    const base::TrafficClass former = flow.traffic_class;
    if (flows_.reclassify(flow, traffic_class, now)) {
        flow.class_changed_at = now;
        session.requeue(flow, former);
    }
}

Flow* NodeFlows::find_flow(tunnel::Session& session, const packet::FiveTuple& tuple) {
    Flow* flow = flows_.find(tuple);
    return flow != nullptr && flow->details == &sessions_.owner_of(session) ? flow : nullptr;
}

void NodeFlows::deliver(tunnel::Session& /*session*/,
                        Flow& flow,
                        const packet::HeaderFields& fields,
                        base::ByteView payload,
                        TimePoint now) {
    NodeSession& node = *flow::details_as<NodeSession>(flow);
    if (node.share->is_used_up()) {
        refusals_.refuse_up(node, flow, fields, now);
        return;
    }
    if (!may_go_up(flow, fields.header_bytes() + payload.size(), now)) {
        return;
    }
    dataplane::track(flows_, flow, Direction::Up, fields, now);
    engine_.deliver(fields, payload, flow);
}

// The ports of a fragment. Returns false if its first fragment is unknown.
bool NodeFlows::find_first(std::unique_ptr<flow::FragmentCache>& fragments,
                           packet::PacketSummary& summary,
                           TimePoint now) {
    if (!summary.is_fragment) {
        return true;
    }
    if (fragments == nullptr) {
        fragments = std::make_unique<flow::FragmentCache>(kUserFragments);
    }
    if (!fragments->resolve(summary, now)) {
        drops_.add(DropReason::NoBinding);
        return false;
    }
    return true;
}

Flow* NodeFlows::deliver_whole(tunnel::Session& session,
                               base::TrafficClass traffic_class,
                               base::MutableByteView packet,
                               TimePoint now) {
    const auto result = packet::summarize(packet, NodeSide::Source);
    if (!result.summary) {
        drops_.add(DropReason::MalformedPacket);
        return nullptr;
    }
    packet::PacketSummary summary = *result.summary;
    NodeSession& node = sessions_.owner_of(session);
    if (!find_first(node.share->fragments_up, summary, now)) {
        return nullptr;
    }
    if (summary.tuple.local.is_unspecified()) {
        drops_.add(DropReason::SpoofedSource);  // the node has no lease for this version
        return nullptr;
    }
    if (node.share->is_used_up()) {
        drops_.add(DropReason::UsedUp);
        refusals_.answer(node, packet, now);
        return nullptr;
    }
    Flow* flow = flows_.find(summary.tuple);
    if (flow == nullptr && summary.is_icmp_error) {
        drops_.add(DropReason::NoBinding);
        return nullptr;
    }
    if (flow == nullptr) {
        if (takes_flow(node, summary.tuple, summary.tcp_flags, now)) {
            flow =
                make_flow(node, summary.tuple, traffic_class, {}, elision::kMaxFlowIndex + 1, now);
        }
        if (flow == nullptr) {
            refusals_.answer(node, packet, now);
            return nullptr;
        }
    }
    if (flow->details != &node) {
        drops_.add(DropReason::SpoofedSource);
        return nullptr;
    }
    if (!summary.is_icmp_error) {
        on_other_class(session, *flow, traffic_class, now);
    }
    if (flows_.on_packet(*flow, Direction::Up, summary, now) ==
        flow::PacketVerdict::NewConnection) {
        const uint32_t index = flow->owner != nullptr ? flow->index : elision::kMaxFlowIndex + 1;
        const elision::OpenInfo open{flow->app, false};
        drop_flow(*flow, now);
        flow = takes_flow(node, summary.tuple, summary.tcp_flags, now)
                   ? make_flow(node, summary.tuple, traffic_class, open, index, now)
                   : nullptr;
        if (flow == nullptr) {
            refusals_.answer(node, packet, now);
            return nullptr;
        }
        flows_.on_packet(*flow, Direction::Up, summary, now);
    }
    if (may_go_up(*flow, packet.size(), now)) {
        engine_.deliver_whole(packet, summary.payload_offset, *flow);
    }
    return flow;
}

// At once: the node needs the place.
void NodeFlows::on_flows_closed(tunnel::Session& session, Flow& flow, TimePoint now) {
    session.detach(flow, now, session::EndNotice::None);
    drop_flow(flow, now);
}

void NodeFlows::on_path_changed(tunnel::Session& session, uint8_t /*path*/, TimePoint /*now*/) {
    events_.on_session_moved(sessions_.owner_of(session));
}

void NodeFlows::on_path_silent(tunnel::Session& session, uint8_t /*path*/, TimePoint /*now*/) {
    events_.on_session_silent(sessions_.owner_of(session));
}

void NodeFlows::on_peer_closed(tunnel::Session& session, TimePoint /*now*/) {
    on_peer_closed_(sessions_.owner_of(session));
}

void NodeFlows::count_tunnel(NodeSession& node, bool is_last, TimePoint at) {
    for (const base::TrafficClass traffic_class : base::kAllTrafficClasses) {
        const size_t index = base::index_of(traffic_class);
        const auto& now = node.session.counters().overhead[index];
        auto& [slot, counted] = node.tunnel[index];
        // Counted bytes may later turn out to belong to a packet.
        const uint64_t up = now.received - std::min(now.received, counted.received);
        const uint64_t down = now.sent - std::min(now.sent, counted.sent);
        if (up + down >= (is_last ? 1 : kOverheadStep)) {
            if (slot == nullptr) {
                flow::SlotRequest request;
                request.session_number = node.grant.accounting_number;
                request.flow_id = flow::kTunnelFlowIdBase +
                                  uint64_t{request.session_number} * base::kTrafficClasses + index;
                request.traffic_class = traffic_class;
                request.opened_at_us = flows_.utc_us(at);
                slot = slots_.take_for_tunnel(request);
            }
            if (slot != nullptr) {
                flow::add(slot->counters.tunnel_up, up);
                flow::add(slot->counters.tunnel_down, down);
                slot->last_at_us.store(flows_.utc_us(at), std::memory_order_relaxed);
                counted.received += up;
                counted.sent += down;
            }
        }
        if (is_last && slot != nullptr) {
            slots_.release_of_tunnel(std::exchange(slot, nullptr), flow::Cause::SessionEnd);
        }
    }
}

}  // namespace continuo::snapt::relay
