#include "common/session/body_decoder.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::session {

using base::ByteView;
using base::DropReason;
using base::MutableByteView;
using base::TimePoint;
using crypto::ReplayVerdict;

// Parses the whole body and decodes its sections against the state before it. Changes nothing but
// the decoder's draft.
bool BodyDecoder::decode(const Opened& opened, BodyFacts& facts, TimePoint now) {
    EpochState& epoch = *opened.epoch;
    earlier_outer_bytes_ = 0;
    scratch_.frames.clear();
    // Nothing may be taken over from a body that turns out to be malformed further on.
    if (!wire::is_single_section(opened.body) && !wire::check_body(opened.body)) {
        drops_.add(DropReason::BadBody);
        return false;
    }
    wire::BodyReader reader(opened.body);
    wire::BodyItem item;
    size_t arena_used = 0;
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
            if (epoch.decoder.is_below_floor()) {
                drops_.add(DropReason::BelowFloor);
                return false;
            }
            if (!decode_section(epoch, *section, arena_used)) {
                return false;
            }
        } else if (!take_frame(opened, item, facts)) {
            drops_.add(DropReason::BadBody);
            return false;
        }
    }
    const bool is_before = facts.copy && facts.copy->previous_epoch;
    facts.original_epoch = epochs_.numbered(epoch.number - (is_before ? 1U : 0U));
    facts.is_delivered = is_delivered(opened, facts);
    if (!facts.is_delivered && !decode_fragments(opened, arena_used, now)) {
        return false;
    }
    if (facts.copy && epoch.decoder.has_set()) {
        drops_.add(DropReason::BadBody);  // a copy sets nothing
        return false;
    }
    return true;
}

// False: the body is void.
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
    if (scratch_.frames.size() >= kMaxFramesPerDatagram) {
        return false;
    }
    scratch_.frames.push_back(item);
    return true;
}

// A copy is of the same class and lane. It takes another path than what it copies, or comes later:
// numbers of two epochs say nothing about that.
bool BodyDecoder::is_copy_allowed(const Opened& opened, const wire::Copy& copy) {
    return copy.space.lane == opened.header.lane &&
           copy.space.traffic_class == opened.header.traffic_class &&
           (copy.previous_epoch || copy.space.path != opened.header.path ||
            copy.sequence < opened.sequence);
}

// Whether the packets of this aggregate came before, as the original or as a copy. A void original
// brought none; below its window, and of an epoch that has ended, nothing is known, and what came
// counts as delivered.
bool BodyDecoder::is_delivered(const Opened& opened, const BodyFacts& facts) {
    if (facts.original_epoch == nullptr) {
        return true;
    }
    const EpochState& epoch = *facts.original_epoch;
    if (!facts.copy) {
        // The replay window has taken the number in already: only a copy can have been earlier.
        const crypto::ReplayWindow& copied = epoch.copied[space_slot(opened.header.space_number())];
        return copied.next() > 0 && opened.sequence < copied.next() && copied.has(opened.sequence);
    }
    const size_t slot = space_slot(wire::space_number(facts.copy->space));
    const uint32_t number = facts.copy->sequence;
    const auto original = epoch.windows[slot].check(number);
    const bool was_void = original == ReplayVerdict::Duplicate &&
                          epoch.voided[slot].check(number) == ReplayVerdict::Duplicate;
    return (original != ReplayVerdict::Fresh && !was_void) || epoch.copied[slot].has(number);
}

// Pieces are taken over only when the whole body was good. A completed entry is copied: several may
// be in one body.
bool BodyDecoder::decode_fragments(const Opened& opened, size_t& arena_used, TimePoint now) {
    const uint32_t outer = opened.outer_bytes();
    for (const wire::BodyItem& item : scratch_.frames) {
        const auto* fragment = std::get_if<wire::Fragment>(&item);
        if (fragment == nullptr) {
            continue;
        }
        const auto whole = reassembly_.add(opened.header.traffic_class, *fragment, outer, now);
        if (!whole) {
            continue;
        }
        if (whole->entry.size() > kDecompressArenaBytes - arena_used) {
            drops_.add(DropReason::ReassemblyLimit);
            return false;
        }
        const MutableByteView copy(scratch_.decompressed.get() + arena_used, whole->entry.size());
        std::memcpy(copy.data(), whole->entry.data(), copy.size());
        arena_used += copy.size();
        earlier_outer_bytes_ += whole->earlier_outer_bytes;
        if (const auto decoded = opened.epoch->decoder.decode_section(copy); !decoded) {
            drops_.add(elision::drop_reason(decoded.error()));
            return false;
        }
    }
    return true;
}

bool BodyDecoder::decode_section(EpochState& epoch,
                                 const wire::Section& section,
                                 size_t& arena_used) {
    ByteView content = section.content;
    if (section.head.mode == wire::SectionMode::Zstd) {
        if (section.head.generation != 0) {
            // Never confirmed, so the sender must not have used it.
            drops_.add(DropReason::UnknownReference);
            return false;
        }
        const size_t room =
            std::min(kDecompressArenaBytes - arena_used, wire::kDefaultSectionOutputBytes);
        const MutableByteView output(scratch_.decompressed.get() + arena_used, room);
        const auto plain = scratch_.codec.decompress(content, output);
        if (!plain) {
            drops_.add(DropReason::DecompressFailed);
            return false;
        }
        arena_used += *plain;
        content = output.first(*plain);
    }
    if (const auto decoded = epoch.decoder.decode_section(content); !decoded) {
        drops_.add(elision::drop_reason(decoded.error()));
        return false;
    }
    return true;
}

}  // namespace continuo::session
