#include "common/elision/encoder.hpp"

#include "common/elision/format.hpp"

namespace continuo::elision {

Encoder::Encoder(packet::NodeSide side, Duration skew, base::MemoryBudget* memory)
    : side_(side), memory_(memory), in_flight_(flows_, memory) {
    in_flight_.set_skew(skew);
}

bool Encoder::add_flow(uint32_t index, const OpenInfo& info) {
    if (index > kMaxFlowIndex) {
        return false;
    }
    remove_flow(index);
    if (!flows_.has_page(index) && !memory_.take(flows_.page_bytes())) {
        return false;
    }
    FlowContext& flow = flows_.make(index);
    flow.is_added = true;
    flow.app = info.app;
    flow.continues = info.continues;
    return true;
}

// Users and what is known of dead ones stay: they belong to the index.
void Encoder::remove_flow(uint32_t index) {
    if (FlowContext* flow = flows_.find(index)) {
        flow->is_added = false;
        flow->is_open = false;
        flow->is_set_pending = false;
        flow->is_mismatched = false;
    }
}

bool Encoder::has_flow(uint32_t index) const {
    const FlowContext* flow = flows_.find(index);
    return flow != nullptr && flow->is_added;
}

FlowContext& Encoder::added(uint32_t index) {
    FlowContext* flow = flows_.find(index);
    CTN_ASSERT(flow != nullptr && flow->is_added);
    return *flow;
}

void Encoder::begin_datagram(uint16_t space, uint64_t sequence, TimePoint now, Setting setting) {
    CTN_ASSERT(!is_building_);
    is_building_ = true;
    now_ = now;
    space_ = space;
    sequence_ = sequence;
    entries_ = 0;
    is_stateful_ = false;
    has_set_ = false;
    uses_.clear();
    frame_uses_ = 0;
    floors_.clear();
    may_use_ = in_flight_.know_space(space) && !in_flight_.is_silent(now);
    may_set_ = may_use_ && setting == Setting::Allowed;
    floor_version_ = in_flight_.floor_version();
    if (wants_floor_ && may_set_ && in_flight_.make_room(1, 0)) {
        in_flight_.copy_floors(floors_);
        wants_floor_ = false;
    }
    begin_section();
}

void Encoder::begin_section() {
    section_.clear();
    section_is_full_ = false;
    last_length_ = {};
}

// A position is trusted only if the list has the flow there, so it needs no clearing.
Encoder::FlowPacket* Encoder::latest_in_section(uint32_t index, const FlowContext& flow) {
    const size_t position = flow.section_position;
    return position < section_.size() && section_[position].index == index ? &section_[position]
                                                                           : nullptr;
}

bool Encoder::has_floor_for(const FlowContext& flow, uint32_t reference) {
    return !flow.had_dead_user(reference) || !in_flight_.has_floors() ||
           (!floors_.empty() && floor_version_ == in_flight_.floor_version());
}

// Rule 2 for one reference, and rule 4.
bool Encoder::may_set(const FlowContext& flow, uint32_t reference, bool wanted) {
    if (!wanted || !may_set_ || flow.is_set_pending || flow.users[reference] != 0) {
        return false;
    }
    if (!has_floor_for(flow, reference)) {
        wants_floor_ = floors_.empty() && !in_flight_.has_carrier();
        ++counters_.postponed_sets;
        return false;
    }
    return true;
}

// An OPEN with SET replaces statics and both references. A flow that is open is opened anew only
// when its statics have changed for more than one packet.
bool Encoder::may_open(const FlowContext& flow, const FlowStatics& statics) {
    const bool wanted = !flow.is_open || (flow.is_mismatched && !(flow.statics == statics));
    return flow.users[1] == 0 && may_set(flow, 1, wanted) && may_set(flow, 0, wanted) &&
           in_flight_.make_room(2, uses_.size() + 1);
}

bool Encoder::may_refer(const FlowContext& flow, const FlowStatics& statics) {
    return flow.is_open && may_use_ && flow.statics == statics &&
           flow.users[flow.current ? 1 : 0] != UINT16_MAX &&
           in_flight_.make_room(2, uses_.size() + 2);
}

bool Encoder::append(uint32_t index,
                     const HeaderFields& fields,
                     ByteView payload,
                     Extent extent,
                     ByteWriter& writer) {
    CTN_ASSERT(is_building_ && !section_is_full_);
    FlowContext& flow = added(index);
    const size_t start = writer.size();
    if (entries_ == kMaxEntries || payload.size() > kMaxPacketBytes) {
        return false;
    }
    const FlowPacket packet{index, statics_of(fields, side_), values_of(fields, payload.size())};
    FlowPacket* before = latest_in_section(index, flow);
    Draft entry;
    draft(entry, packet, flow, before, extent == Extent::ToEnd);
    const size_t head_bytes = entry.entry.size;
    const MutableByteView place =
        writer.ok() ? writer.reserve(head_bytes + payload.size()) : MutableByteView{};
    if (place.empty()) {
        writer.rewind(start);
        return false;
    }
    std::memcpy(place.data(), entry.entry.bytes.data(), head_bytes);
    if (!payload.empty()) {
        std::memcpy(place.data() + head_bytes, payload.data(), payload.size());
    }
    note(entry, packet, flow, before);
    section_is_full_ = extent == Extent::ToEnd;
    last_length_ = {};
    if (extent == Extent::Counted && entry.entry.length_bytes > 0) {
        const bool is_open = entry.form == Form::Open;
        last_length_ = {
            start + entry.entry.length_at, entry.entry.length_bytes, start + entry.entry.bits_at,
            is_open ? uint8_t{0} : to_end_change(packet.statics, entry.form == Form::Later)};
    }
    return true;
}

void Encoder::draft(Draft& draft,
                    const FlowPacket& packet,
                    FlowContext& flow,
                    const FlowPacket* before,
                    bool to_end) {
    if (before != nullptr && before->statics == packet.statics &&
        write_later(draft.entry, packet.index, packet.statics, packet.values, before->values,
                    to_end)) {
        draft.form = Form::Later;
        return;
    }
    draft.entry.size = 0;
    if (before == nullptr && may_refer(flow, packet.statics)) {
        draft_first(draft, packet, flow, to_end);
        return;
    }
    draft.form = Form::Open;
    draft.sets = before == nullptr && may_open(flow, packet.statics);
    write_open(draft.entry, packet.index, packet.statics, packet.values, {flow.app, flow.continues},
               draft.sets, OpenForm::Packet, to_end ? LengthCode::ToEnd : LengthCode::Counted);
}

void Encoder::draft_first(Draft& draft, const FlowPacket& packet, FlowContext& flow, bool to_end) {
    const uint32_t reference = flow.current ? 1 : 0;
    const PacketValues& values = packet.values;
    const PacketValues& against = flow.references[reference];
    FirstBits bits = first_bits(packet.statics, values, against);
    // A new length gets a reference when it comes a second time.
    const bool new_length = !packet.statics.is_tcp() &&
                            values.payload_bytes != against.payload_bytes &&
                            values.payload_bytes == flow.last_payload_bytes;
    draft.form = Form::First;
    draft.sets = may_set(flow, 1 - reference, bits.wants_set || new_length);
    add_length(packet.statics, first_length(packet.statics, values, against, to_end), bits);
    if (draft.sets) {
        add_set(packet.statics, bits);
    }
    write_first(draft.entry, packet.index, reference, packet.statics, values, bits);
}

void Encoder::note(const Draft& draft,
                   const FlowPacket& packet,
                   FlowContext& flow,
                   FlowPacket* before) {
    ++entries_;
    is_stateful_ = true;
    if (before != nullptr) {
        *before = packet;
    } else {
        flow.section_position = static_cast<uint16_t>(section_.size());
        section_.push_back(packet);
    }
    switch (draft.form) {
    case Form::Later:
        ++counters_.later;
        break;
    case Form::First: {
        const uint32_t reference = flow.current ? 1 : 0;
        ++counters_.first;
        flow.is_mismatched = false;
        use(packet.index, flow, reference, false);
        if (draft.sets) {
            set(flow, packet, 1 - reference, false);
        }
        break;
    }
    case Form::Open:
        ++counters_.opens;
        counters_.unrecorded += in_flight_.make_room(2, uses_.size() + 1) ? 0U : 1U;
        if (draft.sets) {
            set(flow, packet, 0, true);
        } else if (flow.is_open) {
            flow.is_mismatched = !(flow.statics == packet.statics);
        }
        break;
    }
    flow.last_payload_bytes = packet.values.payload_bytes;
}

void Encoder::set(FlowContext& flow, const FlowPacket& packet, uint32_t reference, bool opens) {
    if (opens) {
        flow.statics = packet.statics;
        flow.is_open = false;
        flow.is_mismatched = false;
    }
    flow.references[reference] = packet.values;
    flow.is_set_pending = true;
    has_set_ = true;
    ++counters_.sets;
    use(packet.index, flow, reference, true);
}

void Encoder::use(uint32_t index, FlowContext& flow, uint32_t reference, bool sets) {
    ++flow.users[reference];
    uses_.push_back({index & 0xFFFFU, reference & 1U, sets ? 1U : 0U});
}

bool Encoder::append_context(uint32_t index, const HeaderFields& fields, ByteWriter& writer) {
    CTN_ASSERT(is_building_ && !section_is_full_);
    FlowContext& flow = added(index);
    const FlowPacket packet{index, statics_of(fields, side_), values_of(fields, 0)};
    FlowPacket* before = latest_in_section(index, flow);
    Draft entry;
    entry.sets = before == nullptr && may_open(flow, packet.statics);
    write_open(entry.entry, index, packet.statics, packet.values, {flow.app, flow.continues},
               entry.sets, OpenForm::Context, LengthCode::Implied);
    if (entries_ == kMaxEntries || !writer.ok() || writer.room() < entry.entry.size) {
        return false;
    }
    writer.bytes(entry.entry.view());
    note(entry, packet, flow, before);
    last_length_ = {};
    return true;
}

bool Encoder::is_opening(uint32_t index) const {
    const FlowContext* flow = flows_.find(index);
    return flow != nullptr && flow->is_added && (flow->is_open || flow->is_set_pending);
}

void write_whole_entry(ByteView packet, ByteWriter& writer) {
    writer.u8(head::kSpecial);
    writer.u8(subtype::kWhole);
    writer.varint(packet.size());
    writer.bytes(packet);
}

bool Encoder::append_whole(ByteView packet, ByteWriter& writer) {
    CTN_ASSERT(is_building_ && !section_is_full_);
    const size_t start = writer.size();
    if (entries_ == kMaxEntries || packet.empty() || packet.size() > kMaxPacketBytes ||
        !writer.ok()) {
        return false;
    }
    write_whole_entry(packet, writer);
    if (!writer.ok()) {
        writer.rewind(start);
        return false;
    }
    ++entries_;
    ++counters_.whole;
    last_length_ = {};
    return true;
}

void Encoder::close_section(ByteWriter& writer) {
    const size_t left = last_length_.change == 0 ? 1 : 0;
    if (last_length_.bytes > left) {
        const MutableByteView written = writer.written();
        const size_t from = last_length_.at + last_length_.bytes;
        if (left == 0) {
            written[last_length_.bits_at] ^= last_length_.change;
        } else {
            written[last_length_.at] = 0;
        }
        std::memmove(written.data() + last_length_.at + left, written.data() + from,
                     written.size() - from);
        writer.rewind(written.size() - (last_length_.bytes - left));
    }
    last_length_ = {};
    section_is_full_ = true;
}

void Encoder::count_user(uint32_t index) {
    CTN_ASSERT(is_building_ && entries_ == 0);
    FlowContext* flow = flows_.find(index);
    if (flow == nullptr || !may_use_ || !in_flight_.make_room(2, uses_.size() + 2)) {
        return;
    }
    use(index, *flow, 0, false);
    use(index, *flow, 1, false);
    frame_uses_ = uses_.size();
}

DatagramSummary Encoder::end_datagram(uint32_t datagrams) {
    CTN_ASSERT(is_building_ && (datagrams == 1 || !has_set_));
    is_building_ = false;
    is_stateful_ = is_stateful_ || !floors_.empty();
    if (is_stateful_ || !uses_.empty()) {
        in_flight_.record(space_, sequence_, datagrams, now_, uses_, floors_);
    } else {
        in_flight_.count_sent(space_, sequence_, datagrams);
    }
    uses_.clear();
    floors_.clear();
    return {is_stateful_, has_set_, entries_};
}

void Encoder::undo_uses(size_t kept) {
    for (size_t i = kept; i < uses_.size(); ++i) {
        const Use& use = uses_[i];
        FlowContext* flow = flows_.find(use.index);
        CTN_ASSERT(flow != nullptr);
        --flow->users[use.reference];
        if (use.sets != 0) {
            flow->is_set_pending = false;
        }
    }
    uses_.resize(kept);
}

void Encoder::abort_datagram() {
    CTN_ASSERT(is_building_);
    is_building_ = false;
    undo_uses(0);
    wants_floor_ = wants_floor_ || !floors_.empty();
    floors_.clear();
    section_.clear();
}

void Encoder::retry_datagram() {
    CTN_ASSERT(is_building_);
    undo_uses(frame_uses_);
    entries_ = 0;
    is_stateful_ = false;
    has_set_ = false;
    begin_section();
}

size_t Encoder::max_entry_bytes(uint32_t index) const {
    const FlowContext* flow = flows_.find(index);
    return flow != nullptr && flow->is_open && may_use_ ? kMaxElidedBytes : kMaxOpenBytes;
}

bool Encoder::on_acknowledged(uint16_t space, uint64_t first, uint64_t last, TimePoint now) {
    return in_flight_.acknowledge(space, first, last, now);
}

void Encoder::on_time(TimePoint now) {
    if (is_building_ || !in_flight_.is_idle(now)) {
        return;
    }
    in_flight_.release_memory();
    std::vector<FlowPacket>().swap(section_);
    std::vector<Use>().swap(uses_);
    std::vector<Floor>().swap(floors_);
}

}  // namespace continuo::elision
