// Delivery: everything that acknowledgements tell of one path in the direction that this end sends:
// what arrived, what was lost, the round trip, the delivery rate, whether it answers. Pure; nothing
// is allocated for a datagram once the log has grown.
//
//   on_sent(run)                              a datagram or a GSO burst left
//   on_range(...) ..., finish_ack(...)        an ACK datagram: all its ranges, then once
//   take_out(...), on_repeat_range(...)       datagrams that are sent again under the same numbers
//   on_time(now)                              loss by time
#pragma once

#include "common/recovery/liveness.hpp"
#include "common/recovery/loss_detector.hpp"
#include "common/recovery/mtu_search.hpp"
#include "common/recovery/rate_estimator.hpp"
#include "common/recovery/relative_delay.hpp"
#include "common/recovery/rtt_estimator.hpp"
#include "common/recovery/sent_log.hpp"

#include <array>
#include <optional>
#include <utility>

namespace continuo::recovery {

struct DeliveryCounters {
    uint64_t sent_datagrams = 0;
    uint64_t delivered_datagrams = 0;
    uint64_t delivered_bytes = 0;  // of datagrams with packets that an ACK has named
    uint64_t lost_datagrams = 0;   // those that came late are subtracted
    uint64_t late_datagrams = 0;
    uint64_t refused_ranges = 0;  // ranges with numbers that were never sent
};

class Delivery {
  public:
    // Loss is computed over the last seconds, and over at least this many datagrams.
    static constexpr size_t kLossSeconds = 10;
    static constexpr uint64_t kLossDatagrams = 16;
    // Longest time after which a peer answers a PING (docs/PROTOCOL.md section 6.6).
    static constexpr base::Duration kAskedAckDelay = base::milliseconds(25);

    // `rtt`, `liveness` and `search` must outlive this object. `rtt` gets the round-trip samples,
    // `liveness` what is owed and what is acknowledged; `search` learns which sizes arrive and
    // which are lost, and may be null.
    // `memory`: budget for the log of sent datagrams; null: only the log's own limit.
    Delivery(RttEstimator& rtt,
             Liveness& liveness,
             MtuSearch* search = nullptr,
             base::MemoryBudget* memory = nullptr)
        : rtt_(rtt), liveness_(liveness), search_(search), log_(memory) {}

    // Call before the run is logged: fills in `sent_at` and the delivery state. The rest is the
    // caller's.
    void on_sent(SentRun run, base::TimePoint now);
    // The queues of the sender are empty.
    void on_app_limited() { rate_.on_app_limited(); }

    // Ignores round trips of datagrams sent before `now`: they may be sent again, or were held up
    // in a silence.
    void distrust_round_trips(base::TimePoint now) { round_trips_from_ = now; }
    // Ignores them in rate samples too: they are sent again under the same number, perhaps on
    // another path (Karn's algorithm, RFC 6298 section 3).
    void distrust_samples(base::TimePoint now) {
        distrust_round_trips(now);
        rate_.begin_anew(now);
    }

    // The highest number of an ACK frame: it arrived `ack_delay` before the ACK left, when the
    // peer's clock (RelativeDelay) read `clock`.
    struct Highest {
        base::Duration ack_delay{};
        uint32_t clock = 0;
    };
    // One range of an ACK frame, both ends included. `highest` is set if the range ends with the
    // frame's highest number. Returns how many datagrams it names for the first time.
    uint32_t on_range(const NumberSpace& space,
                      uint32_t first,
                      uint32_t last,
                      const std::optional<Highest>& highest);
    // Call after the ranges of a frame. `received`: datagrams of the space that arrived in total.
    // Those that no ACK named, because every ACK that would have was lost, count for the delivery
    // rate. `repeats`: datagrams that the frame named as repeated, by this path or another.
    void on_count(const NumberSpace& space, uint32_t received, uint32_t repeats = 0);

    // These numbers are sent again by another path: whether they arrive says nothing of this one
    // any more, and no answer is owed for them here. True if some were in the log.
    bool take_out(const NumberSpace& space, uint32_t first, uint32_t last);
    // A range as in on_range(), for runs with `is_repeat`; returns how many datagrams it names for
    // the first time. It may mean those that left first, by another path. So it gives no round
    // trip, rate, size or way of a class (Karn's algorithm, RFC 6298 section 3), and a path that
    // has timed out is still asked; but these are waited for no more.
    uint32_t on_repeat_range(const NumberSpace& space, uint32_t first, uint32_t last);
    // The number left on this path last, as a repeat, and no ACK has named it since.
    bool is_repeated(const NumberSpace& space, uint32_t number) const {
        return log_.has_repeats() && log_.is_waiting(space, true, number);
    }
    // The number left on this path last, and no ACK has named it since.
    bool is_waiting(const NumberSpace& space, uint32_t number) const {
        return log_.is_waiting(space, false, number) || is_repeated(space, number);
    }
    // Call after all frames of one datagram. `came_back`: the ACK came by this path, so the round
    // trip is the path's own.
    void finish_ack(bool came_back, base::TimePoint now);
    // At most this long the peer waits with an ACK of this path.
    void set_peer_interval(base::Duration interval) { peer_interval_ = interval; }

    // Departure of the newest datagram that ACKs have named for the first time, of all, and of each
    // class by the way that it takes. TimePoint{}: none.
    struct Arrived {
        base::TimePoint any{};
        std::array<base::TimePoint, base::kTrafficClasses> by_way{};
    };
    Arrived take_arrived() { return std::exchange(arrived_, Arrived{}); }

    // Losses by time. Probe time-outs are Liveness's.
    void on_time(base::TimePoint now);
    // PTO, with the peer's acknowledgement interval; a PING waits for no credit there.
    base::Duration probe_timeout() const {
        return rtt_.probe_timeout() +
               (liveness_.is_asked() ? std::min(peer_interval_, kAskedAckDelay) : peer_interval_);
    }

    const RateEstimator& rate() const { return rate_; }
    const Liveness& liveness() const { return liveness_; }
    const LossDetector& loss_detector() const { return loss_; }
    const SentLog& log() const { return log_; }
    const DeliveryCounters& counters() const { return counters_; }
    // Outer bytes of datagrams with packets that are neither acknowledged nor declared lost.
    uint64_t unacknowledged_bytes() const { return unacknowledged_bytes_; }
    bool has_pings() const { return outstanding_pings_ > 0; }
    const RelativeDelay& relative_delay() const { return relative_delay_; }
    // Rate assumed for a path that was never full. A lower one would send too much by other paths;
    // a higher one would fill the path before the first acknowledgement.
    static constexpr uint64_t kAssumedBytesPerS = 1'250'000;
    static base::Duration time_for(uint64_t bytes, uint64_t bytes_per_s);
    // Time that a datagram of `bytes` sent now will wait in the queue of the path.
    base::Duration queueing(uint64_t bytes, base::TimePoint now) const {
        return std::max<base::Duration>(drained_at_ - now, {}) + time_for(bytes);
    }
    // An ACK named this number of the space or a higher one.
    bool is_named(const NumberSpace& space, uint32_t number) const {
        const auto largest = loss_.largest(space);
        return largest && number <= *largest;
    }
    // The number was declared lost, and no ACK has named it since.
    bool is_lost(const NumberSpace& space, uint32_t number) const {
        return log_.is_lost(space, number);
    }
    // Nothing was sent or acknowledged for `span`.
    bool is_idle(base::Duration span, base::TimePoint now) const {
        return now - std::max(sent_at_, acknowledged_at_) > span;
    }
    // Frees memory that is not in use.
    void release() { log_.release(); }
    // Fraction of recent datagrams that were lost; nothing if there are too few.
    std::optional<double> loss(base::TimePoint now) const;

  private:
    struct Counted {
        NumberSpace space;
        uint32_t received = 0;
    };
    struct LossSecond {
        int64_t second = -1;
        uint64_t delivered = 0;
        int64_t lost = 0;
    };
    struct AckSample {
        base::TimePoint sent_at{};
        Highest highest;
        SentLog::Position position = 0;
        bool is_set = false;
    };

    void
    on_acknowledged(SentLog::Position position, const SentRun& run, uint64_t newly, uint64_t late);
    void note_arrived(const SentRun& run, uint64_t bits);
    void detect_losses(base::TimePoint now);
    void settle(base::TimePoint now);
    LossSecond& second_of(base::TimePoint now);
    base::Duration time_for(uint64_t bytes) const;
    bool has_standing_queue() const;
    void take_away(const SentRun& run, uint64_t bits);

    RttEstimator& rtt_;
    Liveness& liveness_;
    MtuSearch* search_;
    SentLog log_;
    LossDetector loss_;
    RateEstimator rate_;
    RelativeDelay relative_delay_;
    DeliveryCounters counters_;
    base::TimePoint sent_at_{};
    base::TimePoint acknowledged_at_{};
    base::TimePoint round_trips_from_{};
    base::TimePoint drained_at_{};  // when the path will have delivered everything sent so far
    uint64_t unacknowledged_bytes_ = 0;
    uint32_t outstanding_pings_ = 0;
    base::Duration peer_interval_{};
    // State of the ACK frame that is being read.
    AckSample sample_;  // newest datagram that was the highest number of a frame
    Arrived arrived_;
    bool has_news_ = false;
    bool has_own_news_ = false;  // not of repeats alone
    // Datagrams that this frame acknowledged for the first time.
    uint32_t frame_news_ = 0;
    uint64_t frame_bytes_ = 0;
    int64_t usual_bytes_ = 0;       // a datagram's
    std::vector<Counted> counted_;  // at most SentLog::kMostSpaces
    uint64_t news_ = 0;             // datagrams
    int64_t recovered_ = 0;         // datagrams among `news_` that had been counted as lost
    struct Late {
        SentRun run;
        uint64_t bits = 0;
    };
    std::optional<Late> late_;  // the one that was sent first
    std::array<LossSecond, kLossSeconds> seconds_{};
};

}  // namespace continuo::recovery
