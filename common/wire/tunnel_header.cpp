#include "common/wire/tunnel_header.hpp"

namespace continuo::wire {

using base::Errc;
using base::Error;

base::Result<TunnelHeader> TunnelHeader::parse(base::ByteReader& reader) {
    const uint8_t head = reader.u8();
    const uint8_t place = reader.u8();
    TunnelHeader header;
    header.session_id = reader.u16();
    header.long_sequence = (place & 0x80U) != 0;
    header.sequence = header.long_sequence ? reader.u32() : reader.u16();
    if (!reader.ok()) {
        return Error{Errc::Truncated, "tunnel header"};
    }
    if (head >> 4 != kProtocolVersion) {
        return Error{Errc::Unsupported,
                     head >> 4 == kUnsealedVersion ? kWhereUnsealed : "version of tunnel header"};
    }
    header.epoch = head >> 2 & 3U;
    header.traffic_class = static_cast<base::TrafficClass>(head & 3U);
    header.path = place >> 3 & 0x0FU;
    header.lane = place & 7U;
    return header;
}

void TunnelHeader::serialize(base::ByteWriter& writer) const {
    writer.u8(static_cast<uint8_t>(kProtocolVersion << 4 | (epoch & 3U) << 2 |
                                   (static_cast<unsigned>(traffic_class) & 3U)));
    writer.u8(
        static_cast<uint8_t>((long_sequence ? 0x80U : 0U) | (path & 0x0FU) << 3 | (lane & 7U)));
    writer.u16(session_id);
    if (long_sequence) {
        writer.u32(sequence);
    } else {
        writer.u16(static_cast<uint16_t>(sequence));
    }
}

}  // namespace continuo::wire
