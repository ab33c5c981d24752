#include "common/elision/decoder.hpp"

#include "common/elision/entry_reader.hpp"
#include "common/elision/format.hpp"

#include <algorithm>

namespace continuo::elision {

using base::ByteReader;
using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr Error kTruncatedEntry{Errc::Truncated, "packet entry"};
constexpr Error kBadBits{Errc::Malformed, "bits of a packet entry"};
constexpr Error kBadValue{Errc::Malformed, "value in a packet entry"};
constexpr Error kNoContext{Errc::NotFound, "flow context"};
constexpr Error kTooMany{Errc::LimitReached, "entries in a datagram"};
constexpr Error kUnknownKind{Errc::Unsupported, "kind of a flow"};
constexpr Error kTooLong{Errc::Malformed, "length of a packet"};

}  // namespace

DecodeScratch::DecodeScratch()
    : entries_(std::make_unique<DecodedEntry[]>(kMaxEntries))
    , details_(std::make_unique<Detail[]>(kMaxEntries))
    , latest_(std::make_unique<uint16_t[]>(kMaxFlowIndex + 1)) {
    changes_.reserve(kMaxEntries);
    floors_.reserve(kMaxSpaces);
}

Decoder::Decoder(packet::NodeSide side,
                 DecodeScratch& scratch,
                 uint32_t index_limit,
                 base::MemoryBudget* memory)
    : side_(side)
    , scratch_(scratch)
    , memory_(memory)
    , index_limit_(std::min(index_limit, kMaxFlowIndex + 1)) {}

void Decoder::begin(uint16_t space, uint64_t sequence) {
    rollback();
    space_ = space;
    sequence_ = sequence;
    const auto floor = std::find_if(floors_.begin(), floors_.end(),
                                    [space](const Floor& known) { return known.space == space; });
    is_below_floor_ = floor != floors_.end() && sequence < floor->sequence;
}

bool Decoder::apply_floor(uint16_t space, uint64_t sequence) {
    if ((space == space_ && sequence > sequence_) || scratch_.floors_.size() == kMaxSpaces) {
        return false;
    }
    const bool is_known = std::any_of(floors_.begin(), floors_.end(),
                                      [space](const Floor& known) { return known.space == space; });
    if (!is_known && floors_.size() + scratch_.floors_.size() >= kMaxSpaces) {
        return false;
    }
    scratch_.floors_.push_back({space, sequence});
    return true;
}

Result<void> Decoder::decode_section(ByteView content) {
    section_first_ = entry_count_;
    ByteReader reader(content);
    while (!reader.at_end()) {
        if (const Error* error = decode_entry(reader)) {
            return *error;
        }
    }
    return {};
}

// The list of latest entries is not cleared: an item is checked against the entries of the
// section.
uint32_t Decoder::latest(uint32_t index) const {
    const uint32_t entry = scratch_.latest_[index];
    return entry >= section_first_ && entry < entry_count_ &&
                   scratch_.entries_[entry].index == index &&
                   scratch_.entries_[entry].kind != EntryKind::Whole
               ? entry
               : kNone;
}

const Error* Decoder::decode_entry(ByteReader& reader) {
    if (entry_count_ == kMaxEntries) {
        return &kTooMany;
    }
    const uint8_t first = reader.u8();
    uint64_t index = first & head::kIndex;
    if (index == head::kSpecial) {
        const uint8_t kind = reader.u8();
        if (!reader.ok()) {
            return &kTruncatedEntry;
        }
        if (first != head::kSpecial) {
            return &kBadBits;
        }
        if (kind == subtype::kWhole) {
            return decode_whole(reader);
        }
        return (kind & subtype::kOpen) != 0 ? decode_open(reader, kind) : &kBadBits;
    }
    if (index == head::kLongIndex) {
        index += std::min<uint64_t>(reader.varint(), kMaxFlowIndex);
        if (!reader.ok()) {
            return &kTruncatedEntry;
        }
    }
    if (index >= index_limit_) {
        return &kBadValue;
    }
    const auto flow = static_cast<uint32_t>(index);
    const uint32_t before = entry_count_ == section_first_ ? kNone : latest(flow);
    return before == kNone ? decode_first(reader, first, flow)
                           : decode_later(reader, first, before);
}

const Error* Decoder::decode_whole(ByteReader& reader) {
    const size_t length = read_length(reader);
    const ByteView packet = reader.bytes(length);
    if (!reader.ok() || packet.empty()) {
        return &kTruncatedEntry;
    }
    DecodedEntry& entry = scratch_.entries_[entry_count_++];
    entry.kind = EntryKind::Whole;
    entry.index = 0;
    entry.payload = packet;
    return nullptr;
}

const Error* Decoder::decode_first(ByteReader& reader, uint8_t first, uint32_t index) {
    const Context* flow = flows_.find(index);
    const size_t reference = (first & head::kReference) != 0 ? 1 : 0;
    if (flow == nullptr || !flow->is_valid[reference]) {
        return &kNoContext;
    }
    const FlowStatics& statics = flow->statics;
    DecodeScratch::Detail& detail = scratch_.details_[entry_count_];
    detail.statics = &statics;
    detail.values = flow->references[reference];
    scratch_.entries_[entry_count_].open = flow->open;
    const uint8_t mask = (first & head::kMask) != 0 ? reader.u8() : uint8_t{0};
    FirstEntry entry;
    if (statics.is_tcp()) {
        const uint8_t extra = (mask & tcp::kExtension) != 0 ? reader.u8() : uint8_t{0};
        if ((first & head::kMask) == 0 || !is_valid_tcp(statics, mask, extra)) {
            return &kBadBits;
        }
        read_first_tcp(reader, statics, mask, extra, detail.values, entry);
    } else {
        if (!is_valid_plain(statics, mask)) {
            return &kBadBits;
        }
        read_first_plain(reader, statics, mask, detail.values, entry);
    }
    if (entry.sets) {
        scratch_.changes_.push_back(
            {static_cast<uint16_t>(entry_count_), static_cast<uint8_t>(1 - reference), false});
    }
    return finish(reader, index, entry.to_end ? reader.remaining() : entry.payload_bytes,
                  EntryKind::Elided);
}

const Error* Decoder::decode_later(ByteReader& reader, uint8_t first, uint32_t before) {
    const DecodeScratch::Detail& previous = scratch_.details_[before];
    const FlowStatics& statics = *previous.statics;
    const uint8_t mask = (first & head::kMask) != 0 ? reader.u8() : uint8_t{0};
    if ((first & head::kReference) != 0 || !is_valid_later(statics, mask)) {
        return &kBadBits;
    }
    DecodeScratch::Detail& detail = scratch_.details_[entry_count_];
    detail.statics = previous.statics;
    scratch_.entries_[entry_count_].open = scratch_.entries_[before].open;
    PacketValues& values = detail.values;
    values = previous.values;
    size_t payload_bytes = values.payload_bytes;
    if ((mask & later::kLength) != 0) {
        payload_bytes = read_length(reader);
    }
    if (!statics.is_v6()) {
        values.ip_id =
            (mask & later::kId2) != 0 ? reader.u16() : static_cast<uint16_t>(values.ip_id + 1);
    }
    if (statics.is_tcp()) {
        values.sequence += values.payload_bytes;
        read_later_tcp(reader, mask, values);
    } else if (statics.is_echo()) {
        values.sequence = (mask & later::kSequence) != 0
                              ? reader.u16()
                              : static_cast<uint16_t>(values.sequence + 1);
    }
    if ((mask & later::kToEnd) != 0) {
        payload_bytes = reader.remaining();
    }
    return finish(reader, scratch_.entries_[before].index, payload_bytes, EntryKind::Elided);
}

const Error* Decoder::read_template(ByteReader& reader, uint8_t kind_bits) {
    DecodeScratch::Detail& detail = scratch_.details_[entry_count_];
    const uint64_t index = reader.varint();
    const uint16_t port = reader.u16();
    if (!reader.ok()) {
        return &kTruncatedEntry;
    }
    const Context* model =
        index < index_limit_ ? flows_.find(static_cast<uint32_t>(index)) : nullptr;
    if (model == nullptr || !model->is_open) {
        return &kNoContext;
    }
    const uint32_t kind = kind_bits >> subtype::kKindShift;
    const bool same_source = (kind_bits & subtype::kSameSourcePort) != 0;
    if ((model->statics.traits & 0x0FU) != kind || (model->statics.is_echo() && same_source)) {
        return &kBadBits;
    }
    detail.opened = model->statics;
    (same_source ? detail.opened.destination_port : detail.opened.source_port) = port;
    detail.values.tos = model->tos;
    detail.values.ttl = model->ttl;
    scratch_.entries_[entry_count_].open = {model->open.app, false};
    return nullptr;
}

const Error* Decoder::decode_open(ByteReader& reader, uint8_t kind_bits) {
    DecodeScratch::Detail& detail = scratch_.details_[entry_count_];
    const uint64_t index = reader.varint();
    if (reader.ok() && index >= index_limit_) {
        return &kBadValue;
    }
    const auto kind = static_cast<uint8_t>(kind_bits >> subtype::kKindShift);
    if (!is_known_kind(kind)) {
        return &kUnknownKind;
    }
    detail.opened = FlowStatics{};
    detail.values = PacketValues{};
    detail.statics = &detail.opened;
    if ((kind_bits & subtype::kTemplate) != 0) {
        if (const Error* error = read_template(reader, kind_bits)) {
            return error;
        }
    } else {
        detail.opened.traits = kind;
        if (!read_statics(reader, detail.opened, detail.values,
                          scratch_.entries_[entry_count_].open)) {
            return &kBadValue;
        }
    }
    const bool is_context =
        (kind_bits & subtype::kTemplate) == 0 && (kind_bits & subtype::kContext) != 0;
    const uint64_t coded_length = is_context ? 1 : reader.varint();
    read_opened_values(reader, detail.opened, detail.values);
    if (!reader.ok()) {
        return &kTruncatedEntry;
    }
    if ((kind_bits & subtype::kSet) != 0) {
        scratch_.changes_.push_back({static_cast<uint16_t>(entry_count_), 0, true});
    }
    const size_t payload_bytes =
        coded_length == 0 ? reader.remaining()
                          : static_cast<size_t>(std::min<uint64_t>(coded_length - 1, SIZE_MAX));
    return finish(reader, static_cast<uint32_t>(index), payload_bytes,
                  is_context ? EntryKind::Context : EntryKind::Opened);
}

const Error*
Decoder::finish(ByteReader& reader, uint32_t index, size_t payload_bytes, EntryKind kind) {
    DecodedEntry& entry = scratch_.entries_[entry_count_];
    DecodeScratch::Detail& detail = scratch_.details_[entry_count_];
    entry.payload = reader.bytes(payload_bytes);
    if (!reader.ok()) {
        return &kTruncatedEntry;
    }
    if (payload_bytes > kMaxPacketBytes - header_bytes(*detail.statics)) {
        return &kTooLong;
    }
    detail.values.payload_bytes = static_cast<uint16_t>(payload_bytes);
    entry.kind = kind;
    entry.index = index;
    restore_fields(*detail.statics, detail.values, side_, entry.fields);
    if (!reader.at_end()) {
        scratch_.latest_[index] = static_cast<uint16_t>(entry_count_);
    }
    ++entry_count_;
    is_stateful_ = true;
    return nullptr;
}

bool Decoder::commit() {
    is_stateful_ = is_stateful_ || !scratch_.floors_.empty();
    for (const Floor& floor : scratch_.floors_) {
        const auto known = std::find_if(floors_.begin(), floors_.end(), [&floor](const Floor& f) {
            return f.space == floor.space;
        });
        if (known == floors_.end()) {
            floors_.push_back(floor);
        } else {
            known->sequence = std::max(known->sequence, floor.sequence);
        }
    }
    is_short_of_memory_ = false;
    for (const DecodeScratch::Change& change : scratch_.changes_) {
        apply(change);
    }
    scratch_.floors_.clear();
    scratch_.changes_.clear();
    return is_stateful_;
}

bool Decoder::make_room(uint32_t index) {
    constexpr size_t kPage = PagedTable<Context>::page_bytes();
    return flows_.has_page(index) ||
           (memory_.bytes() + kPage <= kMaxContextBytes && memory_.take(kPage));
}

void Decoder::apply(const DecodeScratch::Change& change) {
    const DecodedEntry& entry = scratch_.entries_[change.entry];
    if (!make_room(entry.index)) {
        is_short_of_memory_ = true;
        return;
    }
    const DecodeScratch::Detail& detail = scratch_.details_[change.entry];
    Context& flow = flows_.make(entry.index);
    if (change.opens) {
        flow.statics = detail.opened;
        flow.open = entry.open;
        flow.tos = detail.values.tos;
        flow.ttl = detail.values.ttl;
        flow.is_open = true;
        flow.is_valid = {};
    }
    flow.references[change.reference] = detail.values;
    flow.is_valid[change.reference] = true;
}

void Decoder::rollback() {
    scratch_.floors_.clear();
    scratch_.changes_.clear();
    entry_count_ = 0;
    section_first_ = 0;
    is_stateful_ = false;
}

void Decoder::remove_flow(uint32_t index) {
    if (Context* flow = flows_.find(index)) {
        flow->is_valid = {};
        flow->is_open = false;
    }
}

bool Decoder::has_flow(uint32_t index) const {
    const Context* flow = flows_.find(index);
    return flow != nullptr && flow->is_open;
}

base::DropReason drop_reason(const Error& error) {
    return error.code == Errc::NotFound ? base::DropReason::UnknownReference
                                        : base::DropReason::BadBody;
}

}  // namespace continuo::elision
