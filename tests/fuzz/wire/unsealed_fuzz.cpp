// Input: a message without protection, also taken as a received TCP stream and as the content of a
// HELLO record.
#include "common/wire/tcp_record.hpp"
#include "common/wire/unsealed.hpp"

#include <array>

using continuo::base::ByteReader;
using continuo::base::ByteView;
using continuo::base::ByteWriter;
namespace wire = continuo::wire;

namespace {

template <typename Message>
void expect_round_trip(const Message& message) {
    std::array<uint8_t, 64> buffer{};
    ByteWriter writer(buffer);
    message.serialize(writer);
    CTN_ASSERT(writer.ok() && writer.size() == message.size());
    ByteReader reader(writer.written());
    const auto again = Message::parse(reader);
    CTN_ASSERT(again && *again == message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ByteView bytes(data, size);
    if (const auto message = wire::parse_unsealed(bytes)) {
        std::visit([](const auto& value) { expect_round_trip(value); }, *message);
    }
    ByteReader reader(bytes);
    if (const auto hello = wire::Hello::parse(reader)) {
        CTN_ASSERT(reader.at_end());
        expect_round_trip(*hello);
    }
    ByteView stream = bytes;
    while (const auto record = wire::parse_record(stream)) {
        CTN_ASSERT(!record->empty() && record->size() <= wire::kMaxTcpRecordBytes);
        stream = stream.subspan(wire::kRecordLengthBytes + record->size());
    }
    return 0;
}
