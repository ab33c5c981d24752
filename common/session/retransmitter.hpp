// Retransmitter: sends again what was sent and may be lost: sealed datagrams, as they are, after
// the node of a SNAPT has moved (SentDatagrams), and packets, as copies, after a path was given up
// (KeptPackets). Pure.
#pragma once

#include "common/session/kept_packets.hpp"
#include "common/session/sealer.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::session {

class Retransmitter {
  public:
    // All arguments must outlive this object.
    Retransmitter(SessionCore& core, Sealer& sealer, SentDatagrams& sent, KeptPackets& kept);

    // Each sends the next one that is due; false: none is, or none may leave yet.
    bool send_datagram(TransmitBatch& batch, base::TimePoint now);
    bool send_packet(TransmitBatch& batch, base::TimePoint now);

  private:
    bool is_useful(const SentEntry& entry, base::TimePoint now) const;
    bool send_whole(const SentEntry& entry,
                    const Destination& destination,
                    TransmitBatch& batch,
                    base::TimePoint now);
    bool send_pieces(const SentEntry& entry,
                     const flow::Flow& flow,
                     const Destination& destination,
                     TransmitBatch& batch,
                     base::TimePoint now);
    std::optional<bool> send_piece(const SentEntry& entry,
                                   const Destination& destination,
                                   wire::Fragment piece,
                                   base::ByteView& left,
                                   TransmitBatch& batch,
                                   base::TimePoint now);

    const SessionSettings& settings_;
    SessionScratch& scratch_;
    SessionCounters& counters_;
    PathSet& paths_;
    Epochs& epochs_;
    SessionFlows& flows_;
    Sealer& sealer_;
    SentDatagrams& sent_;
    KeptPackets& kept_;
};

}  // namespace continuo::session
