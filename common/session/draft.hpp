// Draft: a datagram under construction. DatagramInfo: what leaves.
#pragma once

#include "common/base/bytes.hpp"
#include "common/path/probe.hpp"
#include "common/session/epoch_state.hpp"
#include "common/wire/body.hpp"
#include "common/wire/tunnel_header.hpp"

#include <cstdint>
#include <optional>

namespace continuo::session {

// Room for the frames of a datagram without packets.
inline constexpr uint32_t kControlBodyBytes = 1300;

inline bool has_control_room(const std::optional<path::Destination>& destination) {
    return destination && destination->budget_bytes >= kControlBodyBytes;
}

// ACKs in a body: the receiver voids a body with more than wire::kMaxFrames frames.
struct AckCount {
    static constexpr size_t kMostFrames = 32;

    size_t frames = 0;
    size_t ranges = 0;

    bool has_room_for(size_t more_ranges) const {
        return frames < kMostFrames && ranges + more_ranges <= wire::kMaxBodyAckRanges;
    }
};

struct Draft {
    EpochState* epoch = nullptr;
    SendSpace* space = nullptr;
    path::Destination destination;
    wire::TunnelHeader header;
    uint16_t space_number = 0;
    uint32_t body_limit = 0;
    base::MutableByteView datagram;  // the whole buffer, with room for header and tag
    AckCount acks;
    bool has_ping = false;
    bool has_kept = false;  // packets that may be sent again as copies
    bool is_size_probe = false;
    bool has_order = false;     // for the flows in SessionScratch::order
    bool is_other_way = false;  // it takes another way than its class does (path::ClassWay)
};

// Writes the FLOOR frames that the datagram, which the encoder has begun, must have.
inline void write_floors(const elision::Encoder& encoder, base::ByteWriter& body) {
    for (const elision::Floor& floor : encoder.floors()) {
        wire::Floor{wire::space_from_number(floor.space), static_cast<uint32_t>(floor.sequence)}
            .serialize(body);
    }
}

struct SentEntry;

// Datagrams that leave in one call, sealed, at the beginning of the batch's free space: one, or
// several of one length, of which the last may be shorter.
struct DatagramInfo {
    const Draft* draft = nullptr;         // new ones take the next numbers of its space
    const SentEntry* repeated = nullptr;  // otherwise: these leave again under their numbers
    path::Destination destination;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;  // of the content
    uint32_t bytes = 0;                                           // all together
    uint32_t segment_bytes = 0;                                   // each but the last
    uint16_t count = 1;

    uint32_t last_bytes() const { return bytes - segment_bytes * (count - 1U); }
};

}  // namespace continuo::session
