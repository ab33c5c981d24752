// SuperSender: super-packets leave as datagrams of one length, one for each segment, in runs for
// UDP_SEGMENT (docs/PROTOCOL.md section 6.3). Pure.
#pragma once

#include "common/session/copy_sender.hpp"
#include "common/session/kept_packets.hpp"
#include "common/session/sealer.hpp"
#include "common/session/send_queues.hpp"
#include "common/session/session_core.hpp"
#include "common/session/super_cutter.hpp"

namespace continuo::session {

class SuperSender {
  public:
    // The parts it works with; all must outlive it.
    struct Parts {
        SendQueues& queues;
        Sealer& sealer;
        KeptPackets& kept;
        CopySender& copies;
        SuperCutter& cutter;
    };
    SuperSender(SessionCore& core, const Parts& parts);

    // Takes the next packet of the class, a super-packet, and sends it, or leaves its segments in
    // the queue.
    void send(SendClass& state, const Way& way, TransmitBatch& batch, base::TimePoint now);

  private:
    // A super-packet on its way, in runs.
    struct Run {
        ClassQueue::Item item;
        packet::RegularPacket regular;
        elision::SegmentForm form;
        uint32_t segment_bytes = 0;
        uint32_t segments = 0;
        uint32_t last_bytes = 0;
    };
    bool may_leave(const Draft& draft, const Run& run, const Way& way, base::TimePoint now) const;
    static void plan(Draft& draft, Run& run, base::TimePoint now);
    bool fits(const Draft& draft, const Run& run, const Way& way) const;
    void send_all(SendClass& state,
                  Draft draft,
                  const Run& run,
                  Way way,
                  TransmitBatch& batch,
                  base::TimePoint now);
    uint32_t send_run(SendClass& state,
                      Draft& draft,
                      const Run& run,
                      const Way& way,
                      uint32_t done,
                      TransmitBatch& batch,
                      base::TimePoint now);
    size_t write_segments(Draft& draft,
                          const Run& run,
                          const Way& way,
                          uint32_t done,
                          uint32_t count,
                          base::MutableByteView arena,
                          base::TimePoint now);

    SessionScratch& scratch_;
    const PathSet& paths_;
    const SessionFlows& flows_;
    Parts parts_;
};

}  // namespace continuo::session
