// SendPipeline: a packet's way up: queue, schedule, route, aggregate, seal, commit; and what leaves
// before and beside packets. Pure.
#pragma once

#include "common/routing/router.hpp"
#include "common/sending/aggregator.hpp"
#include "common/sending/body_encoder.hpp"
#include "common/sending/control_sender.hpp"
#include "common/sending/copy_sender.hpp"
#include "common/sending/kept_packets.hpp"
#include "common/sending/retransmitter.hpp"
#include "common/sending/sealer.hpp"
#include "common/sending/send_queues.hpp"
#include "common/sending/super_cutter.hpp"
#include "common/sending/super_sender.hpp"
#include "common/session/ack_writer.hpp"

namespace continuo::sending {

class SendPipeline {
  public:
    // All arguments must outlive this object.
    SendPipeline(session::SessionCore& core,
                 session::SentDatagrams& sent,
                 session::AckWriter& acks);

    void on_packet(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // Adds sealed datagrams to `batch`. True when the batch is full and there may be more.
    bool poll(session::TransmitBatch& batch, base::TimePoint now);
    base::TimePoint next_deadline(base::TimePoint now) const;

    SendQueues& queues() { return queues_; }
    const SendQueues& queues() const { return queues_; }
    KeptPackets& kept() { return kept_; }

  private:
    bool leaves_room_for_ack(base::TrafficClass traffic_class);
    bool send_class(base::TrafficClass traffic_class,
                    session::TransmitBatch& batch,
                    base::TimePoint now);
    bool send_next(SendClass& state,
                   const routing::Way& way,
                   session::TransmitBatch& batch,
                   base::TimePoint now);

    session::SessionCore& core_;
    const session::SessionSettings& settings_;
    session::SessionScratch& scratch_;
    routing::PathSet& paths_;
    session::AckWriter& acks_;
    routing::Router router_;
    KeptPackets kept_;
    SendQueues queues_;
    Sealer sealer_;
    Retransmitter retransmitter_;
    SuperCutter cutter_;
    BodyEncoder encoder_;
    CopySender copies_;
    Aggregator aggregator_;
    SuperSender supers_;
    ControlSender control_;
};

}  // namespace continuo::sending
