#include "cnapt/admission/unknown_flows.hpp"

#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"

namespace continuo::cnapt::admission {

using base::TimePoint;
using flow::Flow;

namespace {

// A packet with data or FIN. A SYN would start a connection that nobody here asked for.
bool is_to_answer(const packet::PacketSummary& summary) {
    namespace flag = packet::tcp_flag;
    const bool opens = (summary.tcp_flags & (flag::kSyn | flag::kAck)) == flag::kSyn;
    return summary.tuple.protocol == packet::Protocol::Tcp && !summary.is_icmp_error &&
           summary.is_first_fragment && (summary.tcp_flags & flag::kRst) == 0 && !opens;
}

}  // namespace

// The reset goes through the SNAPT that the packet came from, whose NAT knows the connection.
void UnknownFlows::reset(links::SnaptLink& link,
                         const std::shared_ptr<const classifier::Ruleset>& ruleset,
                         const packet::PacketSummary& summary,
                         base::ByteView packet,
                         TimePoint now) {
    Flow* flow = flows_.find(summary.tuple);
    const auto* known = flow == nullptr ? nullptr : flow::details_as<const NodeFlow>(*flow);
    const bool may_answer = known == nullptr || (known->is_unknown && known->link == &link);
    if (!is_to_answer(summary) || ruleset == nullptr || !may_answer || !has_room(now)) {
        return;
    }
    packet::PacketPtr reset = engine_.pool().take(packet::kMaxReplyBytes);
    if (reset == nullptr) {
        drops_.add(base::DropReason::PoolEmpty);
        return;
    }
    reset->length = static_cast<uint32_t>(packet::write_tcp_reset(packet, reset->buffer()));
    const auto answer = packet::summarize(reset->bytes(), packet::NodeSide::Source);
    if (!answer.summary || answer.summary->tuple != summary.tuple) {
        return;
    }
    if (flow == nullptr) {
        flow = begin(link, ruleset, summary.tuple, now);
    }
    if (flow == nullptr) {
        return;
    }
    ++resets_;
    flows_.on_packet(*flow, flow::Direction::Up, *answer.summary, now);
    link.session->on_packet(*flow, std::move(reset), now);
    engine_.touch(*link.session);
}

bool UnknownFlows::has_room(TimePoint now) {
    if (now - resets_began_at_ >= base::seconds(1)) {
        resets_began_at_ = now;
        resets_ = 0;
    }
    return resets_ < kMaxResetsPerSecond;
}

// The flow replaces no other one.
Flow* UnknownFlows::begin(links::SnaptLink& link,
                          const std::shared_ptr<const classifier::Ruleset>& ruleset,
                          const packet::FiveTuple& tuple,
                          TimePoint now) {
    Flow* flow = flows_.create(tuple, base::TrafficClass::LtLd, now);
    if (flow == nullptr) {
        return nullptr;
    }
    auto node_flow = std::make_unique<NodeFlow>();
    node_flow->flow = flow;
    node_flow->link = &link;
    node_flow->ruleset = ruleset;
    node_flow->is_classified = true;
    node_flow->is_unknown = true;
    flow->details = node_flow.release();  // FlowAdmission deletes it
    link.session->attach(*flow);
    return flow;
}

}  // namespace continuo::cnapt::admission
