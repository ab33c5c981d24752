#include "common/elision/types.hpp"

namespace continuo::elision {

using base::IpAddress;
using base::IpVersion;
using packet::NodeSide;
using packet::Protocol;

namespace {

constexpr uint32_t kLabelMask = 0xFFFFF;

FlowKind kind_of(const HeaderFields& fields) {
    switch (fields.protocol) {
    case Protocol::Tcp:
        return fields.has_timestamps ? FlowKind::TcpTimestamps : FlowKind::Tcp;
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        return fields.is_reply ? FlowKind::EchoReply : FlowKind::EchoRequest;
    case Protocol::Udp:
        break;
    }
    return FlowKind::Udp;
}

Protocol protocol_of(const FlowStatics& statics) {
    if (statics.is_tcp()) {
        return Protocol::Tcp;
    }
    if (statics.is_echo()) {
        return statics.is_v6() ? Protocol::IcmpV6 : Protocol::Icmp;
    }
    return Protocol::Udp;
}

}  // namespace

FlowStatics statics_of(const HeaderFields& fields, NodeSide side) {
    const IpAddress& remote = side == NodeSide::Source ? fields.destination : fields.source;
    FlowStatics statics;
    statics.remote = remote.octets;
    statics.source_port = fields.source_port;
    statics.destination_port = fields.destination_port;
    statics.traits = static_cast<uint32_t>(kind_of(fields));
    if (remote.is_v4()) {
        statics.traits |= (fields.dont_fragment ? FlowStatics::kDontFragment : 0) |
                          (fields.zero_checksum ? FlowStatics::kZeroChecksum : 0);
    } else {
        statics.traits |= kKindV6 | (fields.flow_label & kLabelMask) << FlowStatics::kLabelShift;
    }
    return statics;
}

PacketValues values_of(const HeaderFields& fields, size_t payload_bytes) {
    PacketValues values;
    values.sequence = fields.protocol == Protocol::Tcp ? fields.sequence : fields.echo_sequence;
    values.acknowledgement = fields.acknowledgement;
    values.timestamp_value = fields.timestamp_value;
    values.timestamp_echo = fields.timestamp_echo;
    values.ip_id = fields.ip_id;
    values.window = fields.window;
    values.payload_bytes = static_cast<uint16_t>(payload_bytes);
    values.flags = fields.flags;
    values.tos = fields.tos;
    values.ttl = fields.ttl;
    return values;
}

void restore_fields(const FlowStatics& statics,
                    const PacketValues& values,
                    NodeSide side,
                    HeaderFields& fields) {
    const IpVersion version = statics.is_v6() ? IpVersion::V6 : IpVersion::V4;
    fields = HeaderFields{};
    fields.source.version = version;
    fields.destination.version = version;
    (side == NodeSide::Source ? fields.destination : fields.source).octets = statics.remote;
    fields.protocol = protocol_of(statics);
    fields.tos = values.tos;
    fields.ttl = values.ttl;
    if (statics.is_v6()) {
        fields.flow_label = statics.traits >> FlowStatics::kLabelShift;
    } else {
        fields.dont_fragment = (statics.traits & FlowStatics::kDontFragment) != 0;
        fields.zero_checksum = (statics.traits & FlowStatics::kZeroChecksum) != 0;
        fields.ip_id = values.ip_id;
    }
    fields.source_port = statics.source_port;
    fields.destination_port = statics.destination_port;
    if (statics.is_tcp()) {
        fields.sequence = values.sequence;
        fields.acknowledgement = values.acknowledgement;
        fields.flags = values.flags;
        fields.window = values.window;
        fields.has_timestamps = statics.has_timestamps();
        fields.timestamp_value = values.timestamp_value;
        fields.timestamp_echo = values.timestamp_echo;
    } else if (statics.is_echo()) {
        fields.is_reply = statics.kind() == FlowKind::EchoReply;
        fields.echo_sequence = static_cast<uint16_t>(values.sequence);
    }
}

size_t header_bytes(const FlowStatics& statics) {
    const size_t ip = statics.is_v6() ? 40 : 20;
    if (!statics.is_tcp()) {
        return ip + 8;
    }
    return ip + (statics.has_timestamps() ? 32 : 20);
}

}  // namespace continuo::elision
