#include "common/elision/entry_reader.hpp"

#include "common/elision/delta.hpp"
#include "common/elision/format.hpp"

#include <algorithm>

namespace continuo::elision {

using base::ByteReader;

namespace {

uint32_t read_low(ByteReader& reader, unsigned bytes) {
    switch (bytes) {
    case 1:
        return reader.u8();
    case 2:
        return reader.u16();
    case 3:
        return reader.u24();
    default:
        return reader.u32();
    }
}

uint32_t read_offset(ByteReader& reader, uint32_t reference, unsigned bytes) {
    const uint32_t low = read_low(reader, bytes);
    return bytes == 4 ? low : from_offset(low, reference, bytes);
}

uint16_t read_offset16(ByteReader& reader, uint16_t reference, bool wide) {
    return wide ? reader.u16() : from_offset(reader.u8(), reference, 1);
}

// Zigzag varint of at most `limit`; larger makes the reader fail.
uint32_t read_zigzag(ByteReader& reader, uint32_t limit) {
    const uint64_t coded = reader.varint();
    if (coded > limit) {
        reader.fail();
        return 0;
    }
    return from_zigzag(static_cast<uint32_t>(coded));
}

}  // namespace

uint16_t read_length(ByteReader& reader) {
    const uint64_t length = reader.varint();
    if (length > kMaxPacketBytes) {
        reader.fail();
        return 0;
    }
    return static_cast<uint16_t>(length);
}

void read_first_plain(ByteReader& reader,
                      const FlowStatics& statics,
                      uint8_t mask,
                      PacketValues& values,
                      FirstEntry& entry) {
    if (statics.is_echo()) {
        values.sequence = read_offset16(reader, static_cast<uint16_t>(values.sequence),
                                        (mask & plain::kSequence2) != 0);
    }
    if (!statics.is_v6()) {
        values.ip_id = read_offset16(reader, values.ip_id, (mask & plain::kId2) != 0);
    }
    entry.payload_bytes = (mask & plain::kLength) != 0 ? read_length(reader) : values.payload_bytes;
    if ((mask & plain::kTosTtl) != 0) {
        values.tos = reader.u8();
        values.ttl = reader.u8();
    }
    entry.to_end = (mask & plain::kToEnd) != 0;
    entry.sets = (mask & plain::kSet) != 0;
}

bool is_valid_plain(const FlowStatics& statics, uint8_t mask) {
    constexpr uint8_t kLengths = plain::kLength | plain::kToEnd;
    constexpr uint8_t kKnown = kLengths | plain::kId2 | plain::kTosTtl | plain::kSet;
    const uint8_t known = statics.is_echo() ? kKnown | plain::kSequence2 : kKnown;
    return (mask & ~known) == 0 && (mask & kLengths) != kLengths &&
           !(statics.is_v6() && (mask & plain::kId2) != 0);
}

void read_first_tcp(ByteReader& reader,
                    const FlowStatics& statics,
                    uint8_t mask,
                    uint8_t extra,
                    PacketValues& values,
                    FirstEntry& entry) {
    if (const unsigned width = mask & tcp::kWidth; width != 0) {
        values.sequence = read_offset(reader, values.sequence, width + 1);
    }
    if (const unsigned width = (mask >> tcp::kAcknowledgementShift) & tcp::kWidth; width != 0) {
        values.acknowledgement = read_offset(reader, values.acknowledgement, width + 1);
    }
    if (statics.has_timestamps()) {
        const unsigned width = (extra & extension::kTimestamps4) != 0 ? 4
                               : (mask & tcp::kTimestamps2) != 0      ? 2
                                                                      : 1;
        values.timestamp_value = read_offset(reader, values.timestamp_value, width);
        values.timestamp_echo = read_offset(reader, values.timestamp_echo, width);
    }
    if (!statics.is_v6()) {
        values.ip_id = read_offset16(reader, values.ip_id, (extra & extension::kId2) != 0);
    }
    entry.payload_bytes = (mask & tcp::kLength) != 0 ? read_length(reader) : 0;
    if ((extra & extension::kFlags) != 0) {
        values.flags = reader.u8();
    }
    if ((extra & extension::kPush) != 0) {
        values.flags ^= packet::tcp_flag::kPsh;
    }
    if ((extra & extension::kWindow) != 0) {
        values.window = reader.u16();
    }
    if ((extra & extension::kTosTtl) != 0) {
        values.tos = reader.u8();
        values.ttl = reader.u8();
    }
    entry.to_end = (mask & tcp::kToEnd) != 0;
    entry.sets = (extra & extension::kSet) != 0;
}

bool is_valid_tcp(const FlowStatics& statics, uint8_t mask, uint8_t extra) {
    constexpr uint8_t kLengths = tcp::kLength | tcp::kToEnd;
    constexpr uint8_t kAllFlags = extension::kFlags | extension::kPush;
    const bool timestamps2 = (mask & tcp::kTimestamps2) != 0;
    const bool timestamps4 = (extra & extension::kTimestamps4) != 0;
    return (extra & extension::kReserved) == 0 && (mask & kLengths) != kLengths &&
           (extra & kAllFlags) != kAllFlags && !(timestamps2 && timestamps4) &&
           (statics.has_timestamps() || !(timestamps2 || timestamps4)) &&
           !(statics.is_v6() && (extra & extension::kId2) != 0);
}

bool is_valid_later(const FlowStatics& statics, uint8_t mask) {
    constexpr uint8_t kLengths = later::kLength | later::kToEnd;
    uint8_t known = kLengths;
    if (!statics.is_v6()) {
        known |= later::kId2;
    }
    if (statics.is_echo() || statics.is_tcp()) {
        known |= later::kSequence;
    }
    if (statics.is_tcp()) {
        known |= later::kAcknowledgement | later::kWindow | later::kFlags;
    }
    if (statics.has_timestamps()) {
        known |= later::kTimestamps;
    }
    return (mask & ~known) == 0 && (mask & kLengths) != kLengths;
}

void read_later_tcp(ByteReader& reader, uint8_t mask, PacketValues& values) {
    if ((mask & later::kSequence) != 0) {
        values.sequence = reader.u32();
    }
    if ((mask & later::kAcknowledgement) != 0) {
        values.acknowledgement += read_zigzag(reader, UINT32_MAX);
    }
    if ((mask & later::kTimestamps) != 0) {
        values.timestamp_value += read_zigzag(reader, UINT32_MAX);
        values.timestamp_echo += read_zigzag(reader, UINT32_MAX);
    }
    if ((mask & later::kWindow) != 0) {
        values.window = static_cast<uint16_t>(values.window + read_zigzag(reader, UINT16_MAX));
    }
    if ((mask & later::kFlags) != 0) {
        values.flags = reader.u8();
    }
}

bool is_known_kind(uint8_t kind) {
    switch (static_cast<FlowKind>(kind & 0x07U)) {
    case FlowKind::Udp:
    case FlowKind::EchoRequest:
    case FlowKind::EchoReply:
    case FlowKind::Tcp:
    case FlowKind::TcpTimestamps:
        return true;
    case FlowKind::Rtp:
        break;
    }
    return false;
}

bool read_statics(ByteReader& reader, FlowStatics& statics, PacketValues& values, OpenInfo& open) {
    const ByteView address = reader.bytes(statics.is_v6() ? 16 : 4);
    std::copy(address.begin(), address.end(), statics.remote.begin());
    statics.source_port = reader.u16();
    if (!statics.is_echo()) {
        statics.destination_port = reader.u16();
    }
    if (statics.is_v6()) {
        const uint32_t label = reader.u24();
        if (label > 0xFFFFF) {
            return false;
        }
        statics.traits |= label << FlowStatics::kLabelShift;
    } else {
        const uint32_t flags = uint32_t{reader.u8()} << FlowStatics::kFlagShift;
        if ((flags & ~(FlowStatics::kDontFragment | FlowStatics::kZeroChecksum)) != 0 ||
            ((flags & FlowStatics::kZeroChecksum) != 0 && statics.kind() != FlowKind::Udp)) {
            return false;
        }
        statics.traits |= flags;
    }
    values.tos = reader.u8();
    values.ttl = reader.u8();
    const uint64_t app = reader.varint();
    if (app > 2 * uint64_t{UINT16_MAX} + 1) {
        return false;
    }
    open.app = static_cast<uint16_t>(app >> 1);
    open.continues = (app & 1) != 0;
    return true;
}

void read_opened_values(ByteReader& reader, const FlowStatics& statics, PacketValues& values) {
    if (!statics.is_v6()) {
        values.ip_id = reader.u16();
    }
    if (statics.is_echo()) {
        values.sequence = reader.u16();
    }
    if (!statics.is_tcp()) {
        return;
    }
    values.flags = reader.u8();
    values.sequence = reader.u32();
    values.acknowledgement = reader.u32();
    values.window = reader.u16();
    if (statics.has_timestamps()) {
        values.timestamp_value = reader.u32();
        values.timestamp_echo = reader.u32();
    }
}

}  // namespace continuo::elision
