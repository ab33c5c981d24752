// CopySender: sends the packets of a datagram a second time, on another path: while the first is in
// doubt, or always for flows in mode redundant (docs/PROTOCOL.md section 5.9). Pure.
#pragma once

#include "common/sending/body_encoder.hpp"
#include "common/sending/sealer.hpp"
#include "common/sending/send_queues.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::sending {

class CopySender {
  public:
    // All arguments must outlive this object.
    CopySender(session::SessionCore& core,
               const routing::Router& router,
               Sealer& sealer,
               BodyEncoder& encoder);

    // Where a datagram of the class that goes that way is copied to, if at all.
    std::optional<routing::CopyWay>
    way(base::TrafficClass traffic_class, const routing::Way& original, base::TimePoint now) const;
    // Limits the original's draft so that its copy fits the copy's path.
    void leave_room(session::Draft& draft, const std::optional<routing::CopyWay>& copy) const;
    // Sends a copy of the datagram `original`, which was sealed last from the first `count` pending
    // packets and has `bytes`, if its flows want one or the budget allows it.
    void send(const wire::Copy& original,
              SendClass& state,
              size_t count,
              size_t bytes,
              const routing::CopyWay& copy,
              session::TransmitBatch& batch,
              base::TimePoint now);
    // The same for a piece of a packet of a flow in that mode.
    void send_piece(const wire::Copy& original,
                    const wire::Fragment& piece,
                    bool is_redundant,
                    const routing::CopyWay& copy,
                    session::TransmitBatch& batch,
                    base::TimePoint now);

  private:
    bool
    may_copy(const routing::CopyWay& copy, bool is_redundant, size_t bytes, base::TimePoint now);
    bool has_redundant(size_t count) const;

    const session::SessionSettings& settings_;
    session::SessionScratch& scratch_;
    session::SessionCounters& counters_;
    session::SessionFlows& flows_;
    const routing::Router& router_;
    Sealer& sealer_;
    BodyEncoder& encoder_;
    session::CopyBudget budget_;
};

}  // namespace continuo::sending
