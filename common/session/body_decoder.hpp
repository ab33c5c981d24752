// BodyDecoder: what is in the body of an authenticated datagram. The whole body is good, or it is
// void and nothing of it is taken over: until then only the draft of the epoch's decoder changes
// (docs/PROTOCOL.md section 6).
#pragma once

#include "common/session/epochs.hpp"
#include "common/session/reassembly.hpp"
#include "common/session/scratch.hpp"
#include "common/session/session_types.hpp"
#include "common/wire/body.hpp"
#include "common/wire/tunnel_header.hpp"

#include <optional>

namespace continuo::session {

// A datagram that was received, and its keys.
struct Opened {
    EpochState* epoch = nullptr;
    wire::TunnelHeader header;
    uint64_t sequence = 0;
    base::MutableByteView body;
    const ReceivedDatagram* datagram = nullptr;
    bool is_authentic = false;

    // Another than that of its header for what SNAPT sent again.
    uint8_t arrival_path() const { return datagram->arrived_on.value_or(header.path); }
    uint32_t outer_bytes() const {
        return session::outer_bytes(arrival_path(), datagram->from.address, datagram->bytes.size());
    }
};

// A body as a whole, by its frames.
struct BodyFacts {
    bool has_ping = false;
    bool is_urgent = false;     // its sender waits for the acknowledgement
    bool is_delivered = false;  // its packets came before, on another path
    std::optional<wire::Copy> copy;
    EpochState* original_epoch = nullptr;  // of the first sealing; null: it has ended
    std::optional<wire::Order> order;
};

class BodyDecoder {
  public:
    // All must outlive it.
    BodyDecoder(const Epochs& epochs, SessionScratch& scratch, base::DropCounters& drops)
        : epochs_(epochs), scratch_(scratch), drops_(drops), reassembly_(drops) {}

    // False: the body is void, which is counted. Other frames are in the scratch, in their order;
    // packets in the epoch's decoder, between begin() and commit() or rollback().
    bool decode(const Opened& opened, BodyFacts& facts, base::TimePoint now);
    // Bytes of the earlier pieces of packets that this body completed.
    uint32_t earlier_outer_bytes() const { return earlier_outer_bytes_; }

  private:
    bool take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts);
    static bool is_copy_allowed(const Opened& opened, const wire::Copy& copy);
    static bool is_delivered(const Opened& opened, const BodyFacts& facts);
    bool decode_fragments(const Opened& opened, size_t& arena_used, base::TimePoint now);
    bool decode_section(EpochState& epoch, const wire::Section& section, size_t& arena_used);

    const Epochs& epochs_;
    SessionScratch& scratch_;
    base::DropCounters& drops_;
    Reassembly reassembly_;
    uint32_t earlier_outer_bytes_ = 0;
};

}  // namespace continuo::session
