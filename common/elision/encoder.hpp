// Encoder: writes packets as entries of sections (docs/PROTOCOL.md sections 6.3 to 6.5). One for
// each (session, epoch, direction, lane); ends with its epoch. Pure, one thread. Builds one
// datagram at a time:
//
//   begin_datagram, write floors() as FLOOR frames, { begin_section, append..., close_section }...,
//   end_datagram
//
// abort_datagram undoes everything since begin_datagram; retry_datagram keeps begin_datagram and
// floors() and undoes the rest. Pass every acknowledged run to on_acknowledged. A datagram that may
// be acknowledged but has no entries (a PING) needs begin_datagram and end_datagram as well.
#pragma once

#include "common/elision/entry_bytes.hpp"
#include "common/elision/in_flight.hpp"
#include "common/elision/segment_form.hpp"

namespace continuo::elision {

struct DatagramSummary {
    bool is_stateful = false;  // the receiver will acknowledge it
    bool has_set = false;      // and its acknowledgement is urgent
    uint32_t entries = 0;
};

// May the datagram set references? Not a copy, and not one that is split over several.
enum class Setting : uint8_t { Allowed, Forbidden };
// Counted: the length is written. ToEnd: the payload extends to the end of the section, which takes
// no further entry.
enum class Extent : uint8_t { Counted, ToEnd };

// A packet of any kind as an entry; what append_whole writes.
void write_whole_entry(ByteView packet, ByteWriter& writer);

struct EncoderCounters {
    uint64_t whole = 0;
    uint64_t opens = 0;  // OPEN, with and without SET
    uint64_t first = 0;  // against a reference
    uint64_t later = 0;  // against the entry before
    uint64_t sets = 0;
    uint64_t postponed_sets = 0;  // for want of a FLOOR in the datagram
    uint64_t unrecorded = 0;      // entries without reference because records were full
};

class Encoder {
  public:
    // `memory`, for the record of what is in flight, must outlive this; null: no limit but
    // kMaxRecords. Where there is none, headers refer to nothing, as when the record is full.
    explicit Encoder(packet::NodeSide side,
                     Duration skew = kMinimumSkew,
                     base::MemoryBudget* memory = nullptr);
    Encoder(const Encoder&) = delete;
    Encoder& operator=(const Encoder&) = delete;
    ~Encoder() = default;

    void set_skew(Duration skew) { in_flight_.set_skew(skew); }
    // Datagrams in flight are not given up before then: they may be repeated unchanged.
    void spare(TimePoint until) { in_flight_.spare(until); }
    // True when a datagram sent then, and not acknowledged, counts as lost: a FLOOR may refuse it.
    bool has_given_up(TimePoint sent_at, TimePoint now) const {
        return in_flight_.has_given_up(sent_at, now);
    }
    // False when the index is above kMaxFlowIndex. An index may be added again at once: until late
    // datagrams of its former flow are settled, packets are OPENs without SET.
    bool add_flow(uint32_t index, const OpenInfo& info);
    void remove_flow(uint32_t index);
    bool has_flow(uint32_t index) const;

    // `sequence` is not below that of an earlier datagram of the space.
    void begin_datagram(uint16_t space,
                        uint64_t sequence,
                        TimePoint now,
                        Setting setting = Setting::Allowed);
    // FLOOR frames that this datagram must carry before its sections; valid until end or abort.
    std::span<const Floor> floors() const { return floors_; }
    void begin_section();
    // Entry head, elided header and payload. False, and nothing written, when it does not fit or
    // the datagram has kMaxEntries. The node's address in `fields` is not sent. The flow must have
    // been added.
    bool append(uint32_t index,
                const HeaderFields& fields,
                ByteView payload,
                Extent extent,
                ByteWriter& writer);
    // A packet of any kind as it is.
    bool append_whole(ByteView packet, ByteWriter& writer);
    // Tells the other end of the flow without a packet (an OPEN of form context), so that it is
    // open already when only whole packets were sent.
    bool append_context(uint32_t index, const HeaderFields& fields, ByteWriter& writer);
    // An OPEN with SET was sent and not given up: the flow is open or about to be.
    bool is_opening(uint32_t index) const;
    // Makes the last entry's payload reach to the end of the section, if that is shorter (the
    // payload is moved).
    void close_section(ByteWriter& writer);
    // The datagram contains something about this flow (CLOSED) that must not arrive after its index
    // is reused. Call before its first section; retry_datagram keeps it.
    void count_user(uint32_t index);
    // `datagrams`: over how many, with consecutive numbers, the content was split; at most
    // kMaxRecordDatagrams.
    DatagramSummary end_datagram(uint32_t datagrams = 1);
    void abort_datagram();
    // Rewrites all sections. floors() stay the same: only FLOORs that are written count.
    void retry_datagram();

    // Upper bound of what append writes before the payload, unless what is static in the flow
    // changes (kMaxOpenBytes).
    size_t max_entry_bytes(uint32_t index) const;
    // A flow waits for FLOOR frames: build the next datagram with begin_datagram, not as a run of
    // segments. The receiver acknowledges every datagram with a FLOOR.
    bool wants_floor() const { return wants_floor_; }

    // The form of a super-packet's segments, each alone in a datagram in one raw section. `first`
    // are the fields of the first segment, but flags as in the super-packet: PSH and FIN go to the
    // last segment, CWR to the first. TCP and UDP. Changes nothing on the wire's state.
    SegmentForm plan_segments(uint32_t index,
                              const HeaderFields& first,
                              uint32_t segment_bytes,
                              uint32_t segments,
                              uint32_t last_bytes,
                              TimePoint now);
    // `count` segments of `form` from number `first_segment` on are sent in datagrams from
    // `first_sequence` on.
    void record_segments(const SegmentForm& form,
                         uint32_t first_segment,
                         uint32_t count,
                         uint16_t space,
                         uint64_t first_sequence,
                         TimePoint now);

    // One run of an ACK, both ends included. False, and nothing done, when it has numbers that were
    // never sent.
    bool on_acknowledged(uint16_t space, uint64_t first, uint64_t last, TimePoint now);
    // Call at intervals of seconds: frees memory that an idle encoder does not need.
    void on_time(TimePoint now);

    const EncoderCounters& counters() const { return counters_; }
    size_t records_in_flight() const { return in_flight_.records(); }
    uint64_t dead_datagrams() const { return in_flight_.dead_datagrams(); }

  private:
    // A packet, or a flow's latest entry in the section being written.
    struct FlowPacket {
        uint32_t index = 0;
        FlowStatics statics;
        PacketValues values;
    };
    enum class Form : uint8_t { Open, First, Later };
    // The decision about one entry.
    struct Draft {
        Form form = Form::Open;
        bool sets = false;
        EntryBytes entry;
    };
    // Position of the last entry's length field in the writer.
    struct LastLength {
        size_t at = 0;
        size_t bytes = 0;  // 0: nothing to gain
        size_t bits_at = 0;
        uint8_t change = 0;  // bits that change; 0: the length becomes a zero byte (OPEN)
    };

    FlowContext& added(uint32_t index);
    FlowPacket* latest_in_section(uint32_t index, const FlowContext& flow);
    bool has_floor_for(const FlowContext& flow, uint32_t reference);
    void undo_uses(size_t kept);
    bool may_set(const FlowContext& flow, uint32_t reference, bool wanted);
    bool may_open(const FlowContext& flow, const FlowStatics& statics);
    bool may_refer(const FlowContext& flow, const FlowStatics& statics);
    void draft(Draft& draft,
               const FlowPacket& packet,
               FlowContext& flow,
               const FlowPacket* before,
               bool to_end);
    void draft_first(Draft& draft, const FlowPacket& packet, FlowContext& flow, bool to_end);
    void note(const Draft& draft, const FlowPacket& packet, FlowContext& flow, FlowPacket* before);
    void set(FlowContext& flow, const FlowPacket& packet, uint32_t reference, bool opens);
    void use(uint32_t index, FlowContext& flow, uint32_t reference, bool sets);
    void plan_references(SegmentForm& form,
                         EntryBytes& entry,
                         FlowContext& flow,
                         const PacketValues& last);
    void plan_opens(SegmentForm& form, EntryBytes& entry, const FlowContext& flow);

    packet::NodeSide side_;
    PagedTable<FlowContext> flows_;
    InFlight in_flight_;
    std::vector<FlowPacket> section_;
    std::vector<Use> uses_;
    size_t frame_uses_ = 0;  // the first of them, which frames made
    std::vector<Floor> floors_;
    uint64_t floor_version_ = 0;  // version of the floors in floors_
    LastLength last_length_;
    EncoderCounters counters_;
    TimePoint now_{};
    uint64_t sequence_ = 0;
    uint32_t entries_ = 0;
    uint16_t space_ = 0;
    bool is_building_ = false;
    bool may_use_ = false;  // records have room and the other end answers
    bool may_set_ = false;
    bool is_stateful_ = false;
    bool has_set_ = false;
    bool section_is_full_ = false;
    bool wants_floor_ = false;
};

}  // namespace continuo::elision
