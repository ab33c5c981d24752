// Values that both ends of header elision share (docs/PROTOCOL.md sections 6.3 to 6.5): what a
// flow context keeps for ever, what a reference keeps, and the limits that are part of the format.
#pragma once

#include "common/base/time.hpp"
#include "common/packet/header_fields.hpp"
#include "common/packet/rewrite.hpp"

#include <array>

namespace continuo::elision {

using base::ByteView;
using base::ByteWriter;
using base::Duration;
using base::MutableByteView;
using base::TimePoint;
using packet::HeaderFields;

// Part of the format: a decoder refuses more.
inline constexpr uint32_t kMaxFlowIndex = 65535;
inline constexpr size_t kMaxEntries = 1024;       // packets in one datagram
inline constexpr size_t kMaxPacketBytes = 65535;  // IP length of a restored packet
// Upper bounds of entry head and elided header, whatever the flow: before an OPEN is acknowledged,
// and after.
inline constexpr size_t kMaxOpenBytes = 64;
inline constexpr size_t kMaxElidedBytes = 36;
// Spaces of one lane: 4 classes on 16 paths.
inline constexpr size_t kMaxSpaces = 64;
inline constexpr size_t kMaxSpacesOfClass = kMaxSpaces / 4;

// T_skew (docs/PROTOCOL.md section 6.5, rule 3).
inline constexpr Duration kMinimumSkew = base::milliseconds(300);
constexpr Duration skew_for(Duration largest_rtt) {
    return std::max<Duration>(2 * largest_rtt + base::milliseconds(100), kMinimumSkew);
}

// Datagrams of `space` with lower numbers have been given up by their sender.
struct Floor {
    uint16_t space = 0;
    uint64_t sequence = 0;
    bool operator==(const Floor&) const = default;
};

// The parts of an OPEN beside the headers.
struct OpenInfo {
    uint16_t app = 0;        // application tag
    bool continues = false;  // the flow existed in another class
    bool operator==(const OpenInfo&) const = default;
};

// `kind` of an OPEN; kKindV6 is added for IPv6.
enum class FlowKind : uint8_t {
    Udp = 0,
    Rtp = 1,
    EchoRequest = 2,
    EchoReply = 3,
    Tcp = 4,
    TcpTimestamps = 5
};
inline constexpr uint8_t kKindV6 = 0x08;

// The fields that do not change in a flow, from the sender's point of view. Compared as a whole, so
// there is no padding.
struct FlowStatics {
    std::array<uint8_t, 16> remote{};  // IPv4: the first four
    uint16_t source_port = 0;          // echo: the identifier
    uint16_t destination_port = 0;
    uint32_t traits = 0;  // kind (4 bits), flags (4 bits), 0 (4 bits), flow label (20 bits)

    static constexpr uint32_t kDontFragment = 0x10;
    static constexpr uint32_t kZeroChecksum = 0x20;
    static constexpr unsigned kFlagShift = 4;
    static constexpr unsigned kLabelShift = 12;

    bool is_v6() const { return (traits & kKindV6) != 0; }
    FlowKind kind() const { return static_cast<FlowKind>(traits & 0x07U); }
    bool is_tcp() const { return (traits & 0x04U) != 0; }
    bool has_timestamps() const { return kind() == FlowKind::TcpTimestamps; }
    bool is_echo() const { return (traits & 0x06U) == 0x02U; }
    bool operator==(const FlowStatics& other) const {
        return std::memcmp(this, &other, sizeof *this) == 0;
    }
};
static_assert(sizeof(FlowStatics) == 24 && std::has_unique_object_representations_v<FlowStatics>);

// The fields that change from packet to packet: the content of a reference.
struct PacketValues {
    uint32_t sequence = 0;  // TCP; echo: the echo sequence number
    uint32_t acknowledgement = 0;
    uint32_t timestamp_value = 0;
    uint32_t timestamp_echo = 0;
    uint16_t ip_id = 0;
    uint16_t window = 0;
    uint16_t payload_bytes = 0;
    uint8_t flags = 0;
    uint8_t tos = 0;
    uint8_t ttl = 0;
};
static_assert(sizeof(PacketValues) == 28);

// `side` is where the node's address stands; the other address is the remote one.
FlowStatics statics_of(const HeaderFields& fields, packet::NodeSide side);
PacketValues values_of(const HeaderFields& fields, size_t payload_bytes);
// The node's address is left unspecified.
void restore_fields(const FlowStatics& statics,
                    const PacketValues& values,
                    packet::NodeSide side,
                    HeaderFields& fields);
// Bytes of the IP and transport header.
size_t header_bytes(const FlowStatics& statics);

}  // namespace continuo::elision
