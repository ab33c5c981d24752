#include "common/packet/context_fields.hpp"

#include <algorithm>

namespace continuo::packet {

using base::ByteReader;
using base::ByteView;
using base::load_big_endian;

namespace {

constexpr size_t kIpv4HeaderBytes = 20;
constexpr size_t kIpv6HeaderBytes = 40;
constexpr size_t kTcpHeaderBytes = 20;
constexpr uint8_t kTcpOptionEnd = 0;
constexpr uint8_t kTcpOptionNop = 1;
constexpr uint8_t kTcpOptionTimestamps = 8;
constexpr uint8_t kTimestampsOptionBytes = 10;

bool read_ipv4(ByteView packet, HeaderFields& fields) {
    if (packet.size() < kIpv4HeaderBytes || packet[0] != 0x45 ||
        (load_big_endian<uint16_t>(&packet[6]) & 0x3FFFU) != 0) {
        return false;
    }
    fields.source = base::IpAddress::v4(packet.subspan(12, 4));
    fields.destination = base::IpAddress::v4(packet.subspan(16, 4));
    fields.protocol = static_cast<Protocol>(packet[9]);
    fields.tos = packet[1];
    fields.ttl = packet[8];
    fields.ip_id = load_big_endian<uint16_t>(&packet[4]);
    fields.dont_fragment = (packet[6] & 0x40U) != 0;
    return true;
}

bool read_ipv6(ByteView packet, HeaderFields& fields) {
    if (packet.size() < kIpv6HeaderBytes) {
        return false;
    }
    const auto first = load_big_endian<uint32_t>(packet.data());
    fields.source = base::IpAddress::v6(packet.subspan(8, 16));
    fields.destination = base::IpAddress::v6(packet.subspan(24, 16));
    fields.protocol = static_cast<Protocol>(packet[6]);
    fields.tos = static_cast<uint8_t>(first >> 20);
    fields.flow_label = first & 0xFFFFFU;
    fields.ttl = packet[7];
    return true;
}

void read_timestamps(ByteView options, HeaderFields& fields) {
    ByteReader reader(options);
    while (reader.ok() && !reader.at_end()) {
        const uint8_t kind = reader.u8();
        if (kind == kTcpOptionEnd) {
            return;
        }
        if (kind == kTcpOptionNop) {
            continue;
        }
        const uint8_t length = reader.u8();
        if (length < 2) {
            return;
        }
        ByteReader value(reader.bytes(length - 2U));
        if (kind == kTcpOptionTimestamps && length == kTimestampsOptionBytes) {
            fields.timestamp_value = value.u32();
            fields.timestamp_echo = value.u32();
            fields.has_timestamps = value.ok();
            return;
        }
    }
}

bool read_tcp(ByteView transport, HeaderFields& fields) {
    if (transport.size() < kTcpHeaderBytes) {
        return false;
    }
    const size_t header = size_t{transport[12]} / 16 * 4;
    if (header < kTcpHeaderBytes || header > transport.size()) {
        return false;
    }
    fields.sequence = load_big_endian<uint32_t>(&transport[4]);
    fields.acknowledgement = load_big_endian<uint32_t>(&transport[8]);
    fields.flags = transport[13];
    fields.window = load_big_endian<uint16_t>(&transport[14]);
    if ((fields.flags & tcp_flag::kSyn) != 0) {
        ++fields.sequence;
    }
    fields.flags = tcp_flag::kAck;
    read_timestamps(transport.subspan(kTcpHeaderBytes, header - kTcpHeaderBytes), fields);
    return true;
}

}  // namespace

std::optional<HeaderFields> context_fields(ByteView packet) {
    HeaderFields fields;
    const bool is_v6 = !packet.empty() && packet[0] >> 4 == 6;
    if (is_v6 ? !read_ipv6(packet, fields) : !read_ipv4(packet, fields)) {
        return std::nullopt;
    }
    const ByteView transport = packet.subspan(is_v6 ? kIpv6HeaderBytes : kIpv4HeaderBytes);
    if (transport.size() < 8) {
        return std::nullopt;
    }
    fields.source_port = load_big_endian<uint16_t>(transport.data());
    fields.destination_port = load_big_endian<uint16_t>(transport.data() + 2);
    if (fields.protocol == Protocol::Udp) {
        fields.zero_checksum = !is_v6 && load_big_endian<uint16_t>(transport.data() + 6) == 0;
        return fields;
    }
    if (fields.protocol != Protocol::Tcp || !read_tcp(transport, fields)) {
        return std::nullopt;
    }
    return fields;
}

}  // namespace continuo::packet
