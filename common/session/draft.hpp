// Draft: a datagram under construction.
#pragma once

#include "common/base/bytes.hpp"
#include "common/session/epoch_state.hpp"
#include "common/session/path_types.hpp"
#include "common/wire/body.hpp"
#include "common/wire/tunnel_header.hpp"

#include <cstdint>

namespace continuo::session {

struct Draft {
    // Of ACKs; the receiver voids a body with more frames than wire::kMaxFrames in all.
    static constexpr size_t kMostAckFrames = 32;

    EpochState* epoch = nullptr;
    SendSpace* space = nullptr;
    Destination destination;
    wire::TunnelHeader header;
    uint16_t space_number = 0;
    uint32_t body_limit = 0;
    base::MutableByteView datagram;  // the whole, with room for header and tag
    size_t ack_frames = 0;
    size_t ack_ranges = 0;
    bool has_ping = false;
    bool has_kept = false;  // packets that were kept
    bool is_size_probe = false;

    bool has_room_for_ack(size_t ranges) const {
        return ack_frames < kMostAckFrames && ack_ranges + ranges <= wire::kMaxBodyAckRanges;
    }
};

}  // namespace continuo::session
