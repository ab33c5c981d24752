// Frames of references, acknowledgements and generations.
#include "common/wire/frame.hpp"

#include "common/wire/ack_ranges.hpp"
#include "common/wire/frame_fields.hpp"
#include "common/wire/listing.hpp"

#include <algorithm>

namespace continuo::wire {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;
using base::varint_bytes;

base::Result<Pad> Pad::parse(ByteReader& reader) {
    const Pad pad{reader.remaining()};
    detail::expect_type(reader, FrameType::Pad);
    reader.bytes(reader.remaining());
    return detail::finish(reader, pad, "PAD");
}

void Pad::serialize(ByteWriter& writer) const {
    CTN_ASSERT(bytes >= 1);
    detail::write_type(writer, FrameType::Pad);
    writer.zeros(bytes - 1);
}

namespace {

uint32_t read_u32_varint(ByteReader& reader) {
    const uint64_t value = reader.varint();
    if (value > UINT32_MAX) {
        reader.fail();
    }
    return static_cast<uint32_t>(value);
}

}  // namespace

Result<Ack> Ack::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Ack);
    const detail::SpaceField field = detail::read_space(reader);
    Ack ack;
    ack.space = field.space;
    ack.previous_epoch = field.previous_epoch;
    ack.highest = detail::read_sequence(reader);
    ack.delay = read_u32_varint(reader);
    ack.interval_ms = read_u32_varint(reader);
    ack.clock = reader.u24();
    ack.missing = read_u32_varint(reader);
    if (!reader.ok() || ack.missing > ack.highest) {
        return Error{Errc::Malformed, "ACK"};
    }
    const ByteView rest = reader.rest();
    AckRangeReader ranges(rest, ack.highest);
    while (ranges.left() > 0) {
        CTN_TRY(ranges.next());
    }
    ack.ranges = reader.bytes(rest.size() - ranges.rest().size());
    return ack;
}

void Ack::serialize_head(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Ack);
    detail::write_space(writer, space, previous_epoch);
    writer.varint(highest);
    writer.varint(delay);
    writer.varint(interval_ms);
    writer.u24(clock % kAckClockModulus);
    writer.varint(missing);
}

void Ack::serialize(ByteWriter& writer) const {
    serialize_head(writer);
    writer.bytes(ranges);
}

size_t Ack::head_bytes() const {
    return 4 + detail::space_bytes(space) + varint_bytes(highest) + varint_bytes(delay) +
           varint_bytes(interval_ms) + varint_bytes(missing);
}

bool Ack::operator==(const Ack& other) const {
    return space == other.space && previous_epoch == other.previous_epoch &&
           highest == other.highest && delay == other.delay && interval_ms == other.interval_ms &&
           clock == other.clock && missing == other.missing &&
           std::ranges::equal(ranges, other.ranges);
}

size_t write_ack(ByteWriter& writer, Ack head, std::span<const AckRange> ranges) {
    if (ranges.empty()) {
        return 0;
    }
    head.highest = ranges.front().last;
    const size_t before = writer.size();
    if (!writer.ok() || head.head_bytes() > writer.room()) {
        return 0;
    }
    head.serialize_head(writer);
    const size_t written = write_ack_ranges(writer, ranges);
    if (written == 0) {
        writer.rewind(before);
    }
    return written;
}

Result<Copy> Copy::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Copy);
    const detail::SpaceField field = detail::read_space(reader);
    Copy copy;
    copy.space = field.space;
    copy.previous_epoch = field.previous_epoch;
    copy.sequence = detail::read_sequence(reader);
    return detail::finish(reader, copy, "COPY");
}

void Copy::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Copy);
    detail::write_space(writer, space, previous_epoch);
    writer.varint(sequence);
}

size_t Copy::size() const {
    return 1 + detail::space_bytes(space) + varint_bytes(sequence);
}

Result<Floor> Floor::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Floor);
    Floor floor;
    floor.space = detail::read_own_space(reader);
    floor.sequence = detail::read_sequence(reader);
    return detail::finish(reader, floor, "FLOOR");
}

void Floor::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Floor);
    detail::write_space(writer, space);
    writer.varint(sequence);
}

size_t Floor::size() const {
    return 1 + detail::space_bytes(space) + varint_bytes(sequence);
}

Result<Generation> Generation::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Generation);
    Generation frame;
    frame.slot = detail::read_slot(reader);
    frame.generation = reader.u8();
    frame.oldest = reader.u8();
    const size_t counted = reader.u8();
    ByteReader inside(reader.bytes(counted));
    frame.base = inside.u8();
    const uint64_t keep = inside.varint();
    frame.hash = inside.u32();
    if (!reader.ok() || !inside.ok() || keep > UINT32_MAX || frame.slot == 0 ||
        frame.generation == 0) {
        return Error{Errc::Malformed, "GENERATION"};
    }
    frame.keep_bytes = static_cast<uint32_t>(keep);
    frame.listing = inside.rest();
    ListingReader runs(frame.listing);
    while (CTN_TRY(runs.next())) {
    }
    return frame;
}

void Generation::serialize(ByteWriter& writer) const {
    const size_t counted = 1 + varint_bytes(keep_bytes) + 4 + listing.size();
    if (counted > kMaxGenerationBytes) {
        return detail::fail(writer);
    }
    detail::write_type(writer, FrameType::Generation);
    writer.varint(slot);
    writer.u8(generation);
    writer.u8(oldest);
    writer.u8(static_cast<uint8_t>(counted));
    writer.u8(base);
    writer.varint(keep_bytes);
    writer.u32(hash);
    writer.bytes(listing);
}

size_t Generation::size() const {
    return 1 + varint_bytes(slot) + 4 + varint_bytes(keep_bytes) + 4 + listing.size();
}

bool Generation::operator==(const Generation& other) const {
    return slot == other.slot && generation == other.generation && oldest == other.oldest &&
           base == other.base && keep_bytes == other.keep_bytes && hash == other.hash &&
           std::ranges::equal(listing, other.listing);
}

Result<Confirm> Confirm::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Confirm);
    Confirm frame;
    frame.slot = detail::read_slot(reader);
    frame.generation = reader.u8();
    return detail::finish(reader, frame, "CONFIRM");
}

void Confirm::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Confirm);
    writer.varint(slot);
    writer.u8(generation);
}

size_t Confirm::size() const {
    return 2 + varint_bytes(slot);
}

Result<Refuse> Refuse::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Refuse);
    Refuse frame;
    frame.slot = detail::read_slot(reader);
    frame.generation = reader.u8();
    frame.reason = static_cast<RefuseReason>(reader.u8());
    return detail::finish(reader, frame, "REFUSE");
}

void Refuse::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Refuse);
    writer.varint(slot);
    writer.u8(generation);
    writer.u8(static_cast<uint8_t>(reason));
}

size_t Refuse::size() const {
    return 3 + varint_bytes(slot);
}

}  // namespace continuo::wire
