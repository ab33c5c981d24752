#include "snapt/relay/refusal_answers.hpp"

#include "common/base/log.hpp"
#include "common/dataplane/flow_tracking.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"
#include "snapt/relay/charged_slots.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace continuo::snapt::relay {

using base::DropReason;
using base::TimePoint;
using flow::Flow;

namespace {

constexpr base::Duration kRefusalLogInterval = base::seconds(60);

// The headers of the packet that opens a flow, for ICMP to quote or a reset to answer. Nothing for
// TCP with an unknown sequence number.
size_t write_header_of(const session::FlowOpening& opening, base::MutableByteView to) {
    const packet::FiveTuple& tuple = opening.tuple;
    packet::HeaderFields fields;
    if (tuple.protocol == packet::Protocol::Tcp) {
        if (opening.fields == nullptr) {
            return 0;
        }
        fields.flags = opening.fields->flags;
        fields.sequence = opening.fields->sequence;
        fields.acknowledgement = opening.fields->acknowledgement;
    }
    fields.source = tuple.local;
    fields.destination = tuple.remote;
    fields.protocol = tuple.protocol;
    fields.ttl = 64;
    fields.source_port = tuple.local_port;
    fields.destination_port = tuple.remote_port;
    return packet::write_headers(fields, {}, false, to);
}

}  // namespace

void RefusalAnswers::tell(NodeSession& node, TimePoint now) const {
    UserShare& share = *node.share;
    if (share.refusal_told_at != TimePoint{} && now - share.refusal_told_at < kRefusalLogInterval) {
        return;
    }
    share.refusal_told_at = now;
    base::log(base::LogLevel::Warning,
              "%s/%s: too many flows: %zu of the user, %zu in all; new ones are refused "
              "(limits.user_flows, limits.flows, net.netfilter.nf_conntrack_max)",
              node.grant.user.c_str(), node.grant.node.c_str(), share.flows.flows(), flows_.size());
}

void RefusalAnswers::answer(NodeSession& node, const session::FlowOpening& opening, TimePoint now) {
    std::array<uint8_t, 128> header{};
    const size_t length = write_header_of(opening, header);
    answer(node, base::ByteView(header).first(length), now);
}

void RefusalAnswers::answer(NodeSession& node, base::ByteView packet, TimePoint now) {
    if (packet.empty() || !may_answer(node, now)) {
        return;
    }
    std::array<uint8_t, packet::kMaxReplyBytes> answer{};
    size_t length = packet::write_tcp_reset(packet, answer);
    if (length == 0) {
        length = packet::write_icmp_prohibited(packet, answer);
    }
    send(node, base::ByteView(answer).first(length), now);
}

bool RefusalAnswers::may_answer(NodeSession& node, TimePoint now) {
    UserShare& share = *node.share;
    if (now - share.answers_from >= base::seconds(1)) {
        share.answers_from = now;
        share.answers = 0;
    }
    return share.answers++ < kMaxRefusalsPerSecond;
}

// Uses a flow of its own, one per session and IP version, which counts for no limit and is charged
// to nobody.
void RefusalAnswers::send(NodeSession& node, base::ByteView answer, TimePoint now) {
    packet::PacketPtr reply = answer.empty() ? nullptr : engine_.pool().take(answer.size());
    if (reply == nullptr) {
        drops_.add(DropReason::PoolEmpty, answer.empty() ? 0 : 1);
        return;
    }
    std::copy(answer.begin(), answer.end(), reply->buffer().begin());
    reply->length = static_cast<uint32_t>(answer.size());
    const bool is_v4 = answer[0] >> 4 == 4;
    packet::FiveTuple tuple;
    tuple.local = (is_v4 ? node.grant.lease_ipv4 : node.grant.lease_ipv6)
                      .value_or(base::IpAddress::any(base::IpVersion::V4));
    tuple.remote = is_v4 ? own_ipv4_ : own_ipv6_;
    tuple.protocol = is_v4 ? packet::Protocol::Icmp : packet::Protocol::IcmpV6;
    Flow* flow = flows_.find(tuple);
    if (flow == nullptr) {
        flow::FlowOrigin origin;
        origin.session_number = ChargedSlots::kNobody;
        origin.index = elision::kMaxFlowIndex + 1;
        flow = flows_.create(tuple, base::TrafficClass::LtLd, now, origin);
        if (flow == nullptr) {
            return;
        }
        flow->details = &node;
        ++node.flows;
    }
    if (flow->details == &node) {
        node.session.on_packet(*flow, std::move(reply), now);
        engine_.touch(node.session);
    }
}

void RefusalAnswers::refuse_up(NodeSession& node,
                               Flow& flow,
                               const packet::HeaderFields& fields,
                               TimePoint now) {
    drops_.add(DropReason::UsedUp);
    if ((fields.flags & packet::tcp_flag::kRst) == 0) {
        session::FlowOpening opening;
        opening.tuple = flow.tuple;
        opening.fields = &fields;
        answer(node, opening, now);
    }
    if (flow.tuple.protocol == packet::Protocol::Tcp) {
        packet::HeaderFields reset;
        reset.flags = packet::tcp_flag::kRst;
        dataplane::track(flows_, flow, flow::Direction::Down, reset, now);
    }
}

// Both ends of a TCP connection are told: the program may wait for this packet and send nothing.
// Earlier data is lost or under way, so the reset may not be the next byte: then the program's host
// asks (RFC 5961, 3.2), and refuse_up(), or NodeFlows for a new flow, answers.
void RefusalAnswers::refuse_down(NodeSession& node,
                                 const packet::PacketSummary& summary,
                                 base::ByteView packet,
                                 TimePoint now) {
    drops_.add(DropReason::UsedUp);
    const bool is_tcp = summary.tuple.protocol == packet::Protocol::Tcp && !summary.is_icmp_error;
    if (!is_tcp || !summary.is_first_fragment || !may_answer(node, now)) {
        return;
    }
    std::array<uint8_t, packet::kMaxReplyBytes> answer{};
    if (const size_t length = packet::write_tcp_reset(packet, answer);
        length > 0 && engine_.is_open()) {
        engine_.answer(base::ByteView(answer).first(length));
    }
    packet::HeaderFields fields;
    fields.source = summary.tuple.remote;
    fields.destination = summary.tuple.local;
    fields.source_port = summary.tuple.remote_port;
    fields.destination_port = summary.tuple.local_port;
    fields.ttl = 64;
    fields.flags = packet::tcp_flag::kRst | packet::tcp_flag::kAck;
    fields.sequence = summary.tcp_sequence;
    fields.acknowledgement = summary.tcp_acknowledgement;
    const size_t length = packet::write_headers(fields, {}, false, answer);
    send(node, base::ByteView(answer).first(length), now);
}

}  // namespace continuo::snapt::relay
