#include "common/wire/tcp_record.hpp"

#include "common/wire/frame_fields.hpp"

#include <algorithm>

namespace continuo::wire {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using base::Error;
using base::Result;

Result<ByteView> parse_record(ByteView stream) {
    ByteReader reader(stream);
    const size_t length = reader.u16();
    if (!reader.ok()) {
        return Error{Errc::Truncated, "record"};
    }
    if (length == 0 || length > kMaxTcpRecordBytes) {
        return Error{Errc::Malformed, "record length"};
    }
    const ByteView content = reader.bytes(length);
    if (!reader.ok()) {
        return Error{Errc::Truncated, "record"};
    }
    return content;
}

void write_record_length(ByteWriter& writer, size_t datagram_bytes) {
    if (datagram_bytes == 0 || datagram_bytes > kMaxTcpRecordBytes) {
        return detail::fail(writer);
    }
    writer.u16(static_cast<uint16_t>(datagram_bytes));
}

Result<Hello> Hello::parse(ByteReader& reader) {
    const uint8_t type = reader.u8();
    Hello hello;
    hello.version = reader.u8();
    hello.epoch = reader.u8();
    hello.session_id = reader.u16();
    hello.number = reader.u32();
    if (!reader.ok() || reader.remaining() < kShortTagBytes) {
        return Error{Errc::Truncated, "HELLO"};
    }
    if (type != static_cast<uint8_t>(UnsealedType::Hello) || hello.epoch >= kEpochModulus ||
        (reader.remaining() != kShortTagBytes && reader.remaining() != kFullTagBytes)) {
        return Error{Errc::Malformed, "HELLO"};
    }
    if (hello.version != kProtocolVersion) {
        return Error{Errc::Unsupported, "version of HELLO"};
    }
    const ByteView tag = reader.bytes(reader.remaining());
    hello.tag_bytes = static_cast<uint8_t>(tag.size());
    std::ranges::copy(tag, hello.tag.begin());
    return hello;
}

std::array<uint8_t, Hello::kSignedBytes> Hello::signed_part() const {
    std::array<uint8_t, kSignedBytes> bytes{};
    ByteWriter writer(bytes);
    writer.u8(static_cast<uint8_t>(UnsealedType::Hello));
    writer.u8(version);
    writer.u8(epoch);
    writer.u16(session_id);
    writer.u32(number);
    return bytes;
}

void Hello::serialize(ByteWriter& writer) const {
    CTN_ASSERT(tag_bytes == kShortTagBytes || tag_bytes == kFullTagBytes);
    writer.bytes(signed_part());
    writer.bytes(ByteView(tag).first(tag_bytes));
}

}  // namespace continuo::wire
