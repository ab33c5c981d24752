// SendPipeline: a packet's way up: queue, schedule, route, aggregate, seal, commit; and what leaves
// before and beside packets. Pure.
#pragma once

#include "common/session/ack_writer.hpp"
#include "common/session/aggregator.hpp"
#include "common/session/body_encoder.hpp"
#include "common/session/control_sender.hpp"
#include "common/session/copy_sender.hpp"
#include "common/session/kept_packets.hpp"
#include "common/session/retransmitter.hpp"
#include "common/session/router.hpp"
#include "common/session/sealer.hpp"
#include "common/session/send_queues.hpp"
#include "common/session/super_cutter.hpp"
#include "common/session/super_sender.hpp"

namespace continuo::session {

class SendPipeline {
  public:
    // All arguments must outlive this object.
    SendPipeline(SessionCore& core, SentDatagrams& sent, AckWriter& acks);

    void on_packet(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // Adds sealed datagrams to `batch`. True when the batch is full and there may be more.
    bool poll(TransmitBatch& batch, base::TimePoint now);
    base::TimePoint next_deadline(base::TimePoint now) const;

    SendQueues& queues() { return queues_; }
    const SendQueues& queues() const { return queues_; }
    KeptPackets& kept() { return kept_; }

  private:
    bool leaves_room_for_ack(base::TrafficClass traffic_class);
    bool send_class(base::TrafficClass traffic_class, TransmitBatch& batch, base::TimePoint now);
    bool send_next(SendClass& state, const Way& way, TransmitBatch& batch, base::TimePoint now);

    SessionCore& core_;
    const SessionSettings& settings_;
    SessionScratch& scratch_;
    PathSet& paths_;
    AckWriter& acks_;
    Router router_;
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

}  // namespace continuo::session
