#include "common/wire/body.hpp"

#include "common/wire/ack_ranges.hpp"
#include "common/wire/frame_fields.hpp"

namespace continuo::wire {

using base::ByteReader;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;
using base::varint_bytes;

namespace {

constexpr uint8_t kLastSection = 0x40;

template <typename Frame>
Result<bool> parse_into(ByteReader& reader, BodyItem& item) {
    item = CTN_TRY(Frame::parse(reader));
    return true;
}

Result<bool> parse_unknown(ByteReader& reader, BodyItem& item) {
    UnknownFrame frame;
    frame.type = reader.u8();
    const uint64_t counted = reader.varint();
    if (!reader.ok() || counted > reader.remaining()) {
        return Error{Errc::Truncated, "unknown frame"};
    }
    frame.content = reader.bytes(static_cast<size_t>(counted));
    item = frame;
    return true;
}

// Slot, generation and length behind the head byte.
size_t tail_bytes(const SectionHead& head) {
    return (head.slot >= kEscapedSlot ? varint_bytes(head.slot - kEscapedSlot) : 0U) +
           (head.mode == SectionMode::Zstd ? 1U : 0U);
}

bool is_allowed(const SectionHead& head) {
    const bool nobodys = head.slot == 0;
    return head.slot < kMaxSlots && !(nobodys && head.mode == SectionMode::RawKept) &&
           !(nobodys && head.generation != 0);
}

}  // namespace

void SectionHead::serialize(ByteWriter& writer, bool last, size_t content_bytes) const {
    CTN_ASSERT(is_allowed(*this));
    const bool escaped = slot >= kEscapedSlot;
    writer.u8(static_cast<uint8_t>((last ? kLastSection : 0U) | static_cast<unsigned>(mode) << 4 |
                                   (escaped ? kEscapedSlot : slot)));
    if (escaped) {
        writer.varint(static_cast<uint64_t>(slot) - kEscapedSlot);
    }
    if (mode == SectionMode::Zstd) {
        writer.u8(generation);
    }
    if (!last) {
        writer.varint(content_bytes);
    }
}

size_t SectionHead::size_last() const {
    return 1 + tail_bytes(*this);
}

size_t SectionHead::size_sized(size_t content_bytes) const {
    return 1 + tail_bytes(*this) + varint_bytes(content_bytes);
}

Result<Section> parse_section(ByteReader& reader) {
    const uint8_t byte = reader.u8();
    if (!reader.ok()) {
        return Error{Errc::Truncated, "section"};
    }
    const unsigned mode = byte >> 4 & 3U;
    if (byte >= kFirstFrameType) {
        return Error{Errc::Malformed, "section"};
    }
    if (mode > static_cast<unsigned>(SectionMode::Zstd)) {
        return Error{Errc::Unsupported, "mode of section"};
    }
    Section section;
    section.head.mode = static_cast<SectionMode>(mode);
    section.last = (byte & kLastSection) != 0;
    uint64_t slot = byte & 0x0FU;
    if (slot == kEscapedSlot) {
        const uint64_t beyond = reader.varint();
        slot = beyond < kMaxSlots ? beyond + kEscapedSlot : kMaxSlots;
    }
    if (section.head.mode == SectionMode::Zstd) {
        section.head.generation = reader.u8();
    }
    const uint64_t content_bytes = section.last ? reader.remaining() : reader.varint();
    if (!reader.ok() || content_bytes == 0 || content_bytes > reader.remaining()) {
        return Error{Errc::Truncated, "content of section"};
    }
    if (slot >= kMaxSlots) {
        return Error{Errc::Malformed, "slot of section"};
    }
    section.head.slot = static_cast<uint16_t>(slot);
    if (!is_allowed(section.head)) {
        return Error{Errc::Malformed, "section of slot 0"};
    }
    section.content = reader.bytes(static_cast<size_t>(content_bytes));
    return section;
}

Result<bool> BodyReader::next(BodyItem& item) {
    if (reader_.at_end()) {
        return false;
    }
    const uint8_t type = reader_.rest()[0];
    if (type < kFirstFrameType) {
        return next_section(item);
    }
    if (++frames_ > kMaxFrames) {
        return Error{Errc::Malformed, "too many frames"};
    }
    return next_frame(type, item);
}

Result<bool> BodyReader::next_ack(BodyItem& item) {
    const Ack ack = CTN_TRY(Ack::parse(reader_));
    ack_ranges_ += AckRangeReader(ack.ranges, ack.highest).left();
    if (ack_ranges_ > kMaxBodyAckRanges) {
        return Error{Errc::Malformed, "too many ranges of ACKs"};
    }
    item = ack;
    return true;
}

Result<bool> BodyReader::next_section(BodyItem& item) {
    phase_ = Phase::Sections;
    item = CTN_TRY(parse_section(reader_));
    return true;
}

Result<bool> BodyReader::next_frame(uint8_t type, BodyItem& item) {
    const bool is_first = phase_ == Phase::First;
    const auto known = static_cast<FrameType>(type);
    if (phase_ == Phase::Sections) {
        // Behind sections only the beginning of a fragmented entry may follow, up to the end.
        if (known != FrameType::Fragment) {
            return Error{Errc::Malformed, "frame behind a section"};
        }
        const Fragment fragment = CTN_TRY(Fragment::parse(reader_));
        if (!fragment.to_end) {
            return Error{Errc::Malformed, "counted fragment behind a section"};
        }
        item = fragment;
        return true;
    }
    phase_ = Phase::Frames;
    switch (known) {
    case FrameType::Pad:
        return parse_into<Pad>(reader_, item);
    case FrameType::Ack:
        return next_ack(item);
    case FrameType::Copy:
        if (!is_first) {
            return Error{Errc::Malformed, "COPY is not the first frame"};
        }
        return parse_into<Copy>(reader_, item);
    case FrameType::Floor:
        return parse_into<Floor>(reader_, item);
    case FrameType::Generation:
        return parse_into<Generation>(reader_, item);
    case FrameType::Confirm:
        return parse_into<Confirm>(reader_, item);
    case FrameType::Refuse:
        return parse_into<Refuse>(reader_, item);
    case FrameType::Fragment:
        return parse_into<Fragment>(reader_, item);
    case FrameType::Challenge:
        return parse_into<Challenge>(reader_, item);
    case FrameType::Response:
        return parse_into<Response>(reader_, item);
    case FrameType::Announce:
        return parse_into<Announce>(reader_, item);
    case FrameType::Ping:
        return parse_into<Ping>(reader_, item);
    case FrameType::Closed:
        return parse_into<Closed>(reader_, item);
    case FrameType::Caps:
        return parse_into<Caps>(reader_, item);
    case FrameType::Close:
        return parse_into<Close>(reader_, item);
    case FrameType::Order:
        return parse_into<Order>(reader_, item);
    }
    if (type >= kFirstSkippableType && type < kFirstReservedType) {
        return parse_unknown(reader_, item);
    }
    return Error{Errc::Malformed, "unknown frame type"};
}

Result<BodySummary> check_body(base::ByteView body) {
    BodySummary summary;
    BodyReader reader(body);
    BodyItem item;
    base::ByteView rest = body;
    while (CTN_TRY(reader.next(item))) {
        const uint8_t type = rest[0];
        rest = reader.rest();
        if (type < kFirstFrameType) {
            ++summary.sections;
        } else if (type < kFirstSkippableType) {
            summary.frame_types |= uint32_t{1} << (type - kFirstFrameType);
        } else {
            summary.skippable_types |= uint32_t{1} << (type - kFirstSkippableType);
        }
    }
    return summary;
}

}  // namespace continuo::wire
