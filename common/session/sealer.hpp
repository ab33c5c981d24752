// Sealer: begins datagrams, numbers and seals them. Each datagram of a session, of whatever kind,
// leaves by commit(), which logs it, charges it to the budgets of its path and counts it. Pure.
#pragma once

#include "common/session/draft.hpp"
#include "common/session/router.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"
#include "common/session/transmit_batch.hpp"

#include <array>
#include <optional>

namespace continuo::session {

class Sealer {
  public:
    // `core` and `sent` must outlive this object.
    Sealer(SessionCore& core, SentDatagrams& sent);

    // Begins a datagram in the batch's free space, under the keys of `under`, or of those that new
    // datagrams are sealed in. Nothing: there are none, or they are used up. Beginning has no
    // effect: commit() takes the number.
    std::optional<Draft> start(const Destination& destination,
                               base::TrafficClass traffic_class,
                               TransmitBatch& batch,
                               EpochState* under = nullptr) const;
    std::optional<Draft>
    start(const Way& way, base::TrafficClass traffic_class, TransmitBatch& batch) const;
    // Seals the draft, with a body of that length, and commits it.
    void finish(Draft& draft, size_t body_bytes, TransmitBatch& batch, base::TimePoint now);
    // Sealed datagrams leave, with the attributions added to the batch. While the node is away,
    // SNAPT only remembers them.
    void commit(const DatagramInfo& info, TransmitBatch& batch, base::TimePoint now);

    // The body would expand at the SNAPT to more than the outer bytes of a node allow
    // (docs/PROTOCOL.md section 7.1).
    bool expands_too_far(const Draft& draft, size_t inner_bytes, size_t body_bytes) const;
    // The next id for a packet of the class that is sent in pieces.
    uint16_t next_fragment_id(base::TrafficClass traffic_class);

  private:
    void number_new(const DatagramInfo& info, bool has_packets, base::TimePoint now);
    void note_flows(const Draft& draft, uint16_t datagrams);
    void log_repeats(const DatagramInfo& info, base::TimePoint now);

    SessionCore& core_;
    const SessionSettings& settings_;
    PathSet& paths_;
    SentDatagrams& sent_;
    std::array<uint16_t, base::kTrafficClasses> last_fragment_ids_{};
};

}  // namespace continuo::session
