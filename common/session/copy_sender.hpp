// CopySender: sends the packets of a datagram a second time, on another path: while the first is in
// doubt, or always for flows in mode redundant (docs/PROTOCOL.md section 5.9). Pure.
#pragma once

#include "common/session/body_encoder.hpp"
#include "common/session/sealer.hpp"
#include "common/session/send_queues.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::session {

class CopySender {
  public:
    // All arguments must outlive this object.
    CopySender(SessionCore& core, const Router& router, Sealer& sealer, BodyEncoder& encoder);

    // Where a datagram of the class that goes that way is copied to, if at all.
    std::optional<CopyWay>
    way(base::TrafficClass traffic_class, const Way& original, base::TimePoint now) const;
    // Limits the original's draft so that its copy fits the copy's path.
    void leave_room(Draft& draft, const std::optional<CopyWay>& copy) const;
    // Sends a copy of the datagram `original`, which was sealed last from the first `count` pending
    // packets and has `bytes`, if its flows want one or the budget allows it.
    void send(const wire::Copy& original,
              SendClass& state,
              size_t count,
              size_t bytes,
              const CopyWay& copy,
              TransmitBatch& batch,
              base::TimePoint now);
    // The same for a piece of a packet of a flow in that mode.
    void send_piece(const wire::Copy& original,
                    const wire::Fragment& piece,
                    bool is_redundant,
                    const CopyWay& copy,
                    TransmitBatch& batch,
                    base::TimePoint now);

  private:
    bool may_copy(const CopyWay& copy, bool is_redundant, size_t bytes, base::TimePoint now);
    bool has_redundant(size_t count) const;

    const SessionSettings& settings_;
    SessionScratch& scratch_;
    SessionCounters& counters_;
    SessionFlows& flows_;
    const Router& router_;
    Sealer& sealer_;
    BodyEncoder& encoder_;
    CopyBudget budget_;
};

}  // namespace continuo::session
