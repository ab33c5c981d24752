// SentRing: datagrams sent recently, kept so that they can be sent again. SNAPT keeps the sealed
// octets for when the return path moves (docs/PROTOCOL.md section 5.6): datagrams on their way to
// the old address are lost, and only SNAPT still has them. Packets that may be sent again as copies
// are kept in one as well (KeptPackets). Memory grows with what a round trip holds, up to
// kMaxSentRingBytes and what the memory budget has left; beyond that the oldest is forgotten, and
// without memory nothing is kept.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/memory_budget.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/routing/path_types.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace continuo::session {

inline constexpr size_t kMaxSentRingBytes = size_t{2} * 1024 * 1024;
inline constexpr size_t kMaxSentRingEntries = 4096;
// Older datagrams are not sent again.
inline constexpr base::Duration kUsefulFor = base::seconds(10);
// A ring to which nothing was added for this long frees its memory.
inline constexpr base::Duration kReleaseAfter = base::seconds(30);

// A datagram, a run of equal ones with consecutive sequence numbers, or a packet that was alone in
// its datagram.
struct SentEntry {
    static constexpr uint32_t kNoFlow = UINT32_MAX;

    base::TimePoint sent_at{};
    uint64_t first_sequence = 0;
    uint32_t epoch = 0;
    uint32_t length = 0;
    uint16_t space = 0;
    uint16_t segment_bytes = 0;  // 0: one datagram
    uint16_t datagrams = 1;
    uint32_t flow_index = kNoFlow;  // the packet's
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::TrafficClass tuple_class = base::TrafficClass::LtLd;  // class of its tuple
    bool is_due = false;                                        // to be sent again
    uint16_t repeated = 0;              // datagrams sent again since it became due
    routing::PathMask repeated_on = 0;  // paths on which any of it was sent again
    uint8_t repeats = 0;                // how many times it was sent again
    size_t offset = 0;                  // for the ring's own use
};

// Rate at which due entries leave: `bytes` in `span`, after `at_once` at the beginning.
struct RepeatPace {
    base::Duration span{};
    uint64_t bytes = 0;
    uint64_t at_once = 0;
    base::TimePoint next_at{};  // when the next one may leave
};

// An announcement, or a new address without one, after which datagrams under way may be lost.
struct Announced {
    std::optional<uint8_t> former;  // the path that was active
    bool has_moved = false;         // to another path, or to a new connection
    bool is_new_connection = false;
    path::ClassMask lost_classes = path::kAllClasses;  // classes whose tuples the node had
};

// Limits how often a node makes SNAPT look for datagrams under way and announce its move: kBurst
// times at once, then once per kInterval (docs/PROTOCOL.md section 5.6).
class RepeatLimit {
  public:
    static constexpr int64_t kBurst = 8;
    static constexpr base::Duration kInterval = base::milliseconds(500);

    // False: not before free_at().
    bool take(base::TimePoint now) {
        if (now < free_at()) {
            return false;
        }
        paid_until_ = std::max(paid_until_, now) + kInterval;
        return true;
    }
    base::TimePoint free_at() const { return paid_until_ - kInterval * (kBurst - 1); }

  private:
    base::TimePoint paid_until_{};
};

class SentRing {
  public:
    // `budget`: null: only the ring's own limit.
    explicit SentRing(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    // Copies `bytes`, at most one sendmsg. Forgets entries sent before `keep_from` unless they are
    // due.
    void push(SentEntry entry, base::ByteView bytes, base::TimePoint keep_from);
    // Forgets the oldest entries while `has_arrived(const SentEntry&)`, except those that are due.
    template <typename HasArrived>
    void forget_oldest(const HasArrived& has_arrived) {
        while (count_ > 0 && !at(0).is_due && has_arrived(at(0))) {
            pop();
        }
    }
    // Marks exactly the entries for which `is_missing(SentEntry&)` is true as due. An entry that
    // was due continues where it is unless the call sets `repeated` to 0.
    template <typename IsMissing>
    void mark_due(const IsMissing& is_missing) {
        due_ = 0;
        cursor_ = popped_;
        is_low_delay_turn_ = true;
        for (size_t i = 0; i < count_; ++i) {
            SentEntry& entry = at(i);
            entry.repeated = entry.is_due ? entry.repeated : uint16_t{0};
            entry.is_due = is_missing(entry);
            due_ += entry.is_due ? 1U : 0U;
        }
    }
    bool has_due() const { return due_ > 0; }
    // The flow's packets need not be sent again.
    void forget_flow(uint32_t index);
    void keep_newest(size_t entries);
    // The due entry that was sent first, low-delay classes before others. Requires has_due().
    SentEntry& next_due();
    base::ByteView bytes(const SentEntry& entry) const {
        return {bytes_.get() + entry.offset, entry.length};
    }
    // The entry was sent again.
    void done(SentEntry& entry, base::TimePoint now);
    // Frees the memory when nothing was sent since `keep_from`; halves it when a quarter is enough.
    void release(base::TimePoint keep_from);
    // Forgets everything and frees the memory.
    void clear();

    size_t entries() const { return count_; }
    size_t capacity_bytes() const { return capacity_; }

  private:
    SentEntry& at(size_t i) { return entries_[(first_ + i) % entries_.size()]; }
    void pop();
    bool reserve(size_t length, size_t& offset);
    bool make_room(size_t length, size_t& offset);
    bool grow_bytes(size_t length);
    bool grow_entries();
    void move_bytes(size_t capacity);
    void move_entries(size_t size);
    void shrink();
    size_t used_bytes() const;
    void forget(SentEntry& entry);

    base::MemoryShare memory_;
    std::unique_ptr<uint8_t[]> bytes_;
    size_t capacity_ = 0;
    size_t tail_ = 0;  // where the next entry begins
    std::vector<SentEntry> entries_;
    size_t first_ = 0;
    size_t count_ = 0;
    size_t due_ = 0;
    // Where next_due() continues, as a count of all entries ever added; low-delay ones first.
    uint64_t popped_ = 0;
    uint64_t cursor_ = 0;
    bool is_low_delay_turn_ = true;
};

}  // namespace continuo::session
