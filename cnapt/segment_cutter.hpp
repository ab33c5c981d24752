// SegmentCutter: packets of a capture as the kernel would give them to an end of a tunnel. Inside
// it programs learn a smaller MSS from their SYNs, so TCP payload is put together and cut anew to
// that. The rest of a segment waits for more, as long as the sender pushes nothing. Pure.
#pragma once

#include "common/packet/header_fields.hpp"
#include "common/packet/packet.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace continuo::cnapt {

// A packet as the kernel would give it to an end.
struct PreparedPacket {
    std::vector<uint8_t> bytes;
    packet::Offload offload;
};

class SegmentCutter {
  public:
    // Identifies a flow, in one direction.
    using Key = void*;
    struct Place {
        Key key = nullptr;
        bool is_up = true;
        base::IpAddress inner;  // the node's side
        uint16_t mss = 0;       // that the sender was told
    };
    // Appends what the packet makes, perhaps nothing yet. False: no node would get it. Checksums
    // that a device of the capturing host would write are written.
    bool add(const Place& place, base::ByteView captured, std::vector<PreparedPacket>& to);
    // Appends what waits.
    void flush(Key key, std::vector<PreparedPacket>& to);
    void forget(Key key) { waiting_.erase(key); }
    std::vector<Key> waiting() const;

  private:
    struct Waiting {
        packet::HeaderFields fields;  // with the sequence number of the first byte
        std::vector<uint8_t> payload;
    };
    void cut(const Place& place,
             packet::HeaderFields fields,
             std::vector<uint8_t> payload,
             std::vector<PreparedPacket>& to);

    std::unordered_map<Key, Waiting> waiting_;  // less than a segment each
};

}  // namespace continuo::cnapt
