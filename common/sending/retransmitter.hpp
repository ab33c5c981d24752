// Retransmitter: sends again what was sent and may be lost: sealed datagrams, as they are, after
// the node of a SNAPT has moved (SentDatagrams), and packets, as copies, after a path was given up
// (KeptPackets). Pure.
#pragma once

#include "common/sending/kept_packets.hpp"
#include "common/sending/sealer.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::sending {

class Retransmitter {
  public:
    // All arguments must outlive this object.
    Retransmitter(session::SessionCore& core,
                  Sealer& sealer,
                  session::SentDatagrams& sent,
                  KeptPackets& kept);

    // Each sends the next one that is due; false: none is, or none may leave yet.
    bool send_datagram(session::TransmitBatch& batch, base::TimePoint now);
    bool send_packet(session::TransmitBatch& batch, base::TimePoint now);

  private:
    bool is_useful(const session::SentEntry& entry, base::TimePoint now) const;
    bool send_whole(const session::SentEntry& entry,
                    const path::Destination& destination,
                    session::TransmitBatch& batch,
                    base::TimePoint now);
    bool send_pieces(const session::SentEntry& entry,
                     const flow::Flow& flow,
                     const path::Destination& destination,
                     session::TransmitBatch& batch,
                     base::TimePoint now);
    std::optional<bool> send_piece(const session::SentEntry& entry,
                                   const path::Destination& destination,
                                   wire::Fragment piece,
                                   base::ByteView& left,
                                   session::TransmitBatch& batch,
                                   base::TimePoint now);

    const session::SessionSettings& settings_;
    session::SessionScratch& scratch_;
    session::SessionCounters& counters_;
    routing::PathSet& paths_;
    session::Epochs& epochs_;
    session::SessionFlows& flows_;
    Sealer& sealer_;
    session::SentDatagrams& sent_;
    KeptPackets& kept_;
};

}  // namespace continuo::sending
