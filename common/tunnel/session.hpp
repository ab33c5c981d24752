// Session: one authenticated association between a node and a SNAPT, either end. Takes inner
// packets and received datagrams; returns sealed datagrams and restored packets. Pure: `now` comes
// in, transmissions and the next deadline come out. After any input call poll_transmit until it
// returns false, then next_deadline. One thread.
//
// Received bytes are trusted in this order: length, parse, key, authenticate, replay, then state
// (docs/PROTOCOL.md section 2).
#pragma once

#include "common/base/timer_table.hpp"
#include "common/receiving/receive_pipeline.hpp"
#include "common/sending/send_pipeline.hpp"
#include "common/session/ack_writer.hpp"
#include "common/session/sent_datagrams.hpp"
#include "common/session/session_core.hpp"
#include "common/session/session_types.hpp"
#include "common/session/transmit_batch.hpp"

namespace continuo::tunnel {

class Session : public flow::FlowOwner {
  public:
    session::DriverHook hook;

    // `host`, `scratch` and `random` must outlive the session.
    Session(const session::SessionSettings& settings,
            session::SessionHost& host,
            session::SessionScratch& scratch,
            base::Random& random);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    // --- Keys
    // The node sends in the new epoch at once; SNAPT when it has heard the node do so. The old one
    // stays until the new one is heard, plus T_skew.
    void install_epoch(session::EpochInstall keys, base::TimePoint now);
    const session::Epochs& epochs() const { return core_.epochs; }

    // --- Flows
    // Node: gives the flow an index; false when none is free. SNAPT: uses flow.index as the peer
    // set it.
    bool attach(flow::Flow& flow);
    // The flow ends: its queued packets are dropped and its index released. Without `notice` a
    // SNAPT tells its node, and a node says nothing.
    void detach(flow::Flow& flow,
                base::TimePoint now,
                std::optional<session::EndNotice> notice = std::nullopt);
    // The flow's class has changed (FlowTable::reclassify): moves its queued packets there, in
    // order, and opens the flow there anew.
    void requeue(flow::Flow& flow, base::TrafficClass former);
    // Sets how the flow, attached or not, uses the paths.
    void set_mode(flow::Flow& flow, base::PathMode mode) { core_.flows.set_mode(flow, mode); }
    const session::SessionFlows& flow_table() const { return core_.flows; }
    size_t flows() const { return core_.flows.count(); }

    // --- Inputs
    // Takes an inner packet or super-packet of an attached flow.
    void on_packet(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // The datagrams carry local_id.
    void on_datagrams(std::span<session::ReceivedDatagram> datagrams, base::TimePoint now);
    void on_timeout(base::TimePoint now);
    // The kernel accepted `item` of `batch`: counts it.
    static void on_sent(const session::TransmitBatch& batch, const session::TransmitItem& item);
    // The own host refused `item` as too long for its path.
    void on_too_big(const session::TransmitItem& item, base::TimePoint now);

    // --- Outputs
    // Adds sealed datagrams to `batch`. True when the batch is full and there may be more.
    bool poll_transmit(session::TransmitBatch& batch, base::TimePoint now);
    base::TimePoint next_deadline(base::TimePoint now) const;

    // --- Settings and observers
    void
    set_class_settings(const std::array<session::ClassSettings, base::kTrafficClasses>& classes);
    const session::SessionSettings& settings() const { return core_.settings; }
    routing::PathSet& paths() { return core_.paths; }
    const routing::PathSet& paths() const { return core_.paths; }
    session::Upkeep& upkeep() { return core_.upkeep; }
    session::Unheard& unheard() { return core_.unheard; }
    const sending::SendQueues& queues() const { return send_.queues(); }
    // Drops the newer half of the class with the most packets (or bytes); returns how many.
    size_t shed(bool by_bytes) { return send_.queues().shed(by_bytes); }
    // Whether packets reported with the same time from now on arrived over the time before.
    void set_arrivals_gathered(bool are_gathered) {
        send_.queues().set_arrivals_gathered(are_gathered);
    }
    const session::SessionCounters& counters() const { return core_.counters; }
    const reception::ResequencerCounters& resequencing() const {
        return receive_.delivery().resequencing();
    }
    const base::DropCounters& drops() const { return core_.drops; }
    base::TimePoint heard_at() const { return core_.heard_at; }
    // SNAPT: the newest datagram received over UDP.
    const std::optional<session::Latest>& latest() const { return receive_.latest(); }

  private:
    enum class Timer : uint8_t { Housekeeping, Count };

    void keep_house(base::TimePoint now);

    session::SessionCore core_;
    base::TimerTable<Timer> timers_;
    session::SentDatagrams sent_{core_};  // SNAPT
    session::AckWriter acks_{core_};
    sending::SendPipeline send_{core_, sent_, acks_};
    receiving::ReceivePipeline receive_{core_, sent_, acks_};
};

}  // namespace continuo::tunnel
