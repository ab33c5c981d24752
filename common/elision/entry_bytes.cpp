#include "common/elision/entry_bytes.hpp"

#include "common/elision/delta.hpp"
#include "common/elision/format.hpp"

namespace continuo::elision {

namespace {

// docs/PROTOCOL.md section 6.5: when a reference is better set again.
constexpr uint32_t kFarId = 90;
constexpr uint32_t kFarTimestamp = 60;
constexpr uint32_t kFarSequence = 8000;

void write_index(EntryBytes& to, uint8_t bits, uint32_t index) {
    if (index < head::kLongIndex) {
        to.u8(static_cast<uint8_t>(bits | index));
    } else {
        to.u8(static_cast<uint8_t>(bits | head::kLongIndex));
        to.varint(index - head::kLongIndex);
    }
}

void write_length(EntryBytes& to, uint32_t coded) {
    to.length_at = to.size;
    to.varint(coded);
    to.length_bytes = static_cast<uint8_t>(to.size - to.length_at);
}

void write_id(EntryBytes& to, uint16_t id, bool wide) {
    to.id_at = to.size;
    to.id_bytes = wide ? 2 : 1;
    to.low(id, to.id_bytes);
}

uint8_t width_code(uint32_t value, uint32_t reference) {
    if (value == reference) {
        return 0;
    }
    if (fits_offset(value, reference, 2)) {
        return 1;
    }
    return fits_offset(value, reference, 3) ? 2 : 3;
}

bool same_tos_ttl(const PacketValues& a, const PacketValues& b) {
    return a.tos == b.tos && a.ttl == b.ttl;
}

FirstBits tcp_bits(const FlowStatics& statics, const PacketValues& v, const PacketValues& r) {
    const uint8_t sequence = width_code(v.sequence, r.sequence);
    const uint8_t acknowledgement = width_code(v.acknowledgement, r.acknowledgement);
    FirstBits bits;
    bits.mask = static_cast<uint8_t>(sequence | acknowledgement << tcp::kAcknowledgementShift);
    bits.wants_set = sequence > 1 || acknowledgement > 1 ||
                     distance(v.sequence, r.sequence) >= kFarSequence ||
                     distance(v.acknowledgement, r.acknowledgement) >= kFarSequence;
    if (statics.has_timestamps()) {
        const auto fit = [&](unsigned bytes) {
            return fits_offset(v.timestamp_value, r.timestamp_value, bytes) &&
                   fits_offset(v.timestamp_echo, r.timestamp_echo, bytes);
        };
        if (!fit(1)) {
            (fit(2) ? bits.mask : bits.extension) |= tcp::kTimestamps2;
            static_assert(tcp::kTimestamps2 == extension::kTimestamps4);
        }
        bits.wants_set |= distance(v.timestamp_value, r.timestamp_value) >= kFarTimestamp ||
                          distance(v.timestamp_echo, r.timestamp_echo) >= kFarTimestamp;
    }
    if (!statics.is_v6() && !fits_offset(v.ip_id, r.ip_id, 1)) {
        bits.extension |= extension::kId2;
    }
    if (v.window != r.window) {
        bits.extension |= extension::kWindow;
    }
    if (!same_tos_ttl(v, r)) {
        bits.extension |= extension::kTosTtl;
    }
    const uint8_t changed = v.flags ^ r.flags;
    if ((changed & ~packet::tcp_flag::kPsh) != 0) {
        bits.extension |= extension::kFlags;
    }
    bits.wants_set |= bits.extension != 0;
    if (changed == packet::tcp_flag::kPsh) {
        bits.extension |= extension::kPush;
    }
    if (bits.extension != 0) {
        bits.mask |= tcp::kExtension;
    }
    return bits;
}

void write_first_tcp(EntryBytes& to,
                     const FlowStatics& statics,
                     const PacketValues& v,
                     const FirstBits& bits) {
    to.bits_at = to.size;
    to.u8(bits.mask);
    if ((bits.mask & tcp::kExtension) != 0) {
        to.extension_at = to.size;
        to.u8(bits.extension);
    }
    const unsigned sequence = bits.mask & tcp::kWidth;
    const unsigned acknowledgement = (bits.mask >> tcp::kAcknowledgementShift) & tcp::kWidth;
    if (sequence != 0) {
        to.sequence_at = to.size;
        to.sequence_bytes = static_cast<uint8_t>(sequence + 1);
        to.low(v.sequence, sequence + 1);
    }
    if (acknowledgement != 0) {
        to.low(v.acknowledgement, acknowledgement + 1);
    }
    if (statics.has_timestamps()) {
        const unsigned width = (bits.extension & extension::kTimestamps4) != 0 ? 4
                               : (bits.mask & tcp::kTimestamps2) != 0          ? 2
                                                                               : 1;
        to.low(v.timestamp_value, width);
        to.low(v.timestamp_echo, width);
    }
    if (!statics.is_v6()) {
        write_id(to, v.ip_id, (bits.extension & extension::kId2) != 0);
    }
    if ((bits.mask & tcp::kLength) != 0) {
        write_length(to, v.payload_bytes);
    }
    if ((bits.extension & extension::kFlags) != 0) {
        to.flags_at = to.size;
        to.u8(v.flags);
    }
    if ((bits.extension & extension::kWindow) != 0) {
        to.u16(v.window);
    }
    if ((bits.extension & extension::kTosTtl) != 0) {
        to.u8(v.tos);
        to.u8(v.ttl);
    }
}

// Everything of a later TCP entry but head, mask and what all kinds have.
uint8_t later_tcp_bits(const PacketValues& v, const PacketValues& before) {
    uint8_t mask = 0;
    if (v.sequence != before.sequence + before.payload_bytes) {
        mask |= later::kSequence;
    }
    if (v.acknowledgement != before.acknowledgement) {
        mask |= later::kAcknowledgement;
    }
    if (v.timestamp_value != before.timestamp_value || v.timestamp_echo != before.timestamp_echo) {
        mask |= later::kTimestamps;
    }
    if (v.window != before.window) {
        mask |= later::kWindow;
    }
    if (v.flags != before.flags) {
        mask |= later::kFlags;
    }
    return mask;
}

void write_zigzag(EntryBytes& to, uint32_t value, uint32_t before) {
    to.varint(zigzag(static_cast<int32_t>(value - before)));
}

void write_later_tcp(EntryBytes& to,
                     uint8_t mask,
                     const PacketValues& v,
                     const PacketValues& before) {
    if ((mask & later::kSequence) != 0) {
        to.u32(v.sequence);
    }
    if ((mask & later::kAcknowledgement) != 0) {
        write_zigzag(to, v.acknowledgement, before.acknowledgement);
    }
    if ((mask & later::kTimestamps) != 0) {
        write_zigzag(to, v.timestamp_value, before.timestamp_value);
        write_zigzag(to, v.timestamp_echo, before.timestamp_echo);
    }
    if ((mask & later::kWindow) != 0) {
        const auto forward = static_cast<uint16_t>(v.window - before.window);
        to.varint(zigzag(static_cast<int16_t>(forward)));
    }
    if ((mask & later::kFlags) != 0) {
        to.u8(v.flags);
    }
}

}  // namespace

void write_open(EntryBytes& to,
                uint32_t index,
                const FlowStatics& statics,
                const PacketValues& values,
                const OpenInfo& info,
                bool set,
                OpenForm form,
                LengthCode length) {
    to.u8(head::kSpecial);
    to.bits_at = to.size;
    to.u8(static_cast<uint8_t>((statics.traits & 0x0FU) << subtype::kKindShift | subtype::kOpen |
                               (set ? subtype::kSet : 0U) |
                               (form == OpenForm::Context ? subtype::kContext : 0U)));
    to.varint(index);
    const size_t address = statics.is_v6() ? 16 : 4;
    std::memcpy(to.bytes.data() + to.size, statics.remote.data(), address);
    to.size = static_cast<uint8_t>(to.size + address);
    to.u16(statics.source_port);
    if (!statics.is_echo()) {
        to.u16(statics.destination_port);
    }
    if (statics.is_v6()) {
        to.low(statics.traits >> FlowStatics::kLabelShift, 3);
    } else {
        to.u8(static_cast<uint8_t>((statics.traits >> FlowStatics::kFlagShift) & 0x0FU));
    }
    to.u8(values.tos);
    to.u8(values.ttl);
    to.varint(uint32_t{info.app} << 1 | (info.continues ? 1U : 0U));
    if (form == OpenForm::Packet) {
        write_length(to, length == LengthCode::ToEnd ? 0 : values.payload_bytes + 1U);
    }
    if (!statics.is_v6()) {
        write_id(to, values.ip_id, true);
    }
    if (statics.is_echo()) {
        to.u16(static_cast<uint16_t>(values.sequence));
    }
    if (statics.is_tcp()) {
        to.flags_at = to.size;
        to.u8(values.flags);
        to.sequence_at = to.size;
        to.sequence_bytes = 4;
        to.u32(values.sequence);
        to.u32(values.acknowledgement);
        to.u16(values.window);
        if (statics.has_timestamps()) {
            to.u32(values.timestamp_value);
            to.u32(values.timestamp_echo);
        }
    }
}

FirstBits
first_bits(const FlowStatics& statics, const PacketValues& values, const PacketValues& reference) {
    if (statics.is_tcp()) {
        return tcp_bits(statics, values, reference);
    }
    FirstBits bits;
    if (!statics.is_v6()) {
        if (!fits_offset(values.ip_id, reference.ip_id, 1)) {
            bits.mask |= plain::kId2;
        }
        bits.wants_set |= distance(values.ip_id, reference.ip_id) > kFarId;
    }
    if (statics.is_echo()) {
        const auto sequence = static_cast<uint16_t>(values.sequence);
        const auto before = static_cast<uint16_t>(reference.sequence);
        if (!fits_offset(sequence, before, 1)) {
            bits.mask |= plain::kSequence2;
        }
        bits.wants_set |= distance(sequence, before) > kFarId;
    }
    if (!same_tos_ttl(values, reference)) {
        bits.mask |= plain::kTosTtl;
        bits.wants_set = true;
    }
    return bits;
}

LengthCode first_length(const FlowStatics& statics,
                        const PacketValues& values,
                        const PacketValues& reference,
                        bool to_end) {
    const uint16_t implied = statics.is_tcp() ? uint16_t{0} : reference.payload_bytes;
    if (values.payload_bytes == implied) {
        return LengthCode::Implied;
    }
    return to_end ? LengthCode::ToEnd : LengthCode::Counted;
}

void add_length(const FlowStatics& statics, LengthCode length, FirstBits& bits) {
    if (length == LengthCode::Implied) {
        return;
    }
    const bool counted = length == LengthCode::Counted;
    if (statics.is_tcp()) {
        bits.mask |= counted ? tcp::kLength : tcp::kToEnd;
    } else {
        bits.mask |= counted ? plain::kLength : plain::kToEnd;
    }
}

void add_set(const FlowStatics& statics, FirstBits& bits) {
    if (statics.is_tcp()) {
        bits.mask |= tcp::kExtension;
        bits.extension |= extension::kSet;
    } else {
        bits.mask |= plain::kSet;
    }
}

void write_first(EntryBytes& to,
                 uint32_t index,
                 uint32_t reference,
                 const FlowStatics& statics,
                 const PacketValues& values,
                 const FirstBits& bits) {
    const uint8_t chosen = reference == 0 ? uint8_t{0} : head::kReference;
    const bool has_mask = statics.is_tcp() || bits.mask != 0;
    write_index(to, static_cast<uint8_t>(chosen | (has_mask ? head::kMask : 0U)), index);
    if (statics.is_tcp()) {
        write_first_tcp(to, statics, values, bits);
        return;
    }
    if (has_mask) {
        to.bits_at = to.size;
        to.u8(bits.mask);
    }
    if (statics.is_echo()) {
        to.low(values.sequence, (bits.mask & plain::kSequence2) != 0 ? 2 : 1);
    }
    if (!statics.is_v6()) {
        write_id(to, values.ip_id, (bits.mask & plain::kId2) != 0);
    }
    if ((bits.mask & plain::kLength) != 0) {
        write_length(to, values.payload_bytes);
    }
    if ((bits.mask & plain::kTosTtl) != 0) {
        to.u8(values.tos);
        to.u8(values.ttl);
    }
}

bool write_later(EntryBytes& to,
                 uint32_t index,
                 const FlowStatics& statics,
                 const PacketValues& values,
                 const PacketValues& before,
                 bool to_end) {
    if (!same_tos_ttl(values, before)) {
        return false;
    }
    uint8_t mask = statics.is_tcp() ? later_tcp_bits(values, before) : uint8_t{0};
    if (values.payload_bytes != before.payload_bytes) {
        mask |= to_end ? later::kToEnd : later::kLength;
    }
    if (!statics.is_v6() && values.ip_id != static_cast<uint16_t>(before.ip_id + 1)) {
        mask |= later::kId2;
    }
    const auto echo_sequence = static_cast<uint16_t>(values.sequence);
    if (statics.is_echo() && echo_sequence != static_cast<uint16_t>(before.sequence + 1)) {
        mask |= later::kSequence;
    }
    write_index(to, mask != 0 ? head::kMask : uint8_t{0}, index);
    if (mask == 0) {
        return true;
    }
    to.bits_at = to.size;
    to.u8(mask);
    if ((mask & later::kLength) != 0) {
        write_length(to, values.payload_bytes);
    }
    if ((mask & later::kId2) != 0) {
        to.u16(values.ip_id);
    }
    if (statics.is_tcp()) {
        write_later_tcp(to, mask, values, before);
    } else if ((mask & later::kSequence) != 0) {
        to.u16(echo_sequence);
    }
    return true;
}

uint8_t to_end_change(const FlowStatics& statics, bool is_later) {
    return !is_later && statics.is_tcp() ? tcp::kLength ^ tcp::kToEnd
                                         : later::kLength ^ later::kToEnd;
}
static_assert(plain::kLength == later::kLength && plain::kToEnd == later::kToEnd);

}  // namespace continuo::elision
