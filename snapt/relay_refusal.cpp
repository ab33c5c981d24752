// A flow for which there is no place, or that gave way: its sender and the operator are told, and
// the kernel.
#include "common/base/log.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/reply.hpp"
#include "snapt/relay.hpp"

#include <array>
#include <utility>

namespace continuo::snapt {

using base::TimePoint;
using flow::Flow;

namespace {

constexpr base::Duration kRefusalLogInterval = base::seconds(60);

// The headers of a packet of that flow, for ICMP to quote. Nothing for TCP, whose sequence number
// is not known.
size_t write_header_of(const packet::FiveTuple& tuple, base::MutableByteView to) {
    packet::HeaderFields fields;
    fields.source = tuple.local;
    fields.destination = tuple.remote;
    fields.protocol = tuple.protocol;
    fields.ttl = 64;
    fields.source_port = tuple.local_port;
    fields.destination_port = tuple.remote_port;
    return tuple.protocol == packet::Protocol::Tcp ? 0
                                                   : packet::write_headers(fields, {}, false, to);
}

}  // namespace

// One that has begun again keeps what the kernel knows.
void Relay::tell_gone() {
    std::erase_if(gone_,
                  [this](const packet::FiveTuple& tuple) { return flows_.find(tuple) != nullptr; });
    if (!gone_.empty()) {
        events_.on_flows_gave_way(std::exchange(gone_, {}));
    }
}

void Relay::tell_refusal(NodeSession& node, TimePoint now) {
    UserShare& share = *node.share;
    if (share.refusal_told_at != TimePoint{} && now - share.refusal_told_at < kRefusalLogInterval) {
        return;
    }
    share.refusal_told_at = now;
    base::log(base::LogLevel::Warning,
              "%s/%s: too many flows: %zu of the user, %zu in all; new ones are refused "
              "(limits.user_flows, limits.flows)",
              node.grant.user.c_str(), node.grant.node.c_str(), share.flows.flows(), flows_.size());
}

void Relay::answer_refused(NodeSession& node, const packet::FiveTuple& tuple, TimePoint now) {
    std::array<uint8_t, 128> header{};
    const size_t length = write_header_of(tuple, header);
    answer_refused(node, base::ByteView(header).first(length), now);
}

// The answer goes in a flow of its own, one a session and IP version, which counts for no limit and
// is charged to nobody.
void Relay::answer_refused(NodeSession& node, base::ByteView packet, TimePoint now) {
    if (now - refusals_began_at_ >= base::seconds(1)) {
        refusals_began_at_ = now;
        refusals_ = 0;
    }
    if (packet.empty() || refusals_ >= kMaxRefusalsPerSecond) {
        return;
    }
    ++refusals_;
    packet::PacketPtr reply = pool_.take(packet::kMaxReplyBytes);
    if (reply == nullptr) {
        drops_.add(base::DropReason::PoolEmpty);
        return;
    }
    size_t length = packet::write_tcp_reset(packet, reply->buffer());
    if (length == 0) {
        length = packet::write_icmp_prohibited(packet, reply->buffer());
    }
    if (length == 0) {
        return;
    }
    reply->length = static_cast<uint32_t>(length);
    const bool is_v4 = packet[0] >> 4 == 4;
    packet::FiveTuple tuple;
    tuple.local = (is_v4 ? node.grant.lease_ipv4 : node.grant.lease_ipv6)
                      .value_or(base::IpAddress::any(base::IpVersion::V4));
    tuple.remote = is_v4 ? settings_.own_ipv4 : settings_.own_ipv6;
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
        driver_.touch(node.session);
    }
}

}  // namespace continuo::snapt
