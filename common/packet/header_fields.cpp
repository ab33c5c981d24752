#include "common/packet/header_fields.hpp"

#include "common/packet/checksum.hpp"
#include "common/packet/ip_layout.hpp"

#include <algorithm>

namespace continuo::packet {
namespace {

using base::load_big_endian;
using base::store_big_endian;

constexpr size_t kTimestampOptionBytes = 12;
constexpr std::array<uint8_t, 4> kTimestampOptionHead = {1, 1, 8, 10};  // NOP NOP, kind, length
constexpr uint8_t kEchoRequestV4 = 8;
constexpr uint8_t kEchoReplyV4 = 0;
constexpr uint8_t kEchoRequestV6 = 128;
constexpr uint8_t kEchoReplyV6 = 129;
constexpr size_t kTcpChecksumOffset = 16;
constexpr size_t kUdpChecksumOffset = 6;
constexpr size_t kIcmpChecksumOffset = 2;
constexpr uint16_t kDontFragment = 0x4000;

bool is_icmp(Protocol protocol) {
    return protocol == Protocol::Icmp || protocol == Protocol::IcmpV6;
}

size_t checksum_offset(Protocol protocol) {
    switch (protocol) {
    case Protocol::Tcp:
        return kTcpChecksumOffset;
    case Protocol::Udp:
        return kUdpChecksumOffset;
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        break;
    }
    return kIcmpChecksumOffset;
}

size_t ip_header_bytes(const HeaderFields& fields) {
    return fields.source.is_v4() ? kIpv4HeaderBytes : kIpv6HeaderBytes;
}

uint64_t pseudo_sum(const HeaderFields& fields, size_t transport_bytes) {
    if (fields.protocol == Protocol::Icmp) {
        return 0;
    }
    return pseudo_header_sum(fields.source, fields.destination,
                             static_cast<uint8_t>(fields.protocol), transport_bytes);
}

// The checksum field as a sender writes it, from `header` (transport header; its field is left out)
// and `payload`.
uint16_t
transport_checksum(const HeaderFields& fields, base::ByteView header, base::ByteView payload) {
    const size_t field = checksum_offset(fields.protocol);
    uint64_t sum = pseudo_sum(fields, header.size() + payload.size());
    sum = sum_words(header.first(field), sum);
    sum = sum_words(header.subspan(field + 2), sum);
    const auto checksum = static_cast<uint16_t>(~fold(sum_words(payload, sum)));
    return fields.protocol == Protocol::Udp && checksum == 0 ? uint16_t{0xFFFF} : checksum;
}

uint16_t ipv4_checksum(base::ByteView header) {
    return static_cast<uint16_t>(~fold(sum_words(header.subspan(12), sum_words(header.first(10)))));
}

bool is_flow_protocol(uint8_t protocol, bool is_v4) {
    return protocol == static_cast<uint8_t>(Protocol::Tcp) ||
           protocol == static_cast<uint8_t>(Protocol::Udp) ||
           protocol == static_cast<uint8_t>(is_v4 ? Protocol::Icmp : Protocol::IcmpV6);
}

bool parse_ipv4(base::ByteView packet, HeaderFields& fields) {
    const uint8_t* header = packet.data();
    const auto fragment = load_big_endian<uint16_t>(header + 6);
    if (packet.size() < kIpv4HeaderBytes || header[0] != 0x45 ||
        load_big_endian<uint16_t>(header + 2) != packet.size() ||
        (fragment & ~kDontFragment) != 0 || !is_flow_protocol(header[9], true) ||
        load_big_endian<uint16_t>(header + 10) != ipv4_checksum(packet.first(kIpv4HeaderBytes))) {
        return false;
    }
    fields.tos = header[1];
    fields.ip_id = load_big_endian<uint16_t>(header + 4);
    fields.dont_fragment = fragment != 0;
    fields.ttl = header[8];
    fields.protocol = static_cast<Protocol>(header[9]);
    fields.source = base::IpAddress::v4(packet.subspan(12, 4));
    fields.destination = base::IpAddress::v4(packet.subspan(16, 4));
    return true;
}

bool parse_ipv6(base::ByteView packet, HeaderFields& fields) {
    if (packet.size() < kIpv6HeaderBytes || packet.size() > kMaxIpBytes) {
        return false;
    }
    const uint8_t* header = packet.data();
    if (kIpv6HeaderBytes + load_big_endian<uint16_t>(header + 4) != packet.size() ||
        !is_flow_protocol(header[6], false)) {
        return false;
    }
    const auto word = load_big_endian<uint32_t>(header);
    fields.tos = static_cast<uint8_t>(word >> 20);
    fields.flow_label = word & 0xFFFFFU;
    fields.ttl = header[7];
    fields.protocol = static_cast<Protocol>(header[6]);
    fields.source = base::IpAddress::v6(packet.subspan(8, 16));
    fields.destination = base::IpAddress::v6(packet.subspan(24, 16));
    return true;
}

// The three below give the transport header's length, or 0 when it is not regular.
size_t parse_tcp(base::ByteView transport, HeaderFields& fields) {
    if (transport.size() < kTcpHeaderBytes) {
        return 0;
    }
    const uint8_t* header = transport.data();
    const bool has_reserved_bits = (header[12] & 0x0FU) != 0;
    const size_t bytes = size_t{4} * (header[12] >> 4);
    const auto urgent = load_big_endian<uint16_t>(header + 18);
    fields.has_timestamps = bytes == kTcpHeaderBytes + kTimestampOptionBytes;
    if (has_reserved_bits || urgent != 0 || (header[13] & tcp_flag::kUrg) != 0 ||
        bytes > transport.size() || (bytes != kTcpHeaderBytes && !fields.has_timestamps)) {
        return 0;
    }
    if (fields.has_timestamps) {
        const uint8_t* option = header + kTcpHeaderBytes;
        if (!std::equal(kTimestampOptionHead.begin(), kTimestampOptionHead.end(), option)) {
            return 0;
        }
        fields.timestamp_value = load_big_endian<uint32_t>(option + 4);
        fields.timestamp_echo = load_big_endian<uint32_t>(option + 8);
    }
    fields.source_port = load_big_endian<uint16_t>(header);
    fields.destination_port = load_big_endian<uint16_t>(header + 2);
    fields.sequence = load_big_endian<uint32_t>(header + 4);
    fields.acknowledgement = load_big_endian<uint32_t>(header + 8);
    fields.flags = header[13];
    fields.window = load_big_endian<uint16_t>(header + 14);
    return bytes;
}

size_t parse_udp(base::ByteView transport, HeaderFields& fields, bool partial) {
    if (transport.size() < kUdpHeaderBytes) {
        return 0;
    }
    const uint8_t* header = transport.data();
    if (load_big_endian<uint16_t>(header + 4) != transport.size()) {
        return 0;
    }
    fields.source_port = load_big_endian<uint16_t>(header);
    fields.destination_port = load_big_endian<uint16_t>(header + 2);
    fields.zero_checksum = !partial && load_big_endian<uint16_t>(header + 6) == 0;
    // RFC 8200 section 8.1 forbids it but for tunnels (RFC 6935), so it gets no field.
    return fields.zero_checksum && !fields.source.is_v4() ? 0 : kUdpHeaderBytes;
}

size_t parse_echo(base::ByteView transport, HeaderFields& fields) {
    if (transport.size() < kIcmpHeaderBytes) {
        return 0;
    }
    const uint8_t* header = transport.data();
    const bool is_v4 = fields.source.is_v4();
    fields.is_reply = header[0] == (is_v4 ? kEchoReplyV4 : kEchoReplyV6);
    if ((!fields.is_reply && header[0] != (is_v4 ? kEchoRequestV4 : kEchoRequestV6)) ||
        header[1] != 0) {
        return 0;
    }
    fields.source_port = load_big_endian<uint16_t>(header + 4);
    fields.echo_sequence = load_big_endian<uint16_t>(header + 6);
    return kIcmpHeaderBytes;
}

size_t parse_transport(base::ByteView transport, HeaderFields& fields, bool partial) {
    switch (fields.protocol) {
    case Protocol::Tcp:
        return parse_tcp(transport, fields);
    case Protocol::Udp:
        return parse_udp(transport, fields, partial);
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        break;
    }
    return parse_echo(transport, fields);
}

GsoType gso_type_of(const HeaderFields& fields) {
    switch (fields.protocol) {
    case Protocol::Tcp:
        return fields.source.is_v4() ? GsoType::Tcp4 : GsoType::Tcp6;
    case Protocol::Udp:
        return GsoType::Udp;
    case Protocol::Icmp:
    case Protocol::IcmpV6:
        break;
    }
    return GsoType::None;
}

// The kernel's offload fields must fit their packet.
bool fits(const Offload& offload, const HeaderFields& fields) {
    if (offload.gso != GsoType::None &&
        (offload.gso != gso_type_of(fields) || offload.segment_bytes == 0)) {
        return false;
    }
    return !offload.partial_checksum ||
           (!is_icmp(fields.protocol) && offload.checksum_start == ip_header_bytes(fields) &&
            offload.checksum_offset == checksum_offset(fields.protocol));
}

void write_ip(const HeaderFields& fields, size_t packet_bytes, base::MutableByteView to) {
    uint8_t* header = to.data();
    const base::ByteView source = fields.source.bytes();
    const base::ByteView destination = fields.destination.bytes();
    if (!fields.source.is_v4()) {
        store_big_endian(header, uint32_t{6} << 28 | uint32_t{fields.tos} << 20 |
                                     (fields.flow_label & 0xFFFFFU));
        store_big_endian(header + 4, static_cast<uint16_t>(packet_bytes - kIpv6HeaderBytes));
        header[6] = static_cast<uint8_t>(fields.protocol);
        header[7] = fields.ttl;
        std::copy(source.begin(), source.end(), header + 8);
        std::copy(destination.begin(), destination.end(), header + 24);
        return;
    }
    header[0] = 0x45;
    header[1] = fields.tos;
    store_big_endian(header + 2, static_cast<uint16_t>(packet_bytes));
    store_big_endian(header + 4, fields.ip_id);
    store_big_endian(header + 6, fields.dont_fragment ? kDontFragment : uint16_t{0});
    header[8] = fields.ttl;
    header[9] = static_cast<uint8_t>(fields.protocol);
    std::copy(source.begin(), source.end(), header + 12);
    std::copy(destination.begin(), destination.end(), header + 16);
    store_big_endian(header + 10, ipv4_checksum(to.first(kIpv4HeaderBytes)));
}

// `to` is the transport header and zero.
void write_tcp(const HeaderFields& fields, base::MutableByteView to) {
    uint8_t* header = to.data();
    store_big_endian(header, fields.source_port);
    store_big_endian(header + 2, fields.destination_port);
    store_big_endian(header + 4, fields.sequence);
    store_big_endian(header + 8, fields.acknowledgement);
    header[12] = static_cast<uint8_t>(to.size() / 4 << 4);
    header[13] = fields.flags;
    store_big_endian(header + 14, fields.window);
    if (fields.has_timestamps) {
        uint8_t* option = header + kTcpHeaderBytes;
        std::copy(kTimestampOptionHead.begin(), kTimestampOptionHead.end(), option);
        store_big_endian(option + 4, fields.timestamp_value);
        store_big_endian(option + 8, fields.timestamp_echo);
    }
}

void write_udp(const HeaderFields& fields, size_t transport_bytes, base::MutableByteView to) {
    store_big_endian(to.data(), fields.source_port);
    store_big_endian(to.data() + 2, fields.destination_port);
    store_big_endian(to.data() + 4, static_cast<uint16_t>(transport_bytes));
}

void write_echo(const HeaderFields& fields, base::MutableByteView to) {
    const bool is_v4 = fields.source.is_v4();
    const uint8_t reply = is_v4 ? kEchoReplyV4 : kEchoReplyV6;
    const uint8_t request = is_v4 ? kEchoRequestV4 : kEchoRequestV6;
    to[0] = fields.is_reply ? reply : request;
    store_big_endian(to.data() + 4, fields.source_port);
    store_big_endian(to.data() + 6, fields.echo_sequence);
}

}  // namespace

size_t HeaderFields::header_bytes() const {
    const size_t ip = ip_header_bytes(*this);
    if (protocol == Protocol::Tcp) {
        return ip + kTcpHeaderBytes + (has_timestamps ? kTimestampOptionBytes : 0);
    }
    return ip + (protocol == Protocol::Udp ? kUdpHeaderBytes : kIcmpHeaderBytes);
}

std::optional<RegularPacket> parse_regular(base::ByteView packet, const Offload& offload) {
    RegularPacket regular;
    HeaderFields& fields = regular.fields;
    const unsigned version = packet.size() < kIpv4HeaderBytes ? 0 : packet[0] >> 4;
    if (!(version == 4 && parse_ipv4(packet, fields)) &&
        !(version == 6 && parse_ipv6(packet, fields))) {
        return std::nullopt;
    }
    const base::ByteView transport = packet.subspan(ip_header_bytes(fields));
    const size_t header = parse_transport(transport, fields, offload.partial_checksum);
    if (header == 0 || !fits(offload, fields)) {
        return std::nullopt;
    }
    regular.payload = transport.subspan(header);
    if (offload.gso == GsoType::None && !offload.partial_checksum && !fields.zero_checksum) {
        // Equality, not "sums to zero": 0 and 0xFFFF sum alike, but only one of them is written
        // again.
        const auto field =
            load_big_endian<uint16_t>(transport.data() + checksum_offset(fields.protocol));
        if (field != transport_checksum(fields, transport.first(header), regular.payload)) {
            return std::nullopt;
        }
    }
    return regular;
}

size_t write_headers(const HeaderFields& fields,
                     base::ByteView payload,
                     bool partial,
                     base::MutableByteView to) {
    const size_t header_bytes = fields.header_bytes();
    const size_t packet_bytes = header_bytes + payload.size();
    const bool is_v4 = fields.source.is_v4();
    if (to.size() < header_bytes || packet_bytes > kMaxIpBytes ||
        fields.destination.is_v4() != is_v4 ||
        !is_flow_protocol(static_cast<uint8_t>(fields.protocol), is_v4)) {
        return 0;
    }
    const size_t ip_bytes = ip_header_bytes(fields);
    write_ip(fields, packet_bytes, to);
    const base::MutableByteView transport = to.subspan(ip_bytes, header_bytes - ip_bytes);
    std::fill(transport.begin(), transport.end(), uint8_t{0});
    if (fields.protocol == Protocol::Tcp) {
        write_tcp(fields, transport);
    } else if (fields.protocol == Protocol::Udp) {
        write_udp(fields, packet_bytes - ip_bytes, transport);
    } else {
        write_echo(fields, transport);
    }
    if (fields.protocol == Protocol::Udp && fields.zero_checksum) {
        return header_bytes;
    }
    const uint16_t checksum = partial && !is_icmp(fields.protocol)
                                  ? fold(pseudo_sum(fields, packet_bytes - ip_bytes))
                                  : transport_checksum(fields, transport, payload);
    store_big_endian(transport.data() + checksum_offset(fields.protocol), checksum);
    return header_bytes;
}

}  // namespace continuo::packet
