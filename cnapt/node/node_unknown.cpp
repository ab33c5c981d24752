// Resets for TCP connections that the node does not know any more, as a host's TCP would send them.
// Their packets never reach the host: a SNAPT cannot open connections to the node. Also logs flows
// that are refused because the table is full.
#include "cnapt/node/node.hpp"
#include "common/base/log.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"

namespace continuo::cnapt::node {

using base::TimePoint;
using flow::Flow;

namespace {

constexpr base::Duration kRefusalLogInterval = base::seconds(60);

// A packet with data or FIN. A SYN would start a connection that nobody here asked for.
bool is_to_answer(const packet::PacketSummary& summary) {
    namespace flag = packet::tcp_flag;
    const bool opens = (summary.tcp_flags & (flag::kSyn | flag::kAck)) == flag::kSyn;
    return summary.tuple.protocol == packet::Protocol::Tcp && !summary.is_icmp_error &&
           summary.is_first_fragment && (summary.tcp_flags & flag::kRst) == 0 && !opens;
}

}  // namespace

// The reset goes through the SNAPT that the packet came from, whose NAT knows the connection. Its
// flow is closed from the start; a new one with the same addresses and ports replaces it.
void Node::reset_unknown(SnaptLink& link,
                         const packet::PacketSummary& summary,
                         base::ByteView packet,
                         TimePoint now) {
    Flow* flow = flows_.find(summary.tuple);
    const auto* known = flow == nullptr ? nullptr : flow::details_as<const NodeFlow>(*flow);
    const bool may_answer = known == nullptr || (known->is_unknown && known->link == &link);
    if (!is_to_answer(summary) || ruleset_ == nullptr || !may_answer) {
        return;
    }
    if (now - resets_began_at_ >= base::seconds(1)) {
        resets_began_at_ = now;
        resets_ = 0;
    }
    if (resets_ >= kMaxResetsPerSecond) {
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
        flow = begin_unknown(link, summary.tuple, now);
    }
    if (flow == nullptr) {
        return;
    }
    ++resets_;
    flows_.on_packet(*flow, flow::Direction::Up, *answer.summary, now);
    link.session->on_packet(*flow, std::move(reset), now);
    engine_.touch(*link.session);
}

// The flow replaces no other one.
Flow* Node::begin_unknown(SnaptLink& link, const packet::FiveTuple& tuple, TimePoint now) {
    Flow* flow = flows_.create(tuple, base::TrafficClass::LtLd, now);
    if (flow == nullptr) {
        return nullptr;
    }
    auto node_flow = std::make_unique<NodeFlow>();
    node_flow->flow = flow;
    node_flow->link = &link;
    node_flow->ruleset = ruleset_;
    node_flow->is_classified = true;
    node_flow->is_unknown = true;
    flow->details = node_flow.release();  // end_flow deletes it
    link.session->attach(*flow);
    return flow;
}

// The operator is told at intervals, the sender each time.
void Node::tell_refusal(const packet::FiveTuple& flow, TimePoint now) {
    if (refusal_told_at_ == TimePoint{} || now - refusal_told_at_ >= kRefusalLogInterval) {
        refusal_told_at_ = now;
        const bool is_own = !is_gateway() || flow_limit(links_, flow.local.version,
                                                        flows_.max_flows()) == flows_.max_flows();
        base::log(base::LogLevel::Warning, "too many flows: %zu; new ones are refused (%s)",
                  flows_.size(), is_own ? "limits.flows" : "limits.user_flows of the SNAPT");
    }
}

}  // namespace continuo::cnapt::node
