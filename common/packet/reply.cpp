#include "common/packet/reply.hpp"

#include "common/packet/checksum.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/rewrite.hpp"

#include <algorithm>

namespace continuo::packet {

using base::ByteView;
using base::ByteWriter;
using base::IpAddress;
using base::MutableByteView;
using base::store_big_endian;

namespace {

constexpr uint8_t kReplyTtl = 64;
constexpr size_t kIpv4HeaderBytes = 20;
constexpr size_t kIpv6HeaderBytes = 40;
constexpr size_t kIcmpHeaderBytes = 8;
constexpr size_t kQuotedIpv4Bytes = 548;  // RFC 1812 section 4.3.2.3: 576 in all
constexpr size_t kQuotedIpv6Bytes = 576;  // far below the 1280 that RFC 4443 allows
constexpr uint8_t kUnreachableV4 = 3;
constexpr uint8_t kProhibitedV4 = 13;
constexpr uint8_t kUnreachableV6 = 1;
constexpr uint8_t kProhibitedV6 = 1;

bool is_v6(ByteView packet) {
    return !packet.empty() && packet[0] >> 4 == 6;
}

IpAddress source_of(ByteView packet) {
    return is_v6(packet) ? IpAddress::v6(packet.subspan(8, 16))
                         : IpAddress::v4(packet.subspan(12, 4));
}

IpAddress destination_of(ByteView packet) {
    return is_v6(packet) ? IpAddress::v6(packet.subspan(24, 16))
                         : IpAddress::v4(packet.subspan(16, 4));
}

// IP header from the packet's destination to its source.
void write_ip_header(ByteWriter& writer, ByteView packet, uint8_t protocol, size_t payload_bytes) {
    if (is_v6(packet)) {
        writer.u32(uint32_t{6} << 28);
        writer.u16(static_cast<uint16_t>(payload_bytes));
        writer.u8(protocol);
        writer.u8(kReplyTtl);
        writer.bytes(destination_of(packet).bytes());
        writer.bytes(source_of(packet).bytes());
        return;
    }
    const size_t start = writer.size();
    writer.u16(0x4500);
    writer.u16(static_cast<uint16_t>(kIpv4HeaderBytes + payload_bytes));
    writer.u32(0x00004000);  // no identification, DF
    writer.u8(kReplyTtl);
    writer.u8(protocol);
    writer.u16(0);
    writer.bytes(destination_of(packet).bytes());
    writer.bytes(source_of(packet).bytes());
    if (writer.ok()) {
        const MutableByteView header = writer.written().subspan(start);
        store_big_endian(&header[10], static_cast<uint16_t>(~fold(sum_words(header))));
    }
}

}  // namespace

size_t write_tcp_reset(ByteView packet, MutableByteView to) {
    const auto result = summarize(packet, NodeSide::Source);
    if (!result.summary || result.summary->tuple.protocol != Protocol::Tcp ||
        result.summary->is_icmp_error || !result.summary->is_first_fragment ||
        (result.summary->tcp_flags & tcp_flag::kRst) != 0) {
        return 0;
    }
    const PacketSummary& summary = *result.summary;
    HeaderFields fields;
    fields.source = destination_of(packet);
    fields.destination = source_of(packet);
    fields.protocol = Protocol::Tcp;
    fields.ttl = kReplyTtl;
    fields.dont_fragment = true;
    fields.source_port = summary.tuple.remote_port;
    fields.destination_port = summary.tuple.local_port;
    fields.flags = tcp_flag::kRst;
    if ((summary.tcp_flags & tcp_flag::kAck) != 0) {
        fields.sequence = summary.tcp_acknowledgement;
    } else {
        const size_t payload =
            packet.size() - std::min<size_t>(packet.size(), summary.payload_offset);
        const uint32_t phantom = ((summary.tcp_flags & tcp_flag::kSyn) != 0 ? 1U : 0U) +
                                 ((summary.tcp_flags & tcp_flag::kFin) != 0 ? 1U : 0U);
        fields.flags |= tcp_flag::kAck;
        fields.acknowledgement = summary.tcp_sequence + static_cast<uint32_t>(payload) + phantom;
    }
    return write_headers(fields, {}, false, to);
}

size_t write_icmp_prohibited(ByteView packet, MutableByteView to) {
    const auto result = summarize(packet, NodeSide::Source);
    if (!result.summary || result.summary->is_icmp_error) {
        return 0;
    }
    const bool v6 = is_v6(packet);
    const ByteView quote =
        packet.first(std::min(packet.size(), v6 ? kQuotedIpv6Bytes : kQuotedIpv4Bytes));
    const auto protocol = static_cast<uint8_t>(v6 ? Protocol::IcmpV6 : Protocol::Icmp);
    const size_t ip_bytes = v6 ? kIpv6HeaderBytes : kIpv4HeaderBytes;
    ByteWriter writer(to);
    write_ip_header(writer, packet, protocol, kIcmpHeaderBytes + quote.size());
    writer.u8(v6 ? kUnreachableV6 : kUnreachableV4);
    writer.u8(v6 ? kProhibitedV6 : kProhibitedV4);
    writer.u16(0);
    writer.u32(0);
    writer.bytes(quote);
    if (!writer.ok()) {
        return 0;
    }
    const MutableByteView icmp = writer.written().subspan(ip_bytes);
    const uint64_t pseudo =
        v6 ? pseudo_header_sum(destination_of(packet), source_of(packet), protocol, icmp.size())
           : 0;
    store_big_endian(&icmp[2], static_cast<uint16_t>(~fold(sum_words(icmp, pseudo))));
    return writer.size();
}

}  // namespace continuo::packet
