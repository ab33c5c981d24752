// Aggregator: packets of one class share a datagram (docs/PROTOCOL.md section 6). Takes from the
// queue what is predicted to fit, and puts back what does not. A packet that is too long for a
// datagram is split over several. Pure.
#pragma once

#include "common/session/ack_writer.hpp"
#include "common/session/body_encoder.hpp"
#include "common/session/copy_sender.hpp"
#include "common/session/kept_packets.hpp"
#include "common/session/sealer.hpp"
#include "common/session/send_queues.hpp"
#include "common/session/session_core.hpp"
#include "common/session/super_cutter.hpp"

#include <optional>

namespace continuo::session {

class Aggregator {
  public:
    // The parts it works with; all must outlive it.
    struct Parts {
        SendQueues& queues;
        Sealer& sealer;
        AckWriter& acks;
        KeptPackets& kept;
        BodyEncoder& encoder;
        CopySender& copies;
        SuperCutter& cutter;
    };
    Aggregator(SessionCore& core, const Parts& parts);

    // Sends a datagram of the class on that way: waiting packets, with the frames that are due, or
    // the next piece of a packet. False: nothing can be sent there.
    bool send(SendClass& state, const Way& way, TransmitBatch& batch, base::TimePoint now);

  private:
    size_t
    write_beside(SendClass& state, Draft& draft, base::ByteWriter& body, base::TimePoint now);
    size_t
    gather(SendClass& state, const Draft& draft, const Way& way, size_t used, base::TimePoint now);
    void prepare(PendingPacket& pending, const SendClass& state, size_t& groups);
    void choose_group(PendingPacket& pending,
                      const SendClass& state,
                      base::ByteView content,
                      size_t& groups);
    void keep_flow_together(size_t newest);
    bool encode_what_fits(
        Draft& draft, SendClass& state, const Way& way, size_t& count, base::ByteWriter& body);
    void account(
        SendClass& state, size_t count, uint8_t path, TransmitBatch& batch, base::TimePoint now);
    void start_split(Draft& draft,
                     SendClass& state,
                     PendingPacket& pending,
                     base::ByteWriter& body,
                     base::TimePoint now);
    void send_split(Draft& draft,
                    SendClass& state,
                    const std::optional<CopyWay>& copy,
                    base::ByteWriter& body,
                    TransmitBatch& batch,
                    base::TimePoint now);
    std::optional<wire::Fragment>
    write_split_piece(SendClass& state, Draft& draft, base::ByteWriter& body, TransmitBatch& batch);

    const SessionSettings& settings_;
    SessionScratch& scratch_;
    base::DropCounters& drops_;
    const PathSet& paths_;
    const Epochs& epochs_;
    SessionFlows& flows_;
    Parts parts_;
};

}  // namespace continuo::session
