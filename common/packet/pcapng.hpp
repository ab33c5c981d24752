// pcapng (draft-ietf-opsawg-pcapng) for a capture of inner and outer packets: one section, three
// interfaces of link type RAW (packets start with the IP header), times in nanoseconds. Blocks are
// big-endian, as the section header declares. Pure: the caller has the file and the clock.
#pragma once

#include "common/base/ip_address.hpp"

#include <string_view>
#include <vector>

namespace continuo::packet {

// In the order of the interface descriptions.
enum class CaptureInterface : uint8_t { Inner = 0, Outer = 1, Streamed = 2 };
inline constexpr size_t kCaptureInterfaces = 3;
// As in epb_flags.
enum class CaptureDirection : uint8_t { Inbound = 1, Outbound = 2 };

struct PacketBlock {
    CaptureInterface interface = CaptureInterface::Inner;
    CaptureDirection direction = CaptureDirection::Inbound;
    uint64_t utc_ns = 0;
    uint32_t length = 0;  // length of the packet
};

// Section header and interface descriptions: the beginning of a file.
std::vector<uint8_t> pcapng_beginning(std::string_view application, std::string_view inner_name);

size_t packet_block_bytes(size_t packet_bytes);
// Writes an enhanced packet block to `to`, which has packet_block_bytes(block.length) bytes; gives
// the place in it where the caller puts the packet.
base::MutableByteView write_packet_block(const PacketBlock& block, base::MutableByteView to);

// Packets written and left out, of one interface.
struct CaptureCounts {
    uint64_t written = 0;
    uint64_t dropped = 0;
};
inline constexpr size_t kStatisticsBlockBytes = 52;
// Interface statistics block, into kStatisticsBlockBytes: the end of a file.
void write_statistics_block(CaptureInterface interface,
                            const CaptureCounts& counts,
                            uint64_t utc_ns,
                            base::MutableByteView to);

// IP and UDP header of a datagram seen at a socket, where they are not visible.
struct DatagramHeader {
    base::Endpoint from;  // IP version as in `to`; an unspecified address stays
    base::Endpoint to;
    uint8_t tos = 0;
};
size_t datagram_header_bytes(const DatagramHeader& header);
// Into datagram_header_bytes(). The checksum of UDP is 0 over IPv4 (none, RFC 768) and right over
// IPv6, where there must be one (RFC 8200 section 8.1); that of IPv4 is right.
void write_datagram_header(const DatagramHeader& header,
                           base::ByteView payload,
                           base::MutableByteView to);

// Completes the checksum of a packet whose field holds the sum of the pseudo-header, as the kernel
// gives it with checksum offload. Offsets outside of the packet change nothing.
void complete_checksum(base::MutableByteView packet, size_t start, size_t field_offset);

}  // namespace continuo::packet
