// Aggregator: packets of one class share a datagram (docs/PROTOCOL.md section 6). Takes from the
// queue what is predicted to fit, and puts back what does not. A packet that is too long for a
// datagram is split over several. Pure.
#pragma once

#include "common/sending/body_encoder.hpp"
#include "common/sending/copy_sender.hpp"
#include "common/sending/kept_packets.hpp"
#include "common/sending/sealer.hpp"
#include "common/sending/send_queues.hpp"
#include "common/sending/super_cutter.hpp"
#include "common/session/ack_writer.hpp"
#include "common/session/session_core.hpp"

#include <optional>

namespace continuo::sending {

class Aggregator {
  public:
    // The parts it works with; all must outlive it.
    struct Parts {
        SendQueues& queues;
        Sealer& sealer;
        session::AckWriter& acks;
        KeptPackets& kept;
        BodyEncoder& encoder;
        CopySender& copies;
        SuperCutter& cutter;
    };
    Aggregator(session::SessionCore& core, const Parts& parts);

    // Sends a datagram of the class on that way: waiting packets, with the frames that are due, or
    // the next piece of a packet. False: nothing can be sent there.
    bool send(SendClass& state,
              const routing::Way& way,
              session::TransmitBatch& batch,
              base::TimePoint now);

  private:
    size_t write_beside(SendClass& state,
                        session::Draft& draft,
                        base::ByteWriter& body,
                        base::TimePoint now);
    size_t gather(SendClass& state,
                  const session::Draft& draft,
                  const routing::Way& way,
                  size_t used,
                  base::TimePoint now);
    void prepare(session::PendingPacket& pending, const SendClass& state, size_t& groups);
    void choose_group(session::PendingPacket& pending,
                      const SendClass& state,
                      base::ByteView content,
                      size_t& groups);
    void keep_flow_together(size_t newest);
    bool encode_what_fits(session::Draft& draft,
                          SendClass& state,
                          const routing::Way& way,
                          size_t& count,
                          base::ByteWriter& body);
    void account(SendClass& state,
                 size_t count,
                 uint8_t path,
                 session::TransmitBatch& batch,
                 base::TimePoint now);
    void start_split(session::Draft& draft,
                     SendClass& state,
                     session::PendingPacket& pending,
                     base::ByteWriter& body,
                     base::TimePoint now);
    void send_split(session::Draft& draft,
                    SendClass& state,
                    const std::optional<routing::CopyWay>& copy,
                    base::ByteWriter& body,
                    session::TransmitBatch& batch,
                    base::TimePoint now);
    std::optional<wire::Fragment> write_split_piece(SendClass& state,
                                                    session::Draft& draft,
                                                    base::ByteWriter& body,
                                                    session::TransmitBatch& batch);

    const session::SessionSettings& settings_;
    session::SessionScratch& scratch_;
    base::DropCounters& drops_;
    const routing::PathSet& paths_;
    const session::Epochs& epochs_;
    session::SessionFlows& flows_;
    Parts parts_;
};

}  // namespace continuo::sending
