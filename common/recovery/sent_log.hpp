// SentLog: the datagrams sent on one path that are not settled yet, in sending order across all
// number spaces. A run is up to 64 consecutive datagrams of a space that left together; one bit
// each holds its state. Bounded by kMostRuns, and by what the memory budget has left beyond
// kFewestRuns. When full, the oldest run is forgotten and counts neither as delivered nor as lost.
// Memory grows with use and is freed when empty.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/base/time.hpp"
#include "common/wire/constants.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace continuo::recovery {

// A sequence of datagram numbers: (epoch, wire::space_number). Each epoch counts from 0.
struct NumberSpace {
    uint32_t epoch = 0;
    uint16_t space = 0;
    bool operator==(const NumberSpace&) const = default;
};

struct SentRun {
    base::TimePoint sent_at{};       // its first datagram
    base::TimePoint last_sent_at{};  // its last one
    uint64_t outstanding = 0;        // bit i: first + i is neither acknowledged nor lost
    uint64_t lost = 0;               // bit i: declared lost, and not acknowledged since
    // Delivery state when the run left (draft-cheng-iccrg-delivery-rate-estimation, 3.2).
    uint64_t delivered_bytes = 0;
    base::TimePoint delivered_at{};
    base::TimePoint first_sent_at{};
    uint32_t first = 0;  // number of bit 0
    NumberSpace space;
    uint16_t bytes = 0;  // an outer IP packet's; the last one of a run may be shorter
    uint16_t last_bytes = 0;
    uint8_t count = 0;
    bool has_packets = false;
    bool asks = false;           // has a PING: an acknowledgement is owed
    bool is_size_probe = false;  // its loss concerns its size only
    bool is_app_limited = false;
    bool is_other_way = false;  // it took another way than its class does (ClassWay)
    bool is_repeat = false;     // sent again under the same numbers, which may be another path's

    uint32_t last() const { return first + count - 1U; }
    // When `number` of this run left: interpolated between the first and the last.
    base::TimePoint sent_at_of(uint32_t number) const {
        const int64_t gaps = std::max(count - 1, 1);
        return sent_at + (last_sent_at - sent_at) * static_cast<int64_t>(number - first) / gaps;
    }
    // Bits of the numbers from `from` to `to` that lie in this run.
    uint64_t mask(uint32_t from, uint32_t to) const;
    // Outer bytes of the datagrams in `bits`.
    uint64_t bytes_of(uint64_t bits) const {
        const auto datagrams = static_cast<uint64_t>(std::popcount(bits));
        const bool has_last = count > 0 && (bits >> (count - 1U) & 1U) != 0;
        return datagrams * bytes - (has_last ? bytes - last_bytes : 0U);
    }
    // Outer bytes of the longest datagram in `bits`, which must not be empty.
    uint16_t largest_of(uint64_t bits) const {
        const bool is_last_alone =
            count > 0 && bits >> (count - 1U) == 1 && std::has_single_bit(bits);
        return is_last_alone ? last_bytes : bytes;
    }
};

class SentLog {
  public:
    static constexpr uint8_t kMostDatagrams = 64;  // in a run
    static constexpr size_t kMostRuns = 1024;
    static constexpr size_t kFewestRuns = 16;  // guaranteed to each log, whatever the budget says
    // The classes of two epochs. A further space replaces the least recently used one.
    static constexpr size_t kMostSpaces = 8;
    // The same for the spaces of repeated runs: several classes of each path that was left. Runs of
    // a space that was replaced are found no more; they settle when they count as lost.
    static constexpr size_t kMostRepeatSpaces = 32;

    // `budget`: null: only kMostRuns limits the log.
    explicit SentLog(base::MemoryBudget* budget = nullptr) : memory_(budget) {}

    // Positions count all runs ever added.
    using Position = uint64_t;
    Position begin() const { return begin_; }
    Position end() const { return end_; }
    SentRun& at(Position position) { return runs_[position % runs_.size()].run; }
    const SentRun& at(Position position) const { return runs_[position % runs_.size()].run; }

    // Sets `run.outstanding`. Merges the run into the newest one if it continues the same space
    // with the same kind and size within `span`. Returns the run that was forgotten for it; nothing
    // is outstanding in it if none was.
    SentRun push(SentRun run, base::Duration span);
    // Calls on_run(position, run, newly acknowledged bits, bits that had been declared lost) for
    // the runs that hold numbers of [first, last], newest first, and marks them. Visits only those
    // runs, also where all has been taken out of them, and no repeated one. Returns false and does
    // nothing if `last` was never sent or the space is unknown.
    template <typename OnRun>
    bool acknowledge(const NumberSpace& space, uint32_t first, uint32_t last, const OnRun& on_run) {
        Chain* const chain = find(space, false);
        if (chain == nullptr || last >= chain->next_number || first > last) {
            return false;
        }
        take_numbers(*chain, first, last, on_run);
        return true;
    }
    // The same for repeated runs. Numbers that were not repeated are skipped.
    template <typename OnRun>
    void acknowledge_repeats(const NumberSpace& space,
                             uint32_t first,
                             uint32_t last,
                             const OnRun& on_run) {
        if (Chain* const chain = find(space, true)) {
            take_numbers(*chain, first, last, on_run);
        }
    }
    // The numbers are sent again: calls on_run(run, outstanding bits) for the runs that hold some
    // of them. They are neither outstanding nor lost any more.
    template <typename OnRun>
    void take_out(const NumberSpace& space, uint32_t first, uint32_t last, const OnRun& on_run) {
        for (const bool is_repeat : {false, true}) {
            if (Chain* const chain = find(space, is_repeat)) {
                take_numbers(*chain, first, last,
                             [&](Position /*position*/, const SentRun& run, uint64_t outstanding,
                                 uint64_t /*lost*/) { on_run(run, outstanding); });
            }
        }
    }
    // Repeated runs are in the log.
    bool has_repeats() const { return repeats_end_ > begin_; }
    // The number left, as a repeat or not, and no ACK has named it since.
    bool is_waiting(const NumberSpace& space, bool is_repeat, uint32_t number) const {
        const SentRun* const run = run_with(space, is_repeat, number);
        return run != nullptr && (run->mask(number, number) & (run->outstanding | run->lost)) != 0;
    }
    // The number was declared lost and not acknowledged since. False if the log does not know it.
    bool is_lost(const NumberSpace& space, uint32_t number) const;
    // The span within which datagrams should merge so that a filling log lasts: above half full, a
    // small fraction of the time that the log covers.
    base::Duration span_when_crowded(base::TimePoint now) const {
        const size_t most = is_short_of_memory_ ? runs_.size() : kMostRuns;
        return end_ - begin_ > most / 2
                   ? (now - at(begin_).sent_at) / static_cast<int64_t>(most / 8)
                   : base::Duration{};
    }
    // Drops settled runs from the front. Runs lost and sent before `late_from` are no longer
    // expected.
    void settle(base::TimePoint late_from);
    // Frees memory that is not in use.
    void release();

    // Outstanding datagrams of forgotten runs.
    uint64_t forgotten_datagrams() const { return forgotten_datagrams_; }
    size_t capacity() const { return runs_.capacity(); }

  private:
    // The runs of one space form a skip list (Myers, "An applicative random-access stack", 1983):
    // each knows the run before it and one further back, so any run is found in a logarithmic
    // number of steps. Positions below begin() are forgotten runs; 0: none.
    struct Entry {
        SentRun run;
        Position back = 0;
        Position jump = 0;
        uint32_t depth = 0;  // runs of the space before it, since the first one
    };
    struct Chain {
        NumberSpace space;
        Position newest = 0;
        uint32_t next_number = 0;
        // The finger: the last run found, and the number behind the one sought. An ACK names its
        // ranges newest first, so each search goes on from the one before. 0: no number.
        Position found = 0;
        uint64_t sought_end = 0;
    };

    Entry& entry_at(Position position) { return runs_[position % runs_.size()]; }
    const Entry& entry_at(Position position) const { return runs_[position % runs_.size()]; }
    const Chain* find(const NumberSpace& space, bool is_repeat) const;
    Chain* find(const NumberSpace& space, bool is_repeat);
    // Calls on_run as acknowledge() does.
    template <typename OnRun>
    void take_numbers(Chain& chain, uint32_t first, uint32_t last, const OnRun& on_run) {
        const Position start = last < chain.sought_end ? chain.found : chain.newest;
        chain.found = run_at_or_below(start, last);
        chain.sought_end = uint64_t{last} + 1;
        for (Position position = chain.found; position >= begin_;) {
            Entry& entry = entry_at(position);
            if (entry.run.last() < first) {
                break;
            }
            const uint64_t bits = entry.run.mask(first, last);
            const uint64_t newly = bits & entry.run.outstanding;
            const uint64_t late = bits & entry.run.lost;
            if ((newly | late) != 0) {
                entry.run.outstanding &= ~newly;
                entry.run.lost &= ~late;
                on_run(position, entry.run, newly, late);
            }
            position = entry.back;
        }
    }
    // The run that holds the number; null: none does.
    const SentRun* run_with(const NumberSpace& space, bool is_repeat, uint32_t number) const;
    // The newest run, from `newest` back, that begins at or below `number`; a forgotten run or 0:
    // none.
    Position run_at_or_below(Position newest, uint32_t number) const;
    Position jump_behind(Position newest) const;
    Chain& find_or_make(const NumberSpace& space, bool is_repeat);
    static bool joins(const SentRun& former, const SentRun& run, base::Duration span);
    SentRun make_room();
    // Returns false if the memory budget does not allow so many.
    bool resize(size_t size);

    base::MemoryShare memory_;
    std::vector<Entry> runs_;
    bool is_short_of_memory_ = false;  // the last growth of runs_ was refused
    Position begin_ = 1;
    Position end_ = 1;
    Position repeats_end_ = 0;  // behind the newest repeated run
    // Repeats are apart: their numbers are lower than those that the space has reached.
    std::vector<Chain> chains_;
    std::vector<Chain> repeat_chains_;
    uint64_t forgotten_datagrams_ = 0;
};

}  // namespace continuo::recovery
