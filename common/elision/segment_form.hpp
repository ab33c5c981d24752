// SegmentForm: entry head and elided header of the segments of one super-packet, all of the same
// length (docs/PROTOCOL.md section 6.3). Made by Encoder::plan_segments. Valid until the next call
// of the encoder other than record_segments; segments that are sent later are planned anew with
// their own first fields.
#pragma once

#include "common/elision/types.hpp"

namespace continuo::elision {

struct SegmentForm {
    uint32_t header_bytes = 0;   // each segment's; 0: the super-packet has no such form
    uint32_t segment_bytes = 0;  // payload of each but the last
    uint32_t last_bytes = 0;
    uint32_t segments = 0;
    bool is_stateful = false;  // wants acknowledgement

    // The rest is for write_segment_header and the encoder.
    uint32_t index = 0;
    bool uses_reference = false;  // else each segment is an OPEN
    bool sets = false;            // segment 0 sets
    uint8_t reference = 0;        // used
    uint8_t set_reference = 0;
    FlowStatics statics;
    PacketValues first;       // values of segment 0
    uint8_t sequence_at = 0;  // positions in `bytes`; 0: not there
    uint8_t sequence_width = 0;
    uint8_t id_at = 0;
    uint8_t id_width = 0;
    uint8_t flags_at = 0;
    uint8_t bits_at = 0;            // the byte with SET and PSH: mask, ext or subtype
    std::array<uint8_t, 3> bits{};  // in the first, a middle and the last segment
    std::array<uint8_t, 3> flags{};
    alignas(8) std::array<uint8_t, kMaxOpenBytes> bytes{};
};

// Writes the `header_bytes` bytes that stand before the payload of segment `segment` (counted from
// 0). The payload goes to the end of the section.
inline void write_segment_header(const SegmentForm& form, uint32_t segment, uint8_t* to) {
    const uint32_t place = segment == 0 ? 0 : (segment + 1 == form.segments ? 2 : 1);
    std::memcpy(to, form.bytes.data(), form.header_bytes);
    to[form.bits_at] = form.bits[place];
    if (form.sequence_width != 0) {
        uint32_t sequence = form.first.sequence + segment * form.segment_bytes;
        for (uint32_t i = form.sequence_width; i-- > 0; sequence >>= 8) {
            to[form.sequence_at + i] = static_cast<uint8_t>(sequence);
        }
    }
    if (form.id_width != 0) {
        const uint32_t id = form.first.ip_id + segment;
        to[form.id_at] = static_cast<uint8_t>(form.id_width == 2 ? id >> 8 : id);
        to[form.id_at + form.id_width - 1U] = static_cast<uint8_t>(id);
    }
    if (form.flags_at != 0) {
        to[form.flags_at] = form.flags[place];
    }
}

}  // namespace continuo::elision
