// Session: one authenticated association between a node and a SNAPT, either end. Takes inner
// packets and received datagrams, gives sealed datagrams and restored packets. Pure: `now` comes
// in, transmissions and the next deadline come out. After any input call poll_transmit until it
// gives false, then next_deadline. One thread.
//
// Order of trust for received bytes: length, parse, key, authenticate, replay, then state
// (docs/PROTOCOL.md section 2).
#pragma once

#include "common/base/timer_table.hpp"
#include "common/flow/attribution.hpp"
#include "common/flow/index_allocator.hpp"
#include "common/session/class_queue.hpp"
#include "common/session/epoch_state.hpp"
#include "common/session/path_set.hpp"
#include "common/session/reassembly.hpp"
#include "common/session/scheduler.hpp"
#include "common/session/scratch.hpp"
#include "common/session/sent_ring.hpp"
#include "common/session/session_types.hpp"
#include "common/session/transmit_batch.hpp"
#include "common/wire/tunnel_header.hpp"
#include "common/wire/unsealed.hpp"

namespace continuo::session {

// Keys of one epoch, named from this end's point of view.
struct EpochInstall {
    uint32_t epoch = 0;
    std::unique_ptr<crypto::DatagramCipher> sealer;
    std::unique_ptr<crypto::DatagramCipher> opener;
};

// What the loop that drives a session keeps with it.
struct DriverHook {
    size_t heap_place = 0;
    base::TimePoint deadline = base::kNever;
    bool is_touched = false;
};

class Session {
  public:
    DriverHook hook;

    // `host`, `scratch` and `random` must outlive the session.
    Session(const SessionSettings& settings,
            SessionHost& host,
            SessionScratch& scratch,
            base::Random& random);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;
    ~Session();

    // --- Keys
    // The node sends in the new epoch at once; SNAPT when it heard the node do so. The old one
    // lives on until the new one is heard, plus T_skew.
    void install_epoch(EpochInstall keys, base::TimePoint now);
    // SNAPT: whether an epoch of that number may come next. One that was granted and never heard is
    // granted anew, since the node may not have got it.
    bool may_grant(uint32_t epoch) const;
    bool wants_rekey() const;
    std::optional<uint32_t> send_epoch() const;

    // --- Flows
    // Node: gives the flow an index; false when all are taken. SNAPT: uses flow.index as the peer
    // gave it.
    bool attach(flow::Flow& flow);
    // The flow ends: its queued packets are dropped and its index released.
    void detach(flow::Flow& flow, base::TimePoint now);
    // The flow's class was changed (FlowTable::reclassify): moves what it has queued there, in
    // order, and opens it there anew.
    void requeue(flow::Flow& flow, base::TrafficClass former);

    // --- Inputs
    // Takes an inner packet or super-packet of an attached flow.
    void on_packet(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // Opens, decodes and delivers. The datagrams carry local_id.
    void on_datagrams(std::span<ReceivedDatagram> datagrams, base::TimePoint now);
    void on_timeout(base::TimePoint now);
    // The kernel took `item` of `batch`: counts it.
    static void on_sent(const TransmitBatch& batch, const TransmitItem& item);
    // The own host refused `item` as longer than its path takes.
    void on_too_big(const TransmitItem& item, base::TimePoint now);
    // The other end, over control, asks for a datagram at once.
    void request_keepalive(base::TimePoint now);

    // --- Outputs
    // Adds sealed datagrams to `batch`. True when the batch is full and there may be more.
    bool poll_transmit(TransmitBatch& batch, base::TimePoint now);
    base::TimePoint next_deadline(base::TimePoint now) const;

    // --- Settings and observers
    void set_class_settings(const std::array<ClassSettings, base::kTrafficClasses>& classes);
    PathSet& paths() { return paths_; }
    const PathSet& paths() const { return paths_; }
    const SessionSettings& settings() const { return settings_; }
    const ClassCounters& class_counters(base::TrafficClass c) const {
        return classes_[base::index_of(c)].counters;
    }
    const SessionCounters& counters() const { return counters_; }
    const base::DropCounters& drops() const { return drops_; }
    base::TimePoint heard_at() const { return heard_at_; }
    size_t flows() const { return attached_; }
    uint64_t queued_bytes() const;
    // Whether the datagram of which an unsealed message quotes the header can have been sent lately
    // (docs/PROTOCOL.md section 3.6).
    bool may_have_sent(const wire::Quote& quote) const;
    flow::Flow* flow_at(uint32_t index) const {
        return index < flows_.size() ? flows_[index] : nullptr;
    }

  private:
    struct ClassState {
        explicit ClassState(const ClassSettings& s) : settings(s), queue(s.queue_bytes) {}
        ClassSettings settings;
        ClassQueue queue;
        HoldEstimator estimator;
        ClassCounters counters;
        double compressed_ratio =
            1.0;  // moving average: wire bytes of an aggregate's sections for each inner byte
        // A packet that does not fit one datagram, encoded as a raw entry, and how far it was sent.
        std::vector<uint8_t> split_entry;
        size_t split_sent = 0;
        uint16_t split_id = 0;
        uint8_t split_index = 0;
        Attribution split_attribution;
    };
    // A datagram under construction.
    struct Draft {
        EpochState* epoch = nullptr;
        SendSpace* space = nullptr;
        Destination destination;
        wire::TunnelHeader header;
        uint16_t space_number = 0;
        uint32_t body_limit = 0;
        base::MutableByteView datagram;  // the whole, with room for header and tag
    };
    enum class Timer : uint8_t { Housekeeping, Count };

    // session.cpp
    EpochState* sending();
    packet::NodeSide sends_side() const;
    packet::NodeSide receives_side() const;
    const base::IpAddress& node_address(base::IpVersion version) const;
    void reopen_flows(EpochState& epoch);
    HoldKnobs knobs(const ClassState& state, const Destination& destination) const;
    base::TimePoint
    ready_at(const ClassState& state, const HoldKnobs& knobs, ReleaseReason* reason) const;

    // session_send.cpp
    std::optional<Draft> start_draft(const Destination& destination,
                                     base::TrafficClass traffic_class,
                                     TransmitBatch& batch);
    void finish_draft(Draft& draft, size_t body_bytes, TransmitBatch& batch, base::TimePoint now);
    bool send_probe(TransmitBatch& batch, base::TimePoint now);
    bool send_upkeep(TransmitBatch& batch, base::TimePoint now);
    static void write_floors(const elision::Encoder& encoder, base::ByteWriter& body);
    size_t write_frames(Draft& draft, base::ByteWriter& body, bool alone, base::TimePoint now);
    std::optional<base::TrafficClass> pick(base::TimePoint now);
    bool send_class(base::TrafficClass traffic_class, TransmitBatch& batch, base::TimePoint now);
    bool send_super(base::TrafficClass traffic_class,
                    const Destination& destination,
                    TransmitBatch& batch,
                    base::TimePoint now);
    bool is_worth_compressing(const ClassState& state,
                              const flow::Flow& flow,
                              base::ByteView payload,
                              base::TimePoint now);
    void cut_into_segments(ClassState& state, ClassQueue::Item item);

    // session_repeat.cpp
    void remember(TransmitBatch& batch,
                  const TransmitItem& item,
                  const Draft& draft,
                  uint64_t first_sequence,
                  base::TimePoint now);
    void mark_lost();
    bool send_again(TransmitBatch& batch, base::TimePoint now);
    void release_sent(base::TimePoint now);
    void write_received(const Draft& draft, base::ByteWriter& body) const;

    // session_aggregate.cpp
    bool send_aggregate(base::TrafficClass traffic_class,
                        const Destination& destination,
                        TransmitBatch& batch,
                        base::TimePoint now);
    size_t gather(ClassState& state, const Draft& draft, size_t used, base::TimePoint now);
    void keep_flow_together(size_t newest);
    bool prepare(PendingPacket& pending, const ClassState& state, size_t& groups);
    bool encode(Draft& draft, ClassState& state, size_t count, base::ByteWriter& body);
    bool encode_group(Draft& draft,
                      ClassState& state,
                      size_t count,
                      uint8_t group,
                      bool last,
                      base::ByteWriter& body);
    bool encode_entries(Draft& draft, size_t count, uint8_t group, base::ByteWriter& writer);
    void
    start_split(Draft& draft, ClassState& state, PendingPacket& pending, base::ByteWriter& body);
    void write_split_piece(ClassState& state,
                           Draft& draft,
                           base::ByteWriter& body,
                           TransmitBatch& batch);
    void account(ClassState& state, size_t count, TransmitBatch& batch, base::TimePoint now);

    // session_receive.cpp
    struct Opened {
        EpochState* epoch = nullptr;
        wire::TunnelHeader header;
        uint64_t sequence = 0;
        base::MutableByteView body;
        const ReceivedDatagram* datagram = nullptr;
    };
    // What its frames say of a body as a whole.
    struct BodyFacts {
        bool is_stateful = false;
        bool is_urgent = false;
        bool is_delivered = false;  // its packets came before, on another path
        std::optional<wire::Copy> copy;
    };
    EpochState* epoch_of(uint8_t modulo);
    static uint32_t outer_bytes_of(const Opened& opened);
    void on_authentic(const Opened& opened, base::TimePoint now);
    bool decode_body(const Opened& opened, BodyFacts& facts, base::TimePoint now);
    bool take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts);
    static bool is_copy_allowed(const Opened& opened, const wire::Copy& copy);
    static bool is_delivered(const Opened& opened, const std::optional<wire::Copy>& copy);
    bool decode_fragments(const Opened& opened, size_t& arena_used, base::TimePoint now);
    void attribute_received(uint32_t own);
    bool decode_section(EpochState& epoch, const wire::Section& section, size_t& arena_used);
    base::TimePoint keepalive_at() const;
    void apply_frames(const Opened& opened, bool may_repeat, base::TimePoint now);
    void apply_ack(const Opened& opened, const wire::Ack& ack, base::TimePoint now);
    void apply_report(const Opened& opened, const wire::Report& report);
    EpochState* acknowledged_epoch(const Opened& opened, bool previous);
    void deliver_entries(const Opened& opened, base::TimePoint now);
    flow::Flow*
    deliver_entry(const Opened& opened, const elision::DecodedEntry& entry, base::TimePoint now);
    void on_epoch_heard(EpochState& epoch, base::TimePoint now);

    SessionSettings settings_;
    SessionHost& host_;
    SessionScratch& scratch_;
    base::Random& random_;
    base::DropCounters drops_;
    PathSet paths_;
    Scheduler scheduler_;
    std::array<ClassState, base::kTrafficClasses> classes_;
    std::unique_ptr<EpochState> current_;
    std::unique_ptr<EpochState> previous_;
    Reassembly reassembly_;
    std::vector<flow::Flow*> flows_;  // by index
    flow::IndexAllocator indexes_;
    std::vector<uint32_t> closed_;  // indexes to tell in CLOSED
    size_t attached_ = 0;
    SessionCounters counters_;
    base::TimerTable<Timer> timers_;
    base::TimePoint heard_at_{};
    base::TimePoint kept_alive_at_{};  // last datagram of lt-ld on the active path
    bool keepalive_due_ = false;
    SentRing sent_ring_;  // SNAPT
    // Node: the space that something came in last, by class.
    struct LastSpace {
        uint32_t epoch = 0;
        uint16_t space = 0;
        bool is_known = false;
    };
    std::array<LastSpace, base::kTrafficClasses> last_spaces_;
    std::optional<uint8_t> sends_on_;  // the path of the last poll_transmit
    uint32_t split_outer_bytes_ = 0;   // earlier pieces of packets that this datagram completed
    CompressionBudget compression_budget_;
};

}  // namespace continuo::session
