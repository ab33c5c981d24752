// HeaderFields: everything needed to rewrite the IP and transport header of a regular TCP, UDP or
// ICMP echo packet byte for byte, given its payload. A packet with IP options, fragments, extension
// headers, TCP options other than NOP NOP timestamps, urgent data or a wrong checksum is not
// regular and is carried whole.
#pragma once

#include "common/packet/five_tuple.hpp"
#include "common/packet/packet.hpp"

#include <optional>

namespace continuo::packet {

namespace tcp_flag {
inline constexpr uint8_t kFin = 0x01;
inline constexpr uint8_t kSyn = 0x02;
inline constexpr uint8_t kRst = 0x04;
inline constexpr uint8_t kPsh = 0x08;
inline constexpr uint8_t kAck = 0x10;
inline constexpr uint8_t kUrg = 0x20;
inline constexpr uint8_t kEce = 0x40;
inline constexpr uint8_t kCwr = 0x80;
}  // namespace tcp_flag

struct HeaderFields {
    base::IpAddress source;
    base::IpAddress destination;
    Protocol protocol = Protocol::Tcp;
    uint8_t tos = 0;             // DSCP and ECN; IPv6 traffic class
    uint8_t ttl = 0;             // IPv6 hop limit
    bool dont_fragment = false;  // IPv4
    uint16_t ip_id = 0;          // IPv4 identification
    uint32_t flow_label = 0;     // IPv6
    uint16_t source_port = 0;    // ICMP echo: the identifier (destination_port 0)
    uint16_t destination_port = 0;
    // TCP (RFC 9293, RFC 7323)
    uint32_t sequence = 0;
    uint32_t acknowledgement = 0;
    uint8_t flags = 0;
    uint16_t window = 0;
    bool has_timestamps = false;  // options are exactly NOP NOP timestamps; else there are none
    uint32_t timestamp_value = 0;
    uint32_t timestamp_echo = 0;
    // UDP
    bool zero_checksum = false;  // IPv4 UDP sent without checksum stays so
    // ICMP echo
    bool is_reply = false;
    uint16_t echo_sequence = 0;

    bool operator==(const HeaderFields&) const = default;
    size_t header_bytes() const;
};

// A regular packet: its fields and where the payload begins. Verifies the transport checksum unless
// it is partial; a wrong one makes the packet irregular, so that it arrives as wrong as it was. For
// a super-packet the fields are those of its header: identifier and sequence of the first segment,
// PSH and FIN of the last; segmenter.hpp cuts it.
struct RegularPacket {
    HeaderFields fields;
    base::ByteView payload;  // lies in the packet
};
std::optional<RegularPacket> parse_regular(base::ByteView packet, const Offload& offload);

// Writes IP and transport header for `payload_bytes` bytes of payload that follow; gives the
// header's length. With `partial` the checksum field holds the folded pseudo-header sum over the
// whole length, and the caller says so to the kernel. Otherwise, and always for ICMP, it is
// computed over `payload`. 0 when `to` is too small, the packet would pass 65535 bytes or addresses
// and protocol do not fit each other.
size_t write_headers(const HeaderFields& fields,
                     base::ByteView payload,
                     bool partial,
                     base::MutableByteView to);

}  // namespace continuo::packet
