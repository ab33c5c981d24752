// SuperSender: super-packets leave as datagrams of one length, one for each segment, in runs for
// UDP_SEGMENT (docs/PROTOCOL.md section 6.3). Pure.
#pragma once

#include "common/sending/copy_sender.hpp"
#include "common/sending/kept_packets.hpp"
#include "common/sending/sealer.hpp"
#include "common/sending/send_queues.hpp"
#include "common/sending/super_cutter.hpp"
#include "common/session/session_core.hpp"

namespace continuo::sending {

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
    SuperSender(session::SessionCore& core, const Parts& parts);

    // Takes the next packet of the class, a super-packet, and sends it, or leaves its segments in
    // the queue.
    void send(SendClass& state,
              const routing::Way& way,
              session::TransmitBatch& batch,
              base::TimePoint now);

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
    bool may_leave(const session::Draft& draft,
                   const Run& run,
                   const routing::Way& way,
                   base::TimePoint now) const;
    static void plan(session::Draft& draft, Run& run, base::TimePoint now);
    bool fits(const session::Draft& draft, const Run& run, const routing::Way& way) const;
    void send_all(SendClass& state,
                  session::Draft draft,
                  const Run& run,
                  routing::Way way,
                  session::TransmitBatch& batch,
                  base::TimePoint now);
    uint32_t send_run(SendClass& state,
                      session::Draft& draft,
                      const Run& run,
                      const routing::Way& way,
                      uint32_t done,
                      session::TransmitBatch& batch,
                      base::TimePoint now);
    size_t write_segments(session::Draft& draft,
                          const Run& run,
                          const routing::Way& way,
                          uint32_t done,
                          uint32_t count,
                          base::MutableByteView arena,
                          base::TimePoint now);

    session::SessionScratch& scratch_;
    const routing::PathSet& paths_;
    const session::SessionFlows& flows_;
    Parts parts_;
};

}  // namespace continuo::sending
