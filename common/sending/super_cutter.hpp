// SuperCutter: whether super-packets leave as they are, in runs of datagrams (SuperSender), or are
// cut into segments, for aggregates and compression (docs/PROTOCOL.md section 6.3). Pure.
#pragma once

#include "common/queueing/compression_governor.hpp"
#include "common/routing/router.hpp"
#include "common/sending/send_queues.hpp"
#include "common/session/session_core.hpp"

namespace continuo::sending {

using queueing::CompressionGovernor;
using queueing::PathPace;

class SuperCutter {
  public:
    // `core` must outlive this object.
    explicit SuperCutter(session::SessionCore& core);

    // The packet, perhaps a super-packet, is about to be queued in that class.
    void on_packet(const SendClass& state,
                   const flow::Flow& flow,
                   const packet::Packet& packet,
                   base::TimePoint now);
    // Compressing packets took that long.
    void on_compressed(base::Duration spent, base::TimePoint now) {
        governor_.on_compressed(spent, now);
    }
    // Replaces the next packet in the queue, a super-packet, by its segments if compression is
    // worth it. False: it was not replaced.
    bool compress_next(SendClass& state, const routing::Way& way, base::TimePoint now);
    // Handles a super-packet, taken from the head of the queue, that cannot leave as one: its
    // segments are queued in its place, or it is dropped (counted).
    void cut_or_drop(SendClass& state, ClassQueue::Item item);

  private:
    bool is_worth_compressing(SendClass& state, const routing::Way& way, base::TimePoint now);

    session::SessionScratch& scratch_;
    base::DropCounters& drops_;
    const routing::PathSet& paths_;
    CompressionGovernor governor_;
};

}  // namespace continuo::sending
