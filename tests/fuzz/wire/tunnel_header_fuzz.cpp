// Input: a datagram. What parses is written back to the bytes it came from.
#include "common/wire/tunnel_header.hpp"

#include <algorithm>
#include <array>

using continuo::base::ByteReader;
using continuo::base::ByteView;
using continuo::base::ByteWriter;
using continuo::wire::DatagramKind;
using continuo::wire::TunnelHeader;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ByteView datagram(data, size);
    ByteReader reader(datagram);
    const auto header = TunnelHeader::parse(reader);
    if (!header) {
        return 0;
    }
    CTN_ASSERT(continuo::wire::kind_of(datagram) == DatagramKind::Sealed);
    CTN_ASSERT(header->space_number() < continuo::wire::kMaxSpaces);
    std::array<uint8_t, continuo::wire::kLongHeaderBytes> buffer{};
    ByteWriter writer(buffer);
    header->serialize(writer);
    CTN_ASSERT(writer.ok() && writer.size() == header->size());
    CTN_ASSERT(std::ranges::equal(writer.written(), datagram.first(writer.size())));
    CTN_ASSERT(reader.remaining() == size - writer.size());
    const uint64_t whole = header->whole_sequence(uint64_t{header->sequence} + 0x12345);
    CTN_ASSERT(static_cast<uint16_t>(whole) == static_cast<uint16_t>(header->sequence));
    return 0;
}
