#include "common/receiving/body_decoder.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::receiving {

using base::ByteView;
using base::DropReason;
using base::MutableByteView;
using base::TimePoint;
using crypto::ReplayVerdict;
using path::Role;
using session::EpochState;
using session::kDecompressArenaBytes;
using session::SessionCore;
using session::space_slot;

namespace {

// A copy has the class and lane of its original. It takes another path, or comes later.
bool is_copy_allowed(const Opened& opened, const wire::Copy& copy) {
    return copy.space.lane == opened.header.lane &&
           copy.space.traffic_class == opened.header.traffic_class &&
           (copy.space.path != opened.header.path || copy.sequence < opened.sequence);
}

// Whether the packets of this aggregate came before, as the original or as a copy. A void original
// brought none; below its window nothing is known, so it counts as delivered.
bool is_delivered(const Opened& opened, const std::optional<wire::Copy>& copy) {
    const EpochState& epoch = *opened.epoch;
    if (!copy) {
        // The replay window already holds the number: only a copy can have come earlier.
        const crypto::ReplayWindow& copied = epoch.copied[space_slot(opened.header.space_number())];
        return copied.next() > 0 && opened.sequence < copied.next() && copied.has(opened.sequence);
    }
    const size_t slot = space_slot(wire::space_number(copy->space));
    const auto original = epoch.windows[slot].check(copy->sequence);
    const bool was_void = original == ReplayVerdict::Duplicate &&
                          epoch.voided[slot].check(copy->sequence) == ReplayVerdict::Duplicate;
    return (original != ReplayVerdict::Fresh && !was_void) ||
           epoch.copied[slot].has(copy->sequence);
}

}  // namespace

BodyDecoder::BodyDecoder(SessionCore& core)
    : settings_(core.settings)
    , scratch_(core.scratch)
    , drops_(core.drops)
    , reassembly_(core.drops) {}

bool BodyDecoder::decode(const Opened& opened, BodyFacts& facts, TimePoint now) {
    const uint32_t outer = opened.outer_bytes();
    expansion_.earn(outer, now);
    paid_bytes_ = outer;  // bytes carried as they are need no budget
    arena_used_ = 0;
    opened.epoch->decoder.begin(opened.header.space_number(), opened.sequence);
    if (!decode_items(opened, facts, now)) {
        opened.epoch->decoder.rollback();
        return false;
    }
    facts.is_urgent = facts.is_urgent || opened.epoch->decoder.has_set();
    return true;
}

bool BodyDecoder::decode_items(const Opened& opened, BodyFacts& facts, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    scratch_.frames.clear();
    // Nothing may be applied from a body that turns out to be malformed further on.
    if (!wire::is_single_section(opened.body) && !wire::check_body(opened.body)) {
        drops_.add(DropReason::BadBody);
        return false;
    }
    wire::BodyReader reader(opened.body);
    wire::BodyItem item;
    size_t section_bytes = 0;
    for (;;) {
        const auto more = reader.next(item);
        if (!more) {
            drops_.add(DropReason::BadBody);
            return false;
        }
        if (!*more) {
            break;
        }
        if (const auto* section = std::get_if<wire::Section>(&item)) {
            section_bytes += section->content.size();
            if (epoch.decoder.is_below_floor()) {
                drops_.add(DropReason::BelowFloor);
                return false;
            }
            if (!decode_section(epoch, *section, now)) {
                return false;
            }
        } else if (!take_frame(opened, item, facts)) {
            drops_.add(DropReason::BadBody);
            return false;
        }
    }
    facts.is_delivered = is_delivered(opened, facts.copy);
    if (!facts.is_delivered && !decode_fragments(opened, section_bytes, facts, now)) {
        return false;
    }
    if (facts.copy && epoch.decoder.has_set()) {
        drops_.add(DropReason::BadBody);  // a copy must not set contexts
        return false;
    }
    return facts.is_delivered || pays_for_packets(opened, now);
}

// Returns false if the body is void.
bool BodyDecoder::take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts) {
    if (const auto* copy = std::get_if<wire::Copy>(&item)) {
        facts.copy = *copy;
        return is_copy_allowed(opened, *copy);
    }
    if (const auto* floor = std::get_if<wire::Floor>(&item)) {
        facts.is_urgent = true;
        return opened.epoch->decoder.apply_floor(wire::space_number(floor->space), floor->sequence);
    }
    if (const auto* order = std::get_if<wire::Order>(&item)) {
        facts.order = *order;
        return true;
    }
    if (std::holds_alternative<wire::Ping>(item)) {
        facts.has_ping = true;
        return true;
    }
    scratch_.frames.push_back(item);
    return true;
}

// Pieces are applied only when the whole body is valid. A completed entry is copied: one body may
// complete several. Pieces and sections share the datagram's outer bytes by length.
bool BodyDecoder::decode_fragments(const Opened& opened,
                                   size_t section_bytes,
                                   BodyFacts& facts,
                                   TimePoint now) {
    const uint64_t outer = opened.outer_bytes();
    size_t all_bytes = section_bytes;
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        all_bytes += fragment != nullptr ? fragment->piece.size() : 0;
    }
    size_t taken_bytes = 0;
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        if (fragment == nullptr) {
            continue;
        }
        taken_bytes += fragment->piece.size();
        const auto until = static_cast<uint32_t>(outer * taken_bytes / all_bytes);
        const uint32_t share = until - facts.pieces_outer_bytes;
        facts.pieces_outer_bytes = until;
        const auto whole = reassembly_.add(opened.header.traffic_class, *fragment, share, now);
        paid_bytes_ -= fragment->piece.size();  // they pay for the packet when it is complete
        if (!whole) {
            continue;
        }
        paid_bytes_ += whole->entry.size();
        if (whole->entry.size() > kDecompressArenaBytes - arena_used_) {
            drops_.add(DropReason::ReassemblyLimit);
            return false;
        }
        const MutableByteView copy(scratch_.decompressed.get() + arena_used_, whole->entry.size());
        std::memcpy(copy.data(), whole->entry.data(), copy.size());
        arena_used_ += copy.size();
        facts.split_outer_bytes += whole->outer_bytes;
        if (const auto decoded = opened.epoch->decoder.decode_section(copy); !decoded) {
            drops_.add(elision::drop_reason(decoded.error()));
            return false;
        }
    }
    return true;
}

// Inflates a compressed section behind the bytes already in the arena. Its size is known only
// afterwards: so a body is inflated as a whole and then paid for, or not at all while the budget is
// used up. A section that fails costs the room that there was. Empty: the body is void.
ByteView BodyDecoder::inflate(ByteView content, TimePoint now) {
    const bool is_first = arena_used_ == 0;
    if (settings_.role == Role::Snapt && is_first && expansion_.left_bytes(now) == 0) {
        drops_.add(DropReason::InflationLimit);
        return {};
    }
    const size_t room =
        std::min(kDecompressArenaBytes - arena_used_, wire::kDefaultSectionOutputBytes);
    const MutableByteView output(scratch_.decompressed.get() + arena_used_, room);
    const auto plain = scratch_.codec.decompress(content, output);
    const size_t cost = plain ? *plain : room;
    expansion_.charge(cost, now);
    paid_bytes_ += cost;
    if (!plain || cost == 0) {
        drops_.add(DropReason::DecompressFailed);
        return {};
    }
    return output.first(cost);
}

bool BodyDecoder::decode_section(EpochState& epoch, const wire::Section& section, TimePoint now) {
    ByteView content = section.content;
    if (section.head.mode == wire::SectionMode::Zstd) {
        if (section.head.generation != 0) {
            drops_.add(DropReason::UnknownReference);  // never confirmed, so the sender must not
                                                       // have used it
            return false;
        }
        content = inflate(content, now);
        if (content.empty()) {
            return false;
        }
        arena_used_ += content.size();
    }
    if (const auto decoded = epoch.decoder.decode_section(content); !decoded) {
        drops_.add(elision::drop_reason(decoded.error()));
        return false;
    }
    return true;
}

// Charges the packets of the datagram to the session's expansion budget. As many bytes as were
// received are free, and compressed sections are already paid for. False: the budget is used up.
// The body is then void, so that the sender and the resequencer know that nothing was delivered.
bool BodyDecoder::pays_for_packets(const Opened& opened, TimePoint now) {
    if (settings_.role != Role::Snapt) {
        return true;
    }
    size_t inner = 0;
    for (const elision::DecodedEntry& entry : opened.epoch->decoder.entries()) {
        inner += inner_bytes(entry);
    }
    if (expansion_.spend(inner - std::min(paid_bytes_, inner), now)) {
        return true;
    }
    drops_.add(DropReason::InflationLimit);
    return false;
}

}  // namespace continuo::receiving
