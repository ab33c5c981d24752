#include "common/elision/segment_form.hpp"

#include "common/elision/encoder.hpp"
#include "common/elision/format.hpp"

#include <algorithm>

namespace continuo::elision {

namespace {

using packet::tcp_flag::kCwr;
using packet::tcp_flag::kFin;
using packet::tcp_flag::kPsh;

// Flags of the first, a middle and the last segment (Linux tcp_gso_segment; RFC 3168 section 6.1.2
// for CWR).
std::array<uint8_t, 3> flags_of_segments(uint8_t flags, uint32_t segments) {
    const auto middle = static_cast<uint8_t>(flags & ~(kFin | kPsh | kCwr));
    const auto first = static_cast<uint8_t>(middle | (flags & kCwr));
    const auto last = static_cast<uint8_t>(middle | (flags & (kFin | kPsh)));
    return segments == 1 ? std::array<uint8_t, 3>{flags, flags, flags}
                         : std::array<uint8_t, 3>{first, middle, last};
}

// Bits that serve both ends of a run, and so all between: deltas grow steadily.
FirstBits widest(const FirstBits& a, const FirstBits& b) {
    const auto sequence = std::max(a.mask & tcp::kWidth, b.mask & tcp::kWidth);
    FirstBits bits;
    bits.mask = static_cast<uint8_t>(((a.mask | b.mask) & ~tcp::kWidth) | sequence);
    bits.extension = a.extension | b.extension;
    bits.wants_set = a.wants_set;
    return bits;
}

void take_positions(SegmentForm& form, const EntryBytes& entry) {
    form.header_bytes = entry.size;
    std::copy_n(entry.bytes.begin(), entry.size, form.bytes.begin());
    form.sequence_at = entry.sequence_at;
    form.sequence_width = form.statics.is_tcp() ? entry.sequence_bytes : uint8_t{0};
    form.id_at = entry.id_at;
    form.id_width = entry.id_bytes;
    form.flags_at = entry.flags_at;
    form.bits_at = entry.extension_at != 0 ? entry.extension_at : entry.bits_at;
    form.bits.fill(entry.bytes[form.bits_at]);
}

}  // namespace

SegmentForm Encoder::plan_segments(uint32_t index,
                                   const HeaderFields& first,
                                   uint32_t segment_bytes,
                                   uint32_t segments,
                                   uint32_t last_bytes,
                                   TimePoint now) {
    CTN_ASSERT(!is_building_);
    FlowContext& flow = added(index);
    SegmentForm form;
    form.statics = statics_of(first, side_);
    if (segments == 0 || last_bytes > segment_bytes || segment_bytes > kMaxPacketBytes ||
        form.statics.is_echo()) {
        return form;
    }
    form.index = index;
    form.segment_bytes = segment_bytes;
    form.last_bytes = last_bytes;
    form.segments = segments;
    form.is_stateful = true;
    form.flags = flags_of_segments(first.flags, segments);
    form.first = values_of(first, segments == 1 ? last_bytes : segment_bytes);
    form.first.flags = form.flags[0];
    uses_.clear();
    floors_.clear();
    may_use_ = !in_flight_.is_silent(now) &&
               in_flight_.make_room(2 + segments / kMaxRecordDatagrams + kMaxSpacesOfClass, 2);
    may_set_ = may_use_;
    EntryBytes entry;
    if (may_refer(flow, form.statics)) {
        PacketValues last = form.first;
        last.sequence += (segments - 1) * segment_bytes;
        last.ip_id = static_cast<uint16_t>(last.ip_id + segments - 1);
        last.flags = form.flags[2];
        plan_references(form, entry, flow, last);
    } else {
        plan_opens(form, entry, flow);
    }
    return form;
}

void Encoder::plan_references(SegmentForm& form,
                              EntryBytes& entry,
                              FlowContext& flow,
                              const PacketValues& last) {
    const FlowStatics& statics = form.statics;
    const PacketValues& against = flow.references[flow.current ? 1 : 0];
    FirstBits bits =
        widest(first_bits(statics, form.first, against), first_bits(statics, last, against));
    form.uses_reference = true;
    form.reference = flow.current ? 1 : 0;
    form.set_reference = 1 - form.reference;
    form.sets = may_set(flow, form.set_reference, bits.wants_set);
    add_length(statics, LengthCode::ToEnd, bits);
    const uint8_t middle_change = form.flags[1] ^ against.flags;
    if (statics.is_tcp()) {
        const bool flags_byte = (bits.extension & extension::kFlags) != 0;
        const bool push_bit = (bits.extension & extension::kPush) != 0 ||
                              (form.segments > 2 && middle_change == kPsh);
        bits.extension &= static_cast<uint8_t>(~extension::kPush);
        if (bits.extension != 0 || push_bit || form.sets) {
            bits.mask |= tcp::kExtension;
        }
        write_first(entry, form.index, form.reference, statics, form.first, bits);
        take_positions(form, entry);
        for (size_t i = 0; i < form.bits.size() && !flags_byte && push_bit; ++i) {
            form.bits[i] |= form.flags[i] != against.flags ? extension::kPush : uint8_t{0};
        }
        form.bits[0] |= form.sets ? extension::kSet : uint8_t{0};
    } else {
        write_first(entry, form.index, form.reference, statics, form.first, bits);
        take_positions(form, entry);
        form.bits[0] |= form.sets ? plain::kSet : uint8_t{0};
    }
}

void Encoder::plan_opens(SegmentForm& form, EntryBytes& entry, const FlowContext& flow) {
    form.sets = may_open(flow, form.statics);
    write_open(entry, form.index, form.statics, form.first, {flow.app, flow.continues}, false,
               OpenForm::Packet, LengthCode::ToEnd);
    take_positions(form, entry);
    form.bits[0] |= form.sets ? subtype::kSet : uint8_t{0};
}

void Encoder::record_segments(const SegmentForm& form,
                              uint32_t first_segment,
                              uint32_t count,
                              uint16_t space,
                              uint64_t first_sequence,
                              TimePoint now) {
    CTN_ASSERT(!is_building_ && count > 0 && first_segment + count <= form.segments);
    FlowContext& flow = added(form.index);
    if (!in_flight_.know_space(space)) {
        return;
    }
    (form.uses_reference ? counters_.first : counters_.opens) += count;
    if (first_segment == 0 && form.sets) {
        uses_.clear();
        if (form.uses_reference) {
            use(form.index, flow, form.reference, false);
        }
        set(flow, {form.index, form.statics, form.first}, form.set_reference, !form.uses_reference);
        in_flight_.record(space, first_sequence, 1, now, uses_, {});
        ++first_sequence;
        --count;
    }
    while (count > 0) {
        const uint32_t part = std::min(count, kMaxRecordDatagrams);
        uses_.clear();
        if (form.uses_reference) {
            use(form.index, flow, form.reference, false);
        }
        in_flight_.record(space, first_sequence, part, now, uses_, {});
        first_sequence += part;
        count -= part;
    }
    uses_.clear();
    if (!form.uses_reference && !form.sets && flow.is_open) {
        flow.is_mismatched = !(flow.statics == form.statics);
    }
    flow.last_payload_bytes = form.first.payload_bytes;
}

}  // namespace continuo::elision
