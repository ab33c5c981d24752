// SentRing: what was sent lately, so that it can be sent again. SNAPT keeps what it has sealed,
// octet for octet, for when the return path moves (docs/PROTOCOL.md section 5.6): what was on its
// way to the old address is lost, and only SNAPT still has it. Packets that may have to be sent
// again as copies are kept as well (session_kept.cpp). Memory grows with what a round trip holds,
// up to kMaxSentRingBytes and what its budget has left; beyond that the oldest is forgotten, and
// where there is no memory at all nothing is kept.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/memory_budget.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/session/path_types.hpp"

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

// A datagram, or a run of equal ones whose sequence numbers follow each other; or a packet that was
// alone in its datagram.
struct SentEntry {
    static constexpr uint32_t kNoFlow = UINT32_MAX;

    base::TimePoint sent_at{};
    uint64_t first_sequence = 0;
    uint32_t epoch = 0;
    uint32_t length = 0;
    uint16_t space = 0;
    uint16_t segment_bytes = 0;  // 0: one datagram
    uint16_t datagrams = 1;
    uint32_t flow_index = kNoFlow;  // of the packet
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::TrafficClass tuple_class = base::TrafficClass::LtLd;  // whose tuple it went to
    bool is_due = false;                                        // to be sent again
    uint16_t repeated = 0;     // of its datagrams, since it became due
    PathMask repeated_on = 0;  // paths on which it was sent again, in whole or in part
    uint8_t repeats = 0;       // how often it was sent again
    size_t offset = 0;         // the ring's own
};

// How entries that are due leave: `bytes` of them in `span`, but for `at_once` at the beginning.
struct RepeatPace {
    base::Duration span{};
    uint64_t bytes = 0;
    uint64_t at_once = 0;
    base::TimePoint next_at{};  // when the next one may leave
};

// An announcement after which what was under way may have to be repeated, or a new address without
// one.
struct Announced {
    std::optional<uint8_t> former;  // the path that was active
    bool has_moved = false;         // to another one, or to a new connection
    bool is_new_connection = false;
    ClassMask lost_classes = kAllClasses;  // those whose tuples the node had
};

// How often a node makes SNAPT look for what was under way, and tell of its move: kBurst times at
// once, then once in kInterval (docs/PROTOCOL.md section 5.6).
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
    // `budget`: null for no limit but the ring's own.
    explicit SentRing(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    // Copies `bytes`, which are one sendmsg long at most. Forgets what was sent before `keep_from`,
    // unless it is due.
    void push(SentEntry entry, base::ByteView bytes, base::TimePoint keep_from);
    // Forgets the oldest one after the other while `has_arrived(const SentEntry&)`, but none that
    // is due.
    template <typename HasArrived>
    void forget_oldest(const HasArrived& has_arrived) {
        while (count_ > 0 && !at(0).is_due && has_arrived(at(0))) {
            pop();
        }
    }
    // Marks what `is_missing(SentEntry&)` names as due, and nothing else. One that was due goes on
    // where it is, unless that sets `repeated` to 0.
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
    // Its packets are of no use any more.
    void forget_flow(uint32_t index);
    void keep_newest(size_t entries);
    // The due entry that was sent first, low-delay classes before others. Only with has_due().
    SentEntry& next_due();
    base::ByteView bytes(const SentEntry& entry) const {
        return {bytes_.get() + entry.offset, entry.length};
    }
    // It was sent again.
    void done(SentEntry& entry, base::TimePoint now);
    // Gives the memory back when nothing was sent since `keep_from`, else half of it when a quarter
    // is enough.
    void release(base::TimePoint keep_from);
    // Forgets everything and gives the memory back.
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
    size_t tail_ = 0;  // where the next one begins
    std::vector<SentEntry> entries_;
    size_t first_ = 0;
    size_t count_ = 0;
    size_t due_ = 0;
    // Where next_due() goes on, as a count of all entries that ever were; low-delay ones first.
    uint64_t popped_ = 0;
    uint64_t cursor_ = 0;
    bool is_low_delay_turn_ = true;
};

}  // namespace continuo::session
