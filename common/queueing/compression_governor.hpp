// CompressionGovernor: whether super-packets are cut into segments and compressed, or leave as they
// are. Sending a segment of a super-packet costs next to nothing, compressing one about 10 us. That
// pays while the link is the bottleneck, and must stop when the processor is (DECISIONS,
// "Super-packets are compressed while the processor has time"). Only this class decides it.
//
// CompressionLoad measures the time that compression costs a thread: one per loop, shared by its
// sessions. CompressionGovernor decides for one session. Both are pure and for one thread.
#pragma once

#include "common/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace continuo::queueing {

// Sum of recent amounts, in slots of a tenth of the window.
class RecentSum {
  public:
    // Long enough for the bursts that TCP sends in a round trip, short enough to notice a stream
    // that speeds up before it has lost much.
    static constexpr base::Duration kWindow = base::milliseconds(100);
    static constexpr size_t kSlots = 10;
    static constexpr base::Duration kSlot = kWindow / kSlots;

    void add(uint64_t amount, base::TimePoint now);
    uint64_t sum(base::TimePoint now) const;
    // Sum of the slot that `now` is in.
    uint64_t newest(base::TimePoint now) const;

  private:
    static int64_t number_at(base::TimePoint now) { return now.time_since_epoch() / kSlot; }
    std::array<uint64_t, kSlots> slots_{};
    int64_t newest_ = 0;
};

// The fraction of recent time that was spent on something.
class RecentTime {
  public:
    void add(base::Duration spent, base::TimePoint now) {
        ns_.add(static_cast<uint64_t>(spent.count()), now);
    }
    double share(base::TimePoint now) const {
        return static_cast<double>(ns_.sum(now)) / static_cast<double>(RecentSum::kWindow.count());
    }
    // The same for the slot that `now` is in.
    double newest_share(base::TimePoint now) const {
        return static_cast<double>(ns_.newest(now)) / static_cast<double>(RecentSum::kSlot.count());
    }

  private:
    RecentSum ns_;
};

class CompressionLoad {
  public:
    using Clock = base::TimePoint (*)();
    // Cost of one byte of an inner packet (compress, elide, seal) until it is measured:
    // level 3 of zstd on 1400 bytes of English takes 9 ns (docs/BENCHMARKS.md).
    static constexpr double kAssumedNsPerByte = 10.0;
    // Weight of one datagram in the cost per byte, and the largest factor by which it may differ:
    // other threads may have had the core meanwhile.
    static constexpr double kGain = 1.0 / 64;
    static constexpr double kMostOff = 4.0;

    // `clock` must also run while other threads have the core: a shared core makes compression cost
    // more. Null, the default: nothing is measured and kAssumedNsPerByte holds.
    void measure_with(Clock clock) { clock_ = clock; }

    // Call begin() for a datagram, then when a part of it is compressed, then when it is complete,
    // with its inner bytes. The last returns the time since the second; nothing if nothing was
    // compressed.
    void begin() { is_compressing_ = false; }
    void note_compressing();
    std::optional<base::Duration> end(uint64_t inner_bytes, base::TimePoint now);

    double ns_per_byte() const { return ns_per_byte_; }
    // The fraction of `span` that compressing `bytes` takes.
    double share_of(uint64_t bytes, base::Duration span) const;
    // Share of the loop's recent time that compression took.
    double share(base::TimePoint now) const { return spent_.share(now); }

  private:
    Clock clock_ = nullptr;
    RecentTime spent_;
    double ns_per_byte_ = kAssumedNsPerByte;
    bool is_compressing_ = false;
    base::TimePoint began_at_{};
};

// State of the path in use, from acknowledgements.
struct PathPace {
    bool is_full = false;
    uint64_t bytes_per_s = 0;  // outer packets; 0: unknown
};

class CompressionGovernor {
  public:
    // Share of a core for compression on an unknown path: a quarter leaves room for
    // everything else that the loop does, and lets 200 Mbit/s of text through at 10 ns a byte.
    static constexpr double kFreeShare = 0.25;
    // The same where the path is full, so that compression speeds up the transfer; also the limit
    // within one slot, so that other sessions wait at most 7.5 ms. The rest is for reading and
    // sending on the same thread.
    static constexpr double kMostShare = 0.75;
    // Typical ratio of compressed text: a full path of 1 MB/s then has 2 MB/s to compress.
    static constexpr double kTypicalRatio = 0.5;
    // A path also looks full when a processor is the bottleneck, here or behind it; compression
    // would then slow the transfer down. So above kFreeShare compression must reach kLeastGain of
    // the rate that the session had uncompressed on a full path (sums over slots differ by a
    // tenth), measured within kRawKnown. After a slower trial there is none for kDoubt. Each kind
    // of trial costs at most 2 % of the transfer if it is in vain.
    static constexpr double kLeastGain = 0.8;
    static constexpr base::Duration kRawKnown = base::seconds(10);
    static constexpr base::Duration kDoubt = base::seconds(5);
    // Minimum time between two changes: a change of rate needs some round trips to show.
    static constexpr base::Duration kShortestStay = base::milliseconds(200);
    // No compression for this long after more came than the processor could compress. A stream that
    // pauses for less (a stalled machine, or TCP's first timer of 0.2 s) is as fast as before when
    // it goes on.
    static constexpr base::Duration kFastFor = base::milliseconds(400);

    // A super-packet arrived that may be compressed.
    void on_arrival(uint64_t bytes, base::TimePoint now);
    // Compressing it took `spent`.
    void on_compressed(base::Duration spent, base::TimePoint now) { spent_.add(spent, now); }
    // Decides about the next super-packet.
    bool may_compress(const CompressionLoad& load, const PathPace& path, base::TimePoint now);

  private:
    struct Shares {
        double all = 0;   // share of a core
        double rest = 0;  // part of it that other work takes
    };
    Shares shares(const CompressionLoad& load, base::TimePoint now) const;
    bool is_too_much(const CompressionLoad& load, const PathPace& path, base::TimePoint now) const;
    bool is_worth_it(const CompressionLoad& load, base::TimePoint now) const;

    bool is_raw_known(base::TimePoint now) const { return now < raw_known_until_; }
    bool is_faster_than_raw(base::TimePoint now) const;

    RecentSum arrived_;
    RecentTime spent_;
    bool is_compressing_ = true;
    base::TimePoint arrived_at_{};
    base::TimePoint changed_at_{};
    base::TimePoint fast_until_{};
    // Arrivals of the last window in which super-packets left uncompressed.
    uint64_t raw_bytes_ = 0;
    base::TimePoint raw_known_until_{};
    base::TimePoint doubted_until_{};
};

}  // namespace continuo::queueing
