// A datagram on its way through the receiver: opened, then read.
#pragma once

#include "common/base/bytes.hpp"
#include "common/session/session_types.hpp"
#include "common/wire/frame.hpp"
#include "common/wire/tunnel_header.hpp"

#include <cstdint>
#include <optional>

namespace continuo::session {

struct EpochState;

// Points into a received batch.
struct Opened {
    EpochState* epoch = nullptr;
    wire::TunnelHeader header;
    uint64_t sequence = 0;
    base::MutableByteView body;
    const ReceivedDatagram* datagram = nullptr;
    bool is_authentic = false;
};

// Facts about a body, from its frames.
struct BodyFacts {
    bool has_ping = false;
    bool is_urgent = false;     // the sender waits for the acknowledgement
    bool is_delivered = false;  // its packets came before, on another path
    std::optional<wire::Copy> copy;
    std::optional<wire::Order> order;
};

}  // namespace continuo::session
