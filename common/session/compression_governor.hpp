// Whether super-packets are cut into segments and compressed, or leave as they are. A segment of a
// super-packet costs next to nothing to send, a compressed one some 10 us: that pays while the link
// is what is short, and must not be done when it is the processor (DECISIONS, "Super-packets are
// compressed while the processor has time"). This is the only place that decides it.
//
// CompressionLoad is what compressing costs the thread, one a loop, shared by its sessions.
// CompressionGovernor decides for one session. Both are pure; one thread.
#pragma once

#include "common/base/time.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace continuo::session {

// How much there was lately, in slots of a tenth of the window.
class RecentSum {
  public:
    // Long enough for a round trip's worth of what TCP sends at once, short enough that a stream
    // which speeds up is noticed before it has lost much.
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

// The fraction of the time in which something was done lately.
class RecentTime {
  public:
    void add(base::Duration spent, base::TimePoint now) {
        ns_.add(static_cast<uint64_t>(spent.count()), now);
    }
    double share(base::TimePoint now) const {
        return static_cast<double>(ns_.sum(now)) / static_cast<double>(RecentSum::kWindow.count());
    }
    // The same of the slot that `now` is in.
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
    // Weight of one datagram in the cost of a byte, and the largest factor it may differ by:
    // others may have had the core meanwhile.
    static constexpr double kGain = 1.0 / 64;
    static constexpr double kMostOff = 4.0;

    // A clock that goes on while others have the core: where the thread has to share it, that is
    // what compressing costs. Null, as at first: nothing is measured, and kAssumedNsPerByte holds.
    void measure_with(Clock clock) { clock_ = clock; }

    // A datagram is begun; some of it is compressed; it is done, with so many inner bytes in it.
    // Gives the time that it took from the second on; nothing when nothing was compressed.
    void begin() { is_compressing_ = false; }
    void note_compressing();
    std::optional<base::Duration> end(uint64_t inner_bytes, base::TimePoint now);

    double ns_per_byte() const { return ns_per_byte_; }
    // The fraction of `span` that so many bytes take.
    double share_of(uint64_t bytes, base::Duration span) const;
    // Share of the loop's time that compression took lately.
    double share(base::TimePoint now) const { return spent_.share(now); }

  private:
    Clock clock_ = nullptr;
    RecentTime spent_;
    double ns_per_byte_ = kAssumedNsPerByte;
    bool is_compressing_ = false;
    base::TimePoint began_at_{};
};

// State of the path in use, as REPORTs tell it.
struct PathPace {
    bool is_full = false;
    uint64_t bytes_per_s = 0;  // of outer packets; 0: unknown
};

class CompressionGovernor {
  public:
    // Share of a core for compression on an unknown path: a quarter leaves room for
    // everything else that the loop does, and lets 200 Mbit/s of text through at 10 ns a byte.
    static constexpr double kFreeShare = 0.25;
    // The same where the path is full, so that compressing is what makes the transfer faster; and
    // in any case within one slot, so that other sessions do not wait longer than 7.5 ms. The rest
    // is for reading and sending, which the same thread does.
    static constexpr double kMostShare = 0.75;
    // Typical ratio of compressed text: a full path of 1 MB/s then has 2 MB/s to compress.
    static constexpr double kTypicalRatio = 0.5;
    // A path also looks full when a processor is what is short, here or behind it, and then
    // compressing slows down what it is to make faster. So beyond kFreeShare the session must have
    // been seen to send less as it is, on a full path: at least so much of that (sums over slots
    // differ by a tenth), no longer ago than kRawKnown; once it was slower, that is not tried again
    // for kDoubt. Both cost the transfer 2 % at most if they are in vain, one way or the other.
    static constexpr double kLeastGain = 0.8;
    static constexpr base::Duration kRawKnown = base::seconds(10);
    static constexpr base::Duration kDoubt = base::seconds(5);
    // Between two changes. A change of rate needs some round trips to show.
    static constexpr base::Duration kShortestStay = base::milliseconds(200);
    // So long nothing is compressed after more came than the processor could compress. A stream
    // that pauses for less, because a machine stalled or TCP waited for its timer (0.2 s at
    // first), is as fast as before when it goes on.
    static constexpr base::Duration kFastFor = base::milliseconds(400);

    // A super-packet that may be compressed came.
    void on_arrival(uint64_t bytes, base::TimePoint now);
    // That took so long.
    void on_compressed(base::Duration spent, base::TimePoint now) { spent_.add(spent, now); }
    // Decides about the next super-packet.
    bool may_compress(const CompressionLoad& load, const PathPace& path, base::TimePoint now);

  private:
    struct Shares {
        double all = 0;   // of a core, of which
        double rest = 0;  // is for others
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
    // Arrivals of the last window in which super-packets left raw.
    uint64_t raw_bytes_ = 0;
    base::TimePoint raw_known_until_{};
    base::TimePoint doubted_until_{};
};

}  // namespace continuo::session
