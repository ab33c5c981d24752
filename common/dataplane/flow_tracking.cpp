#include "common/dataplane/flow_tracking.hpp"

#include "common/flow/counter_values.hpp"

namespace continuo::dataplane {

using base::DropReason;

std::optional<packet::PacketSummary> identify(base::ByteView packet,
                                              packet::NodeSide side,
                                              flow::FragmentCache& fragments,
                                              base::DropCounters& drops,
                                              base::TimePoint now) {
    packet::SummaryResult result = packet::summarize(packet, side);
    if (!result.summary) {
        drops.add(result.error == packet::SummaryError::Malformed
                      ? DropReason::MalformedPacket
                      : DropReason::UnsupportedProtocol);
        return std::nullopt;
    }
    if (!fragments.resolve(*result.summary, now)) {
        drops.add(DropReason::NoBinding);
        return std::nullopt;
    }
    return result.summary;
}

void track(flow::FlowTable& flows,
           flow::Flow& flow,
           flow::Direction direction,
           const packet::HeaderFields& fields,
           base::TimePoint now) {
    constexpr uint8_t kEndings =
        packet::tcp_flag::kFin | packet::tcp_flag::kSyn | packet::tcp_flag::kRst;
    if (flow.last_packet_at == now && (fields.flags & kEndings) == 0 &&
        flow.state == flow::FlowState::Open) {
        return;
    }
    packet::PacketSummary summary;
    summary.tuple = flow.tuple;
    summary.tcp_flags = fields.flags;
    summary.is_first_fragment = true;
    flows.on_packet(flow, direction, summary, now);
}

flow::Flow* count_written(const packet::FrameInfo& info, bool written, flow::Direction direction) {
    auto* flow = static_cast<flow::Flow*>(info.owner);
    if (!written || flow == nullptr || flow->counters == nullptr) {
        return nullptr;
    }
    flow::count_packets(flow->counters->counters, direction, info.packets, info.inner_bytes,
                        info.payload_bytes);
    if (flow->share != nullptr) {
        flow->share->count_payload(info.payload_bytes);
    }
    return flow;
}

}  // namespace continuo::dataplane
