#include "common/packet/ip_layout.hpp"

namespace continuo::packet {
namespace {

using base::load_big_endian;

enum class Verdict : uint8_t { Fine, Malformed, Unsupported };

bool is_echo(const IpLayout& layout, uint8_t type) {
    return layout.is_v4 ? type == 0 || type == 8 : type == 128 || type == 129;
}

void set_addresses(FiveTuple& tuple, base::ByteView packet, const IpLayout& layout, NodeSide node) {
    tuple.local = address_at(packet, layout, node);
    tuple.remote = address_at(packet, layout, other(node));
    tuple.protocol = static_cast<Protocol>(layout.protocol);
}

// The first four bytes of TCP and UDP headers.
void set_ports(FiveTuple& tuple, base::ByteView transport, NodeSide node) {
    const auto source = load_big_endian<uint16_t>(transport.data());
    const auto destination = load_big_endian<uint16_t>(transport.data() + 2);
    tuple.local_port = node == NodeSide::Source ? source : destination;
    tuple.remote_port = node == NodeSide::Source ? destination : source;
}

bool is_tcp_or_udp(const IpLayout& layout) {
    return layout.protocol == static_cast<uint8_t>(Protocol::Tcp) ||
           layout.protocol == static_cast<uint8_t>(Protocol::Udp);
}

// The flow of an ICMP error. The quoted packet travelled the other way; RFC 792 promises eight
// bytes of its transport header. An error whose addressee is not the quoted packet's sender belongs
// to no flow.
Verdict summarize_quote(base::ByteView quote, NodeSide side, PacketSummary& summary) {
    const NodeSide node = other(side);
    const std::optional<IpLayout> layout = find_layout(quote, Extent::Quote).layout;
    const base::IpAddress addressee = summary.tuple.local;
    if (!layout || layout->is_cut || layout->is_v4 != addressee.is_v4() ||
        address_at(quote, *layout, node) != addressee) {
        return Verdict::Malformed;
    }
    if (!is_tcp_or_udp(*layout) && !is_icmp(*layout)) {
        return Verdict::Unsupported;
    }
    set_addresses(summary.tuple, quote, *layout, node);
    if (!layout->is_first) {
        return Verdict::Fine;
    }
    const base::ByteView transport = quote.subspan(layout->transport_offset);
    if (transport.size() < 8) {
        return Verdict::Malformed;
    }
    if (is_tcp_or_udp(*layout)) {
        set_ports(summary.tuple, transport, node);
        return Verdict::Fine;
    }
    if (!is_echo(*layout, transport[0])) {
        return Verdict::Unsupported;
    }
    summary.tuple.local_port = load_big_endian<uint16_t>(transport.data() + 4);
    return Verdict::Fine;
}

Verdict summarize_icmp(base::ByteView transport,
                       const IpLayout& layout,
                       NodeSide side,
                       PacketSummary& summary) {
    if (transport.size() < kIcmpHeaderBytes) {
        return Verdict::Malformed;
    }
    summary.payload_offset = static_cast<uint16_t>(layout.transport_offset + kIcmpHeaderBytes);
    if (is_echo(layout, transport[0])) {
        summary.tuple.local_port = load_big_endian<uint16_t>(transport.data() + 4);
        return Verdict::Fine;
    }
    if (!is_icmp_error(layout, transport[0])) {
        return Verdict::Unsupported;
    }
    summary.is_icmp_error = true;
    return summarize_quote(transport.subspan(kIcmpHeaderBytes), side, summary);
}

Verdict summarize_tcp(base::ByteView transport,
                      const IpLayout& layout,
                      NodeSide side,
                      PacketSummary& summary) {
    if (transport.size() < kTcpHeaderBytes) {
        return Verdict::Malformed;
    }
    const size_t header_bytes = size_t{4} * (transport[12] >> 4);
    if (header_bytes < kTcpHeaderBytes || header_bytes > transport.size()) {
        return Verdict::Malformed;
    }
    set_ports(summary.tuple, transport, side);
    summary.tcp_sequence = load_big_endian<uint32_t>(transport.data() + 4);
    summary.tcp_acknowledgement = load_big_endian<uint32_t>(transport.data() + 8);
    summary.tcp_flags = transport[13];
    summary.payload_offset = static_cast<uint16_t>(layout.transport_offset + header_bytes);
    return Verdict::Fine;
}

Verdict summarize_udp(base::ByteView transport,
                      const IpLayout& layout,
                      NodeSide side,
                      PacketSummary& summary) {
    if (transport.size() < kUdpHeaderBytes) {
        return Verdict::Malformed;
    }
    const size_t length = load_big_endian<uint16_t>(transport.data() + 4);
    if (length < kUdpHeaderBytes || (!layout.is_fragment && length > transport.size())) {
        return Verdict::Malformed;
    }
    set_ports(summary.tuple, transport, side);
    summary.payload_offset = static_cast<uint16_t>(layout.transport_offset + kUdpHeaderBytes);
    return Verdict::Fine;
}

}  // namespace

SummaryResult summarize(base::ByteView packet, NodeSide side) {
    const LayoutResult found = find_layout(packet, Extent::Whole);
    if (!found.layout) {
        return {std::nullopt, found.error};
    }
    const IpLayout& layout = *found.layout;
    const size_t transport_bytes = packet.size() - layout.transport_offset;
    if (layout.declared_bytes != packet.size() || packet.size() > kMaxIpBytes ||
        layout.fragment_offset + transport_bytes > kMaxIpBytes) {
        return {std::nullopt, SummaryError::Malformed};
    }
    if ((!is_tcp_or_udp(layout) && !is_icmp(layout)) || layout.is_source_routed) {
        return {std::nullopt, SummaryError::UnsupportedProtocol};
    }
    PacketSummary summary;
    summary.tos = layout.tos;
    summary.is_fragment = layout.is_fragment;
    summary.is_first_fragment = layout.is_first;
    summary.fragment_id = layout.fragment_id;
    summary.transport_offset = static_cast<uint16_t>(layout.transport_offset);
    summary.payload_offset = summary.transport_offset;
    set_addresses(summary.tuple, packet, layout, side);
    if (!layout.is_first) {
        return {summary, {}};
    }
    const base::ByteView transport = packet.subspan(layout.transport_offset);
    const auto summarize_transport = is_icmp(layout)                           ? summarize_icmp
                                     : summary.tuple.protocol == Protocol::Tcp ? summarize_tcp
                                                                               : summarize_udp;
    switch (summarize_transport(transport, layout, side, summary)) {
    case Verdict::Malformed:
        return {std::nullopt, SummaryError::Malformed};
    case Verdict::Unsupported:
        return {std::nullopt, SummaryError::UnsupportedProtocol};
    case Verdict::Fine:
        break;
    }
    return {summary, {}};
}

}  // namespace continuo::packet
