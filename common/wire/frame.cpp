// Frames of references, acknowledgements and generations.
#include "common/wire/frame.hpp"

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

bool Ack::add(SequenceRun older) {
    if (run_count == kMaxAckRuns || older.first > older.last || older.last > kMaxSequence) {
        return false;
    }
    const uint32_t top = run_count == 0 ? older.last : highest();
    const uint32_t lowest = top >= kAckReach ? top - kAckReach + 1 : 0;
    if (older.last < lowest ||
        (run_count > 0 && older.last + uint64_t{2} > runs[run_count - 1U].first)) {
        return false;
    }
    runs[run_count++] = {std::max(older.first, lowest), older.last};
    return true;
}

Result<Ack> Ack::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Ack);
    const detail::SpaceField field = detail::read_space(reader);
    Ack ack{field.space, field.previous_epoch};
    const uint32_t top = detail::read_sequence(reader);
    ack.run_count = reader.u8();
    if (!reader.ok() || ack.run_count == 0 || ack.run_count > kMaxAckRuns) {
        return Error{Errc::Malformed, "ACK"};
    }
    uint32_t last = top;
    for (size_t i = 0; i < ack.run_count; ++i) {
        if (i > 0) {
            const uint64_t gap = reader.varint();
            const uint32_t above = ack.runs[i - 1].first;
            if (gap >= kAckReach || above < gap + 2) {
                return Error{Errc::Malformed, "gap of ACK"};
            }
            last = static_cast<uint32_t>(above - gap - 2);
        }
        const uint64_t below = reader.varint();
        if (!reader.ok() || below > last || top - last + below >= kAckReach) {
            return Error{Errc::Malformed, "run of ACK"};
        }
        ack.runs[i] = {static_cast<uint32_t>(last - below), last};
    }
    return ack;
}

void Ack::serialize(ByteWriter& writer) const {
    CTN_ASSERT(run_count >= 1 && run_count <= kMaxAckRuns);
    detail::write_type(writer, FrameType::Ack);
    detail::write_space(writer, space, previous_epoch);
    writer.varint(highest());
    writer.u8(run_count);
    for (size_t i = 0; i < run_count; ++i) {
        if (i > 0) {
            writer.varint(runs[i - 1].first - runs[i].last - 2);
        }
        writer.varint(runs[i].last - runs[i].first);
    }
}

size_t Ack::size() const {
    size_t bytes = 2 + detail::space_bytes(space) + varint_bytes(highest());
    for (size_t i = 0; i < run_count; ++i) {
        if (i > 0) {
            bytes += varint_bytes(runs[i - 1].first - runs[i].last - 2);
        }
        bytes += varint_bytes(runs[i].last - runs[i].first);
    }
    return bytes;
}

bool Ack::operator==(const Ack& other) const {
    return space == other.space && previous_epoch == other.previous_epoch &&
           run_count == other.run_count &&
           std::equal(runs.begin(), runs.begin() + run_count, other.runs.begin());
}

Result<Copy> Copy::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Copy);
    Copy copy;
    copy.space = detail::read_own_space(reader);
    copy.sequence = detail::read_sequence(reader);
    return detail::finish(reader, copy, "COPY");
}

void Copy::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Copy);
    detail::write_space(writer, space);
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
