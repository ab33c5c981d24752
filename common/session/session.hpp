// Session: one authenticated association between a node and a SNAPT, either end. Takes inner
// packets and received datagrams; returns sealed datagrams and restored packets. Pure: `now` comes
// in, transmissions and the next deadline come out. After any input call poll_transmit until it
// returns false, then next_deadline. One thread.
//
// Received bytes are trusted in this order: length, parse, key, authenticate, replay, then state
// (docs/PROTOCOL.md section 2).
#pragma once

#include "common/base/timer_table.hpp"
#include "common/flow/attribution.hpp"
#include "common/flow/index_allocator.hpp"
#include "common/session/class_queue.hpp"
#include "common/session/closed_flows.hpp"
#include "common/session/compression_governor.hpp"
#include "common/session/draft.hpp"
#include "common/session/epoch_state.hpp"
#include "common/session/expansion_budget.hpp"
#include "common/session/opened.hpp"
#include "common/session/path_set.hpp"
#include "common/session/reassembly.hpp"
#include "common/session/resequencer.hpp"
#include "common/session/router.hpp"
#include "common/session/scheduler.hpp"
#include "common/session/scratch.hpp"
#include "common/session/sent_ring.hpp"
#include "common/session/session_types.hpp"
#include "common/session/unheard.hpp"
#include "common/wire/tunnel_header.hpp"
#include "common/wire/unsealed.hpp"

namespace continuo::session {

class Session : public flow::FlowOwner {
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
    // The node sends in the new epoch at once; SNAPT when it has heard the node do so. The old one
    // stays until the new one is heard, plus T_skew.
    void install_epoch(EpochInstall keys, base::TimePoint now);
    // SNAPT: whether an epoch of that number may come next. An epoch that was granted but never
    // heard is granted anew, since the node may not have received it.
    bool may_grant(uint32_t epoch) const;
    bool wants_rekey() const;
    std::optional<uint32_t> send_epoch() const;

    // --- Flows
    // Node: gives the flow an index; false when none is free. SNAPT: uses flow.index as the peer
    // set it.
    bool attach(flow::Flow& flow);
    // The flow ends: its queued packets are dropped and its index released.
    void detach(flow::Flow& flow, base::TimePoint now, EndNotice notice);
    // A SNAPT tells its node, a node says nothing.
    void detach(flow::Flow& flow, base::TimePoint now) {
        detach(flow, now, settings_.role == Role::Snapt ? EndNotice::Closed : EndNotice::None);
    }
    // The flow's class has changed (FlowTable::reclassify): moves its queued packets there, in
    // order, and opens the flow there anew.
    void requeue(flow::Flow& flow, base::TrafficClass former);
    // Sets how the flow, attached or not, uses the paths.
    void set_mode(flow::Flow& flow, base::PathMode mode);

    // --- Inputs
    // Takes an inner packet or super-packet of an attached flow.
    void on_packet(flow::Flow& flow, packet::PacketPtr packet, base::TimePoint now);
    // The datagrams carry local_id.
    void on_datagrams(std::span<ReceivedDatagram> datagrams, base::TimePoint now);
    void on_timeout(base::TimePoint now);
    // The kernel accepted `item` of `batch`: counts it.
    static void on_sent(const TransmitBatch& batch, const TransmitItem& item);
    // The own host refused `item` as too long for its path.
    void on_too_big(const TransmitItem& item, base::TimePoint now);
    // The other end asks, over control, for a datagram at once.
    void request_keepalive(base::TimePoint now);

    // --- Outputs
    // Adds sealed datagrams to `batch`. True when the batch is full and there may be more.
    bool poll_transmit(TransmitBatch& batch, base::TimePoint now);
    base::TimePoint next_deadline(base::TimePoint now) const;

    // --- Settings and observers
    // Node: sends no keepalives while there is no flow. The next packet creates a new NAT mapping.
    void keep_alive_for_flows_only() { keeps_idle_alive_ = false; }
    void set_class_settings(const std::array<ClassSettings, base::kTrafficClasses>& classes);
    PathSet& paths() { return paths_; }
    const PathSet& paths() const { return paths_; }
    const SessionSettings& settings() const { return settings_; }
    const ClassCounters& class_counters(base::TrafficClass c) const {
        return classes_[base::index_of(c)].counters;
    }
    const SessionCounters& counters() const { return counters_; }
    // Datagrams that are lost or may still come, excluding those sent while their path was silent.
    uint64_t missing_datagrams() const;
    const ResequencerCounters& resequencing() const { return resequencer_.counters(); }
    const base::DropCounters& drops() const { return drops_; }
    base::TimePoint heard_at() const { return heard_at_; }
    Unheard& unheard() { return unheard_; }
    // SNAPT: the newest datagram received over UDP.
    const std::optional<Latest>& latest() const { return latest_; }
    size_t flows() const { return attached_; }
    // At least one flow has a mode other than handover.
    bool uses_several_paths() const {
        return attached_ > flows_by_mode_[static_cast<size_t>(base::PathMode::Handover)];
    }
    uint64_t queued_bytes() const;
    uint32_t queued_packets() const;
    // Drops the newer half of the class with the most packets (or bytes); returns how many.
    size_t shed(bool by_bytes);
    // Whether packets reported with the same time from now on arrived over the time before.
    void set_arrivals_gathered(bool are_gathered) { are_arrivals_gathered_ = are_gathered; }
    // How long all held packets may still be held: zero when some wait for something else or need
    // not wait; nothing when none is held.
    std::optional<base::Duration> patience(base::TimePoint now) const;
    // Whether the datagram whose header an unsealed message quotes can have been sent recently
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
        double compressed_ratio = 1.0;  // moving average: section bytes per inner byte
        // A packet that does not fit one datagram, encoded as a raw entry, and how much of it was
        // sent.
        std::vector<uint8_t> split_entry;
        size_t split_sent = 0;
        uint16_t split_id = 0;
        uint16_t last_fragment_id = 0;  // the latest that was given to a packet
        uint8_t split_index = 0;
        Attribution split_attribution;
        bool is_blocked = false;  // the next packet must not be sent yet (docs/PROTOCOL.md 5.4)
        // Where flows are spread: the path of the next packet, as of the latest poll.
        std::optional<Destination> goes_to;
    };
    struct LoneAck {
        base::TimePoint due_at;
        Destination destination;
        uint8_t acknowledged_path = 0;
        bool answers_ping = false;
    };
    enum class Timer : uint8_t { Housekeeping, Count };

    // session.cpp
    EpochState* sending() const;
    EpochState* sealing(uint32_t epoch) const;
    packet::NodeSide sends_side() const;
    packet::NodeSide receives_side() const;
    const base::IpAddress& node_address(base::IpVersion version) const;
    void reopen_flows(EpochState& epoch);
    std::optional<Destination> next_destination(base::TrafficClass traffic_class,
                                                base::TimePoint now) const;
    HoldKnobs knobs(const ClassState& state, const Destination& destination) const;
    base::TimePoint
    ready_at(const ClassState& state, const HoldKnobs& knobs, ReleaseReason* reason) const;
    base::TimePoint keepalive_at() const;

    // session_send.cpp
    std::optional<Draft> start_draft(const Destination& destination,
                                     base::TrafficClass traffic_class,
                                     TransmitBatch& batch,
                                     EpochState* under = nullptr);
    std::optional<Draft>
    start_draft(const Way& way, base::TrafficClass traffic_class, TransmitBatch& batch);
    bool expands_too_far(const Draft& draft, size_t inner_bytes, size_t body_bytes) const;
    bool send_probe(TransmitBatch& batch, base::TimePoint now);
    bool send_upkeep(TransmitBatch& batch, base::TimePoint now);
    static void write_floors(const elision::Encoder& encoder, base::ByteWriter& body);
    void write_closed(EpochState& epoch, base::ByteWriter& body, size_t spare, base::TimePoint now);
    bool leaves_room_for_ack(base::TrafficClass traffic_class);
    void judge_losses();
    std::optional<base::TrafficClass> pick(base::TimePoint now);
    bool send_class(base::TrafficClass traffic_class, TransmitBatch& batch, base::TimePoint now);

    // session_commit.cpp
    void finish_draft(Draft& draft, size_t body_bytes, TransmitBatch& batch, base::TimePoint now);
    bool commit(const DatagramInfo& info, TransmitBatch& batch, base::TimePoint now);
    void number_new(const DatagramInfo& info, bool has_packets, base::TimePoint now);
    void note_flows(const Draft& draft, uint16_t datagrams, std::span<const Attribution> parts);
    void log_repeats(const DatagramInfo& info, base::TimePoint now);
    void remember(const DatagramInfo& info, TransmitBatch& batch, base::TimePoint now);
    EpochState* sent_in(const SentEntry& entry) const;
    bool is_under_way(const SentEntry& entry, base::TimePoint now) const;

    // session_acks.cpp
    size_t write_frames(Draft& draft,
                        base::ByteWriter& body,
                        bool alone,
                        base::TimePoint now,
                        size_t spare_bytes = SIZE_MAX);
    bool write_acks(Draft& draft,
                    EpochState& epoch,
                    uint8_t path,
                    bool is_alone,
                    base::ByteWriter& body,
                    size_t room_bytes,
                    base::TimePoint now);
    bool write_ack_frame(const AckBlock& block,
                         uint8_t path,
                         const EpochState& epoch,
                         Draft& draft,
                         base::ByteWriter& body,
                         base::TimePoint now);
    static uint64_t ack_id(const EpochState& epoch, uint16_t space, uint64_t sequence);
    template <typename Visit>
    void each_reportable(const Visit& visit) const;
    std::optional<LoneAck> next_lone_ack(base::TimePoint now) const;

    // session_super.cpp
    // A super-packet on its way, in runs.
    struct SuperRun {
        ClassQueue::Item item;
        packet::RegularPacket regular;
        elision::SegmentForm form;
        uint32_t segment_bytes = 0;
        uint32_t segments = 0;
        uint32_t last_bytes = 0;
    };
    bool send_super(base::TrafficClass traffic_class,
                    Way way,
                    TransmitBatch& batch,
                    base::TimePoint now);
    bool fits_super(const Draft& draft, const SuperRun& run, const Way& way) const;
    uint32_t send_run(Draft& draft,
                      const SuperRun& run,
                      const Way& way,
                      uint32_t done,
                      TransmitBatch& batch,
                      base::TimePoint now);
    size_t write_segments(Draft& draft,
                          const SuperRun& run,
                          const Way& way,
                          uint32_t done,
                          uint32_t count,
                          base::MutableByteView arena,
                          base::TimePoint now);
    static bool
    is_compressible(const ClassState& state, const flow::Flow& flow, const packet::Packet& super);
    bool is_worth_compressing(ClassState& state, const Way& way, base::TimePoint now);
    bool compress_next(ClassState& state, const Way& way, base::TimePoint now);
    static bool cut_into_segments(ClassState& state, ClassQueue::Item& item);
    void cut_or_drop(ClassState& state, ClassQueue::Item item);

    // session_repeat.cpp
    void follow_move(Announced move, base::TimePoint now);
    void mark_lost(const Announced& move, base::TimePoint now);
    uint64_t repeatable(uint32_t step, base::TimePoint now) const;
    void pay_repeat(uint64_t bytes, base::TimePoint now);
    bool send_again(TransmitBatch& batch, base::TimePoint now);
    void release_sent(base::TimePoint now);
    void write_received(Draft& draft, base::ByteWriter& body, base::TimePoint now);

    // session_kept.cpp
    bool is_silent(const Way& way, base::TrafficClass traffic_class, base::TimePoint now) const;
    bool is_alone(const flow::Flow& flow, const Way& way) const;
    void keep(const Draft& draft,
              uint64_t sequence,
              const flow::Flow& flow,
              base::ByteView packet,
              base::TimePoint now);
    void keep_if_wanted(const Draft& draft,
                        uint64_t sequence,
                        const PendingPacket& pending,
                        const Way& way,
                        base::TimePoint now);
    void mark_left(PathMask paths, base::TimePoint since, base::TimePoint now);
    void mark_too_long(const SentEntry& sealed);
    void on_active_changed(base::TimePoint now);
    void on_doubt(uint8_t path, base::TimePoint now);
    bool may_send_kept(const SentEntry& entry, const Destination& destination) const;
    bool send_kept(TransmitBatch& batch, base::TimePoint now);
    bool send_kept_whole(const SentEntry& entry,
                         const Destination& destination,
                         TransmitBatch& batch,
                         base::TimePoint now);
    bool send_kept_pieces(const SentEntry& entry,
                          const flow::Flow& flow,
                          const Destination& destination,
                          TransmitBatch& batch,
                          base::TimePoint now);
    std::optional<bool> send_kept_piece(const SentEntry& entry,
                                        const Destination& destination,
                                        wire::Fragment piece,
                                        base::ByteView& left,
                                        TransmitBatch& batch,
                                        base::TimePoint now);

    // session_paths.cpp
    std::optional<Way>
    next_way(ClassState& state, base::TrafficClass traffic_class, base::TimePoint now);
    std::optional<Way>
    way_of(const flow::Flow& flow, const packet::Packet& packet, base::TimePoint now) const;
    std::optional<Way>
    sendable_way(ClassState& state, base::TrafficClass traffic_class, base::TimePoint now);
    bool goes_along(const Way& way, ClassState& state, base::TimePoint now);
    void count_mode(const flow::Flow& flow, int change);
    std::optional<CopyWay>
    copy_way(base::TrafficClass traffic_class, const Way& way, base::TimePoint now) const {
        return router_.copy(traffic_class, way.destination.path,
                            flows_by_mode_[static_cast<size_t>(base::PathMode::Redundant)] > 0,
                            now);
    }
    void leave_room(Draft& draft, const std::optional<CopyWay>& copy) const;
    void send_copy(const wire::Copy& original,
                   ClassState& state,
                   size_t count,
                   const CopyWay& copy,
                   TransmitBatch& batch,
                   base::TimePoint now);
    void send_piece_copy(const wire::Copy& original,
                         const wire::Fragment& piece,
                         const CopyWay& copy,
                         TransmitBatch& batch,
                         base::TimePoint now);
    bool may_copy(const CopyWay& copy, size_t count, size_t bytes, base::TimePoint now);
    void note_use(base::TimePoint now);
    bool is_used(base::TimePoint now) const;
    void keep_paths_ready(base::TimePoint now);
    bool has_spread_flows() const {
        return flows_by_mode_[static_cast<size_t>(base::PathMode::Flow)] +
                   flows_by_mode_[static_cast<size_t>(base::PathMode::Packet)] >
               0;
    }

    // session_aggregate.cpp
    bool send_aggregate(base::TrafficClass traffic_class,
                        const Way& way,
                        TransmitBatch& batch,
                        base::TimePoint now);
    void send_split(Draft& draft,
                    ClassState& state,
                    const std::optional<CopyWay>& copy,
                    base::ByteWriter& body,
                    TransmitBatch& batch,
                    base::TimePoint now);
    size_t
    gather(ClassState& state, const Draft& draft, const Way& way, size_t used, base::TimePoint now);
    bool encode_what_fits(
        Draft& draft, ClassState& state, const Way& way, size_t& count, base::ByteWriter& body);
    void write_order(const Way& way, size_t count, base::ByteWriter& body);
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
    static uint16_t next_fragment_id(ClassState& state);
    std::optional<wire::Fragment> write_split_piece(ClassState& state,
                                                    Draft& draft,
                                                    base::ByteWriter& body,
                                                    TransmitBatch& batch);
    void account(ClassState& state, size_t count, TransmitBatch& batch, base::TimePoint now);

    // session_receive.cpp
    EpochState* epoch_of(uint8_t modulo);
    size_t
    gather_batch(std::span<ReceivedDatagram> datagrams, std::span<Opened> batch, size_t& taken);
    static uint32_t outer_bytes_of(const Opened& opened);
    void on_authentic(const Opened& opened, base::TimePoint now);
    void note_gap(const Opened& opened, uint64_t next, base::TimePoint now);
    void
    acknowledge(const Opened& opened, const BodyFacts& facts, AckKind kind, base::TimePoint now);
    void note_arrival(const Opened& opened,
                      const wire::Space& arrival,
                      bool is_highest,
                      base::TimePoint now);
    bool decode_body(const Opened& opened, BodyFacts& facts, base::TimePoint now);
    bool take_frame(const Opened& opened, const wire::BodyItem& item, BodyFacts& facts);
    static bool is_copy_allowed(const Opened& opened, const wire::Copy& copy);
    static bool is_delivered(const Opened& opened, const std::optional<wire::Copy>& copy);
    bool decode_fragments(const Opened& opened,
                          size_t section_bytes,
                          size_t& arena_used,
                          base::TimePoint now);
    bool decode_section(EpochState& epoch,
                        const wire::Section& section,
                        size_t& arena_used,
                        base::TimePoint now);
    base::ByteView inflate(base::ByteView content, size_t arena_used, base::TimePoint now);
    void on_epoch_heard(EpochState& epoch, base::TimePoint now);

    // session_frames.cpp
    void end_closed_flows(base::TimePoint now);
    void apply_frames(const Opened& opened, bool may_repeat, base::TimePoint now);
    void let_lt_ld_be_heard(const wire::Space& challenged, base::TimePoint now);
    void apply_ack(const Opened& opened, const wire::Ack& ack, base::TimePoint now);
    void on_ack_range(const Opened& opened,
                      EpochState& epoch,
                      const wire::Ack& ack,
                      const wire::AckRange& range,
                      base::TimePoint now);
    static uint8_t arrival_path(const Opened& opened);
    bool may_be_repeat(const Opened& opened, base::TimePoint now) const;
    EpochState* acknowledged_epoch(const Opened& opened, bool previous);

    // session_deliver.cpp
    // ORDER of the current datagram; bit n is its n-th flow.
    struct Ordering {
        const wire::Order* order = nullptr;
        uint32_t met = 0;
        uint32_t waiting = 0;  // flows whose packets are held
    };
    void deliver_entries(const Opened& opened, const wire::Order* order, base::TimePoint now);
    flow::Flow* deliver_entry(const Opened& opened,
                              const elision::DecodedEntry& entry,
                              Ordering& ordering,
                              base::TimePoint now);
    flow::Flow* flow_of_entry(const Opened& opened,
                              const elision::DecodedEntry& entry,
                              packet::HeaderFields& fields,
                              base::TimePoint now);
    void open_flows(const Opened& opened, base::TimePoint now);
    bool is_held(const Opened& opened,
                 const elision::DecodedEntry& entry,
                 flow::Flow& flow,
                 const packet::HeaderFields& fields,
                 Ordering& ordering,
                 base::TimePoint now);
    bool pays_for_packets(const Opened& opened, base::TimePoint now);
    void deliver_held(uint32_t index, base::TimePoint now);
    bool deliver_due(base::TimePoint now);
    void attribute_received(uint8_t path, uint32_t own, uint64_t& overhead);
    void count_way(flow::Flow& flow, uint8_t path, uint32_t packets, uint64_t waited_us) const;

    SessionSettings settings_;
    SessionHost& host_;
    SessionScratch& scratch_;
    base::Random& random_;
    base::DropCounters drops_;
    PathSet paths_;
    Router router_{paths_};
    Scheduler scheduler_;
    std::array<ClassState, base::kTrafficClasses> classes_;
    std::unique_ptr<EpochState> current_;
    std::unique_ptr<EpochState> previous_;
    bool is_receiving_ = false;  // in on_datagrams(), which uses epochs: none may end meanwhile
    Reassembly reassembly_;
    std::vector<flow::Flow*> flows_;  // by index
    flow::IndexAllocator indexes_;
    ClosedFlows closed_;
    size_t attached_ = 0;
    SessionCounters counters_;
    base::TimerTable<Timer> timers_;
    base::TimePoint heard_at_{};
    std::optional<Latest> latest_;
    base::TimePoint asked_to_repeat_at_ = base::kNever;  // node: by ANNOUNCE or a new port
    base::TimePoint packets_at_{};                       // last packets, in either direction
    base::TimePoint kept_alive_at_{};  // last datagram of lt-ld on the active path
    bool keepalive_due_ = false;
    bool keeps_idle_alive_ = true;
    SentRing sent_ring_;  // SNAPT
    Unheard unheard_;     // SNAPT
    RepeatPace repeat_pace_;
    RepeatLimit repeat_limit_;
    std::optional<Announced> waiting_move_;  // postponed by repeat_limit_
    SentRing kept_ring_;                     // packets that may have to be sent again as copies
    std::optional<uint8_t> sends_on_;        // the path of the last poll_transmit
    base::TimePoint sends_on_since_{};
    uint32_t sends_on_connection_ = 0;
    uint64_t lost_in_silence_ = 0;
    uint64_t retired_losses_ = 0;      // in epochs that have ended
    uint32_t split_outer_bytes_ = 0;   // all pieces of packets that this datagram completed
    uint32_t pieces_outer_bytes_ = 0;  // the pieces in this datagram
    ExpansionBudget expansion_;        // SNAPT: of what the node sends
    size_t paid_bytes_ = 0;            // inner bytes of the current datagram outside the budget
    CompressionGovernor compression_;
    CopyBudget copy_budget_;
    Resequencer resequencer_;
    std::array<size_t, base::kPathModes> flows_by_mode_{};  // attached
    bool are_arrivals_gathered_ = false;
    bool wants_ready_paths_ = false;
};

}  // namespace continuo::session
