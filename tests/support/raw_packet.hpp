// IP packets as bytes, for tests that play one end of a TUN: built with right checksums, and read
// as far as tests ask.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/ip_address.hpp"

#include <optional>
#include <vector>

namespace continuo::test {

// virtio_net_hdr of a packet without offload: zeros.
inline constexpr size_t kVnetBytes = 10;

struct RawPacket {
    base::IpAddress source;
    base::IpAddress destination;
    uint8_t protocol = 17;  // 6: a SYN; 1, 58: an echo request, its identifier in source_port
    uint16_t source_port = 0;
    uint16_t destination_port = 0;
    std::vector<uint8_t> payload;
};

// One's complement sum of RFC 1071, not inverted.
inline uint32_t add_checksum(uint32_t sum, base::ByteView bytes) {
    for (size_t i = 0; i < bytes.size(); ++i) {
        sum += i % 2 == 0 ? uint32_t{bytes[i]} << 8 : uint32_t{bytes[i]};
    }
    return sum;
}
inline uint16_t fold_checksum(uint32_t sum) {
    while (sum > 0xFFFF) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    return static_cast<uint16_t>(~sum);
}

inline std::vector<uint8_t> transport_bytes(const RawPacket& packet, size_t& checksum_at) {
    std::vector<uint8_t> bytes(packet.protocol == 6 ? 20 : 8);
    base::ByteWriter writer(bytes);
    if (packet.protocol == 6 || packet.protocol == 17) {
        writer.u16(packet.source_port);
        writer.u16(packet.destination_port);
    }
    if (packet.protocol == 6) {
        writer.u32(1000);
        writer.u32(0);
        writer.u16(0x5002);  // 20 bytes of header, SYN
        writer.u16(65535);
        checksum_at = 16;
    } else if (packet.protocol == 17) {
        writer.u16(static_cast<uint16_t>(8 + packet.payload.size()));
        checksum_at = 6;
    } else {
        writer.u8(packet.protocol == 1 ? 8 : 128);
        writer.u8(0);
        writer.u16(0);
        writer.u16(packet.source_port);
        writer.u16(1);
        checksum_at = 2;
    }
    bytes.insert(bytes.end(), packet.payload.begin(), packet.payload.end());
    return bytes;
}

// virtio_net_hdr and packet.
inline std::vector<uint8_t> build_frame(const RawPacket& packet) {
    size_t checksum_at = 0;
    std::vector<uint8_t> transport = transport_bytes(packet, checksum_at);
    uint32_t sum = 0;
    if (packet.protocol != 1) {
        sum = add_checksum(sum, packet.source.bytes());
        sum = add_checksum(sum, packet.destination.bytes());
        sum += packet.protocol + static_cast<uint32_t>(transport.size());
    }
    base::store_big_endian(transport.data() + checksum_at,
                           fold_checksum(add_checksum(sum, transport)));
    const bool is_v4 = packet.source.is_v4();
    const size_t header_bytes = is_v4 ? 20 : 40;
    std::vector<uint8_t> frame(kVnetBytes + header_bytes);
    const base::MutableByteView header = base::MutableByteView(frame).subspan(kVnetBytes);
    base::ByteWriter writer(header);
    if (is_v4) {
        writer.u16(0x4500);
        writer.u16(static_cast<uint16_t>(header_bytes + transport.size()));
        writer.u32(0);
        writer.u8(64);
        writer.u8(packet.protocol);
        writer.u16(0);
        writer.bytes(packet.source.bytes());
        writer.bytes(packet.destination.bytes());
        base::store_big_endian(header.data() + 10, fold_checksum(add_checksum(0, header)));
    } else {
        writer.u32(0x60000000);
        writer.u16(static_cast<uint16_t>(transport.size()));
        writer.u8(packet.protocol);
        writer.u8(64);
        writer.bytes(packet.source.bytes());
        writer.bytes(packet.destination.bytes());
    }
    frame.insert(frame.end(), transport.begin(), transport.end());
    return frame;
}

// Parses a frame with virtio_net_hdr, without options or extension headers. The payload is what
// follows 8 or 20 bytes of transport header.
inline std::optional<RawPacket> parse_frame(base::ByteView frame) {
    base::ByteReader reader(frame);
    reader.bytes(kVnetBytes);
    const uint8_t first = reader.u8();
    RawPacket packet;
    if (first >> 4 == 4) {
        reader.bytes(8);
        packet.protocol = reader.u8();
        reader.bytes(2);
        packet.source = base::IpAddress::v4(reader.bytes(4));
        packet.destination = base::IpAddress::v4(reader.bytes(4));
    } else {
        reader.bytes(5);
        packet.protocol = reader.u8();
        reader.bytes(1);
        packet.source = base::IpAddress::v6(reader.bytes(16));
        packet.destination = base::IpAddress::v6(reader.bytes(16));
    }
    const bool is_icmp = packet.protocol == 1 || packet.protocol == 58;
    if (is_icmp) {
        reader.bytes(4);
    }
    packet.source_port = reader.u16();
    packet.destination_port = reader.u16();
    if (!is_icmp) {
        reader.bytes(packet.protocol == 6 ? 16 : 4);
    }
    const base::ByteView rest = reader.rest();
    packet.payload.assign(rest.begin(), rest.end());
    return reader.ok() ? std::optional(packet) : std::nullopt;
}

}  // namespace continuo::test
