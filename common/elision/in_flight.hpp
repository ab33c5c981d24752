// An encoder's record of datagrams that may still arrive (docs/PROTOCOL.md section 6.5, rules 1 to
// 4): the references they use or set, when they were sent, and the floor of each space. A record
// stands for up to 64 consecutive datagrams of a space with equal uses. Bounded by kMaxRecords,
// kMaxUseChunks and a memory budget; call make_room() first.
#pragma once

#include "common/elision/block_ring.hpp"
#include "common/elision/flow_context.hpp"

#include <span>

namespace continuo::elision {

inline constexpr size_t kMaxRecords = 16384;
inline constexpr size_t kMaxUseChunks = 8192;
inline constexpr uint32_t kMaxRecordDatagrams = 64;
inline constexpr size_t kMaxRecordsAtOnce = 32;

// One reference that a datagram uses or sets.
struct Use {
    uint32_t index : 16;
    uint32_t reference : 1;
    uint32_t sets : 1;
};

class InFlight {
  public:
    // `budget` must outlive this; null: no limit but those above.
    InFlight(PagedTable<FlowContext>& flows, base::MemoryBudget* budget)
        : flows_(flows), blocks_(budget), chunk_memory_(budget) {}
    InFlight(const InFlight&) = delete;
    InFlight& operator=(const InFlight&) = delete;
    ~InFlight() = default;

    void set_skew(Duration skew) { skew_ = skew; }
    // No datagram is given up as dead before `until`; kMaxRecords and kMaxUseChunks hold meanwhile.
    void spare(TimePoint until) { spared_until_ = std::max(spared_until_, until); }
    // True when a datagram sent then, and not acknowledged, counts as dead.
    bool has_given_up(TimePoint sent_at, TimePoint now) const {
        return sent_at <= evidence_ - skew_ && now >= spared_until_;
    }
    // Makes room for `records` more, whatever their spaces, kMaxRecordsAtOnce at most, with `uses`
    // in all.
    bool make_room(size_t records, size_t uses);
    // False when there are too many spaces.
    bool know_space(uint16_t space);
    // `count` datagrams from `first` on were sent.
    void count_sent(uint16_t space, uint64_t first, uint32_t count);
    // Keeps `count` datagrams from `first` on; `uses` have been counted in their contexts by the
    // caller. Without uses only a probe is kept, so that a flow that waits for an acknowledgement
    // sees one.
    void record(uint16_t space,
                uint64_t first,
                uint32_t count,
                TimePoint now,
                std::span<const Use> uses,
                std::span<const Floor> floors);
    // False, and nothing done, when a number was never sent.
    bool acknowledge(uint16_t space, uint64_t first, uint64_t last, TimePoint now);

    bool has_floors() const { return unacknowledged_floors_ > 0; }
    // A datagram with floors is on its way.
    bool has_carrier() const { return !carriers_.empty(); }
    void copy_floors(std::vector<Floor>& to) const;
    // Changes whenever a floor rises.
    uint64_t floor_version() const { return dead_datagrams_; }
    // Nothing was acknowledged for so long that references should not be used.
    bool is_silent(TimePoint now) const;
    // Nothing was sent for long.
    bool is_idle(TimePoint now) const;
    void release_memory();

    size_t records() const { return records_; }
    uint64_t dead_datagrams() const { return dead_datagrams_; }

  private:
    static constexpr size_t kInlineUses = 3;
    static constexpr uint32_t kNoChunk = UINT32_MAX;
    struct Record {
        uint64_t first = 0;
        uint64_t outstanding = 0;  // bit i: first + i
        TimePoint first_sent{};
        TimePoint last_sent{};
        std::array<Use, kInlineUses> uses{};
        uint32_t more_uses = kNoChunk;
        uint8_t use_count = 0;  // inline
        uint8_t count = 0;
        bool has_floors = false;
        bool may_grow = false;
    };
    struct UseChunk {
        static constexpr size_t kUses = 7;
        std::array<Use, kUses> uses{};
        uint8_t use_count = 0;
        uint32_t next = kNoChunk;
    };
    struct Space {
        uint16_t space = 0;
        uint64_t next_sequence = 0;
        uint64_t acknowledged_end = 0;  // behind the highest number that was acknowledged
        uint64_t floor = 0;
        uint64_t acknowledged_floor = 0;
        BlockRing<Record> records;
        size_t settled = 0;  // records without anything outstanding, behind one that has
    };
    // A datagram whose acknowledgement acknowledges a floor.
    struct FloorCarrier {
        uint16_t space = 0;
        uint64_t sequence = 0;
        Floor floor;
    };
    struct Probe {
        uint16_t space = 0;
        uint64_t sequence = 0;
        TimePoint sent_at{};
        bool in_use = false;
    };
    enum class Outcome : uint8_t { Acknowledged, Dead };

    Space* find(uint16_t space);
    bool
    grow(Record& last, uint64_t first, uint32_t count, TimePoint now, std::span<const Use> uses);
    void store_uses(Record& record, std::span<const Use> uses);
    void add_probe(uint16_t space, uint64_t sequence, TimePoint now);
    bool acknowledge_probes(uint16_t space, uint64_t first, uint64_t last);
    void release(uint16_t space, Record& record, Outcome outcome);
    void release(Use use, Outcome outcome);
    void settle_carriers(uint16_t space, uint64_t sequence, Outcome outcome);
    void drop_settled(TimePoint now);
    void kill(Space& space, Record& record);
    void count_floors();
    bool make_room_for_uses(size_t uses);

    PagedTable<FlowContext>& flows_;
    BlockPool<Record> blocks_;
    base::MemoryShare chunk_memory_;
    std::vector<Space> spaces_;
    std::vector<UseChunk> chunks_;
    std::vector<FloorCarrier> carriers_;
    std::vector<Probe> probes_;
    uint32_t free_chunk_ = kNoChunk;
    size_t chunks_in_use_ = 0;
    size_t records_ = 0;
    size_t last_space_ = 0;
    size_t unacknowledged_floors_ = 0;
    uint64_t dead_datagrams_ = 0;
    Duration skew_ = kMinimumSkew;
    TimePoint spared_until_{};
    TimePoint evidence_{};  // latest sending time known to have arrived
    TimePoint unanswered_since_ = base::kNever;
    TimePoint last_sent_at_ = TimePoint::min();
    TimePoint last_probe_at_ = TimePoint::min();
};

}  // namespace continuo::elision
