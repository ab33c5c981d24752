// One encoder and the decoder behind it, for tests: what is sent is decoded at once and compared.
#pragma once

#include "common/elision/decoder.hpp"
#include "common/elision/encoder.hpp"

#include <string>

#include <gtest/gtest.h>

namespace continuo::elision {

using Bytes = std::vector<uint8_t>;

// "C3 04 | 0001": digits of bytes, anything else is ignored.
Bytes from_hex(std::string_view text);
std::string to_hex(ByteView bytes);

// A regular packet of 198.51.100.7 or 2001:db8::7 with the usual values.
HeaderFields udp4();
HeaderFields udp6();
HeaderFields echo4();
HeaderFields tcp4();
HeaderFields tcp6_without_timestamps();

class ElisionLink {
  public:
    ElisionLink() : encoder(packet::NodeSide::Source), decoder(packet::NodeSide::Source, scratch) {}

    // A datagram with one section of one packet, which arrives and is acknowledged. Gives entry
    // head and elided header.
    std::string send(uint32_t index,
                     const HeaderFields& fields,
                     size_t payload_bytes = 0,
                     Extent extent = Extent::Counted);
    // The same, but nothing arrives.
    std::string lose(uint32_t index, const HeaderFields& fields, size_t payload_bytes = 0);
    // Opens the flow: after that reference 0 has the values of `fields`.
    void
    open(uint32_t index, const HeaderFields& fields, size_t payload_bytes = 0, OpenInfo info = {});
    // Decodes `section` as a datagram of its own; does not commit.
    base::Result<void> decode(ByteView section);

    DecodeScratch scratch;
    Encoder encoder;
    Decoder decoder;
    TimePoint now{};
    uint64_t next = 0;
    uint16_t space = 0x0008;

  private:
    Bytes build(uint32_t index, const HeaderFields& fields, ByteView payload, Extent extent);
};

}  // namespace continuo::elision
