// Frames of paths, flows and the end of a session.
#include "common/wire/frame.hpp"
#include "common/wire/frame_fields.hpp"
#include "common/wire/limits.hpp"

#include <algorithm>

namespace continuo::wire {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;
using base::varint_bytes;

namespace {

constexpr uint16_t kFragmentCounted = 0x8000;

constexpr uint8_t kAnnounceActive = 0x01;
constexpr uint8_t kAnnounceCopyWanted = 0x02;
constexpr uint8_t kAnnounceWithdrawn = 0x04;

ChallengeToken read_token(ByteReader& reader) {
    ChallengeToken token{};
    const ByteView bytes = reader.bytes(token.size());
    std::copy(bytes.begin(), bytes.end(), token.begin());
    return token;
}

// The counted content of a frame of type A0 to BF.
ByteView read_counted(ByteReader& reader) {
    const uint64_t counted = reader.varint();
    if (counted > reader.remaining()) {
        reader.fail();
        return {};
    }
    return reader.bytes(static_cast<size_t>(counted));
}

ByteView cut_text(ByteView text) {
    return text.first(std::min(text.size(), kMaxCloseTextBytes));
}

}  // namespace

Result<Fragment> Fragment::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Fragment);
    const uint16_t id = reader.u16();
    const uint8_t place = reader.u8();
    Fragment frame;
    frame.id = id & static_cast<uint16_t>(~kFragmentCounted);
    frame.index = place >> 1;
    frame.last = (place & 1U) != 0;
    frame.to_end = (id & kFragmentCounted) == 0;
    frame.piece = frame.to_end ? reader.bytes(reader.remaining()) : read_counted(reader);
    if (frame.piece.empty()) {
        reader.fail();
    }
    return detail::finish(reader, frame, "FRAGMENT");
}

void Fragment::serialize(ByteWriter& writer) const {
    CTN_ASSERT(id < kMaxFragmentIds && index < kMaxFragments);
    detail::write_type(writer, FrameType::Fragment);
    writer.u16(static_cast<uint16_t>(to_end ? id : id | kFragmentCounted));
    writer.u8(static_cast<uint8_t>(index << 1 | (last ? 1 : 0)));
    if (!to_end) {
        writer.varint(piece.size());
    }
    writer.bytes(piece);
}

size_t Fragment::size() const {
    return kHeadBytes + (to_end ? 0 : varint_bytes(piece.size())) + piece.size();
}

bool Fragment::operator==(const Fragment& other) const {
    return id == other.id && index == other.index && last == other.last && to_end == other.to_end &&
           std::ranges::equal(piece, other.piece);
}

Result<Challenge> Challenge::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Challenge);
    const Challenge frame{read_token(reader)};
    return detail::finish(reader, frame, "CHALLENGE");
}

void Challenge::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Challenge);
    writer.bytes(token);
}

Result<Response> Response::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Response);
    const Response frame{read_token(reader)};
    return detail::finish(reader, frame, "RESPONSE");
}

void Response::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Response);
    writer.bytes(token);
}

Result<Announce> Announce::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Announce);
    Announce frame;
    frame.path = reader.u8();
    const uint8_t kind = reader.u8();
    frame.mtu = reader.u16();
    const uint8_t flags = reader.u8();
    frame.number = reader.u16();
    if (frame.path >= kMaxPaths) {
        reader.fail();
    }
    frame.kind = static_cast<UplinkKind>(std::min(kind, static_cast<uint8_t>(UplinkKind::Other)));
    frame.active = (flags & kAnnounceActive) != 0;
    frame.copy_wanted = (flags & kAnnounceCopyWanted) != 0;
    frame.withdrawn = (flags & kAnnounceWithdrawn) != 0;
    if (frame.withdrawn && (frame.active || frame.copy_wanted)) {
        reader.fail();
    }
    return detail::finish(reader, frame, "ANNOUNCE");
}

void Announce::serialize(ByteWriter& writer) const {
    CTN_ASSERT(path < kMaxPaths && !(withdrawn && (active || copy_wanted)));
    detail::write_type(writer, FrameType::Announce);
    writer.u8(path);
    writer.u8(static_cast<uint8_t>(kind));
    writer.u16(mtu);
    writer.u8(static_cast<uint8_t>((active ? kAnnounceActive : 0) |
                                   (copy_wanted ? kAnnounceCopyWanted : 0) |
                                   (withdrawn ? kAnnounceWithdrawn : 0)));
    writer.u16(number);
}

Result<Ping> Ping::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Ping);
    return detail::finish(reader, Ping{}, "PING");
}

void Ping::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Ping);
}

bool Closed::add(uint32_t index) {
    if (count == kMaxClosedFlows || index >= kMaxFlowIndexes) {
        return false;
    }
    indexes[count++] = index;
    return true;
}

Result<Closed> Closed::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Closed);
    const uint8_t count = reader.u8();
    if (!reader.ok() || count == 0 || count > kMaxClosedFlows) {
        return Error{Errc::Malformed, "CLOSED"};
    }
    Closed frame;
    for (uint8_t i = 0; i < count; ++i) {
        const uint64_t index = reader.varint();
        if (!reader.ok() || index >= kMaxFlowIndexes) {
            return Error{Errc::Malformed, "index of CLOSED"};
        }
        frame.indexes[frame.count++] = static_cast<uint32_t>(index);
    }
    return frame;
}

void Closed::serialize(ByteWriter& writer) const {
    CTN_ASSERT(count >= 1 && count <= kMaxClosedFlows);
    detail::write_type(writer, FrameType::Closed);
    writer.u8(count);
    for (size_t i = 0; i < count; ++i) {
        writer.varint(indexes[i]);
    }
}

size_t Closed::size() const {
    size_t bytes = 2;
    for (size_t i = 0; i < count; ++i) {
        bytes += varint_bytes(indexes[i]);
    }
    return bytes;
}

bool Closed::operator==(const Closed& other) const {
    return count == other.count &&
           std::equal(indexes.begin(), indexes.begin() + count, other.indexes.begin());
}

Result<Caps> Caps::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Caps);
    Caps frame;
    frame.kept_bytes = reader.u32();
    frame.live_generations = reader.u8();
    return detail::finish(reader, frame, "CAPS");
}

void Caps::serialize(ByteWriter& writer) const {
    detail::write_type(writer, FrameType::Caps);
    writer.u32(kept_bytes);
    writer.u8(live_generations);
}

Result<Close> Close::parse(ByteReader& reader) {
    detail::expect_type(reader, FrameType::Close);
    ByteReader inside(read_counted(reader));
    Close frame;
    frame.reason = static_cast<CloseReason>(inside.u8());
    frame.text = inside.rest();
    return detail::finish(inside, frame, "CLOSE");
}

void Close::serialize(ByteWriter& writer) const {
    const ByteView shown = cut_text(text);
    detail::write_type(writer, FrameType::Close);
    writer.varint(1 + shown.size());
    writer.u8(static_cast<uint8_t>(reason));
    writer.bytes(shown);
}

size_t Close::size() const {
    const size_t counted = 1 + cut_text(text).size();
    return 1 + varint_bytes(counted) + counted;
}

bool Close::operator==(const Close& other) const {
    return reason == other.reason && std::ranges::equal(text, other.text);
}

}  // namespace continuo::wire
