// A datagram on its way through the receiver: opened, then read.
#pragma once

#include "common/base/bytes.hpp"
#include "common/elision/decoder.hpp"
#include "common/session/epoch_state.hpp"
#include "common/session/session_types.hpp"
#include "common/wire/frame.hpp"
#include "common/wire/tunnel_header.hpp"

#include <cstdint>
#include <optional>

namespace continuo::receiving {

// Points into a received batch.
struct Opened {
    session::EpochState* epoch = nullptr;
    wire::TunnelHeader header;
    uint64_t sequence = 0;
    base::MutableByteView body;
    const session::ReceivedDatagram* datagram = nullptr;
    bool is_authentic = false;

    // Differs from the path in the header for datagrams that SNAPT sent again.
    uint8_t arrival_path() const { return datagram->arrived_on.value_or(header.path); }
    uint32_t outer_bytes() const {
        return session::outer_bytes(arrival_path(), datagram->from.address, datagram->bytes.size());
    }
};

// Facts about a body, from its frames.
struct BodyFacts {
    bool has_ping = false;
    bool is_urgent = false;     // the sender waits for the acknowledgement
    bool is_delivered = false;  // its packets came before, on another path
    std::optional<wire::Copy> copy;
    std::optional<wire::Order> order;
    uint32_t pieces_outer_bytes = 0;  // the pieces in this datagram
    uint32_t split_outer_bytes = 0;   // all pieces of packets that it completed
};

// IP length of a decoded packet.
inline size_t inner_bytes(const elision::DecodedEntry& entry) {
    switch (entry.kind) {
    case elision::EntryKind::Context:
        return 0;
    case elision::EntryKind::Whole:
        return entry.payload.size();
    default:
        return entry.payload.size() + entry.fields.header_bytes();
    }
}

}  // namespace continuo::receiving
