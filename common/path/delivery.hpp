// Delivery: everything that acknowledgements tell of one path in the direction that this end sends:
// what arrived, what was lost, the round trip, the delivery rate, whether it answers. Pure; nothing
// is allocated for a datagram once the log has grown.
//
//   on_sent(run)                              a datagram or a GSO burst left
//   on_range(...) ..., finish_ack(...)        an ACK datagram: all its ranges, then once
//   on_time(now) at deadline()                loss by time, probe time-outs
#pragma once

#include "common/path/liveness.hpp"
#include "common/path/loss_detector.hpp"
#include "common/path/mtu_search.hpp"
#include "common/path/rate_estimator.hpp"
#include "common/path/relative_delay.hpp"
#include "common/path/rtt_estimator.hpp"
#include "common/path/sent_log.hpp"

#include <array>
#include <optional>

namespace continuo::path {

struct DeliveryCounters {
    uint64_t sent_datagrams = 0;
    uint64_t delivered_datagrams = 0;
    uint64_t lost_datagrams = 0;  // less those that came late
    uint64_t late_datagrams = 0;
    uint64_t refused_ranges = 0;  // name numbers that never left
};

class Delivery {
  public:
    // Loss is told of the last seconds, and of so many datagrams at least.
    static constexpr size_t kLossSeconds = 10;
    static constexpr uint64_t kLossDatagrams = 16;

    // Both live longer. `rtt` is told the round trips of acknowledgements, `search` which sizes
    // arrive and are lost; it may be null.
    // `memory`: for the log of what was sent; null for no limit but its own.
    explicit Delivery(RttEstimator& rtt,
                      MtuSearch* search = nullptr,
                      base::MemoryBudget* memory = nullptr)
        : rtt_(rtt), search_(search), log_(memory) {}

    // What a run is, before it is logged: `sent_at` and what delivery was are filled in here.
    void on_sent(SentRun run, base::TimePoint now);
    // The queues of the sender are empty.
    void on_app_limited() { rate_.on_app_limited(); }
    void on_heard() { liveness_.on_heard(); }

    // Datagrams that left before `now` tell no round trip: they may be sent again, or have waited
    // in a silence.
    void distrust_round_trips(base::TimePoint now) { round_trips_from_ = now; }
    // Nor are they part of a rate: they are sent again under the same number, perhaps by another
    // path (Karn's algorithm, RFC 6298 section 3).
    void distrust_samples(base::TimePoint now) {
        distrust_round_trips(now);
        rate_.begin_anew(now);
    }

    // The highest number of an ACK frame came `ack_delay` before the ACK left, when the peer's
    // clock (RelativeDelay) was `clock`.
    struct Highest {
        base::Duration ack_delay{};
        uint32_t clock = 0;
    };
    // One range of an ACK frame, both ends included. `highest`: it ends with the frame's highest
    // number.
    void on_range(const NumberSpace& space,
                  uint32_t first,
                  uint32_t last,
                  const std::optional<Highest>& highest);
    // After the ranges of a frame: so many datagrams of the space came in all. Those that no ACK
    // named, since all that would have were lost, count for the delivery rate.
    void on_count(const NumberSpace& space, uint32_t received);
    // After all frames of one datagram. `came_back`: by this path, so that the round trip is its
    // own.
    void finish_ack(bool came_back, base::Duration peer_interval, base::TimePoint now);

    // Loss and probe time-outs. True: a probe shall be sent.
    bool on_time(base::TimePoint now);
    base::TimePoint deadline() const;
    // Of PTO; the peer's acknowledgement interval included.
    base::Duration probe_timeout() const { return rtt_.probe_timeout() + peer_interval_; }
    base::TimePoint ask_at() const { return liveness_.ask_at(probe_timeout()); }

    const RateEstimator& rate() const { return rate_; }
    const Liveness& liveness() const { return liveness_; }
    const LossDetector& loss_detector() const { return loss_; }
    const SentLog& log() const { return log_; }
    const DeliveryCounters& counters() const { return counters_; }
    // Outer bytes of datagrams with packets that are neither acknowledged nor lost.
    uint64_t unacknowledged_bytes() const { return unacknowledged_bytes_; }
    const RelativeDelay& relative_delay() const { return relative_delay_; }
    // Rate assumed of a path that was never full. Too little would send more elsewhere than need
    // be, too much would fill the path before an acknowledgement tells.
    static constexpr uint64_t kAssumedBytesPerS = 1'250'000;
    static base::Duration time_for(uint64_t bytes, uint64_t bytes_per_s);
    // How long a datagram of `bytes` that leaves now will be in the queue of the path.
    base::Duration queueing(uint64_t bytes, base::TimePoint now) const {
        return std::max<base::Duration>(drained_at_ - now, {}) + time_for(bytes);
    }
    // An ACK named this number of the space, or a higher one.
    bool is_named(const NumberSpace& space, uint32_t number) const {
        const auto largest = loss_.largest(space);
        return largest && number <= *largest;
    }
    // It was declared lost, and no ACK named it since.
    bool is_lost(const NumberSpace& space, uint32_t number) const {
        return log_.is_lost(space, number);
    }
    // Nothing was sent and nothing acknowledged for so long.
    bool is_idle(base::Duration span, base::TimePoint now) const {
        return now - std::max(sent_at_, acknowledged_at_) > span;
    }
    // Gives memory back that is not needed now.
    void release() { log_.release(); }
    // A fraction of late; nothing while too little is known.
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
    void detect_losses(base::TimePoint now);
    LossSecond& second_of(base::TimePoint now);
    base::Duration time_for(uint64_t bytes) const;
    bool has_standing_queue() const;
    void take_away(const SentRun& run, uint64_t bits);

    RttEstimator& rtt_;
    MtuSearch* search_;
    SentLog log_;
    LossDetector loss_;
    RateEstimator rate_;
    Liveness liveness_;
    RelativeDelay relative_delay_;
    DeliveryCounters counters_;
    base::TimePoint sent_at_{};
    base::TimePoint acknowledged_at_{};
    base::TimePoint round_trips_from_{};
    base::TimePoint drained_at_{};  // when the path will have given out what was sent
    uint64_t unacknowledged_bytes_ = 0;
    uint32_t outstanding_pings_ = 0;
    base::Duration peer_interval_{};
    // Of the acknowledgement that is being read.
    AckSample sample_;  // the newest that was a frame's highest number
    bool has_news_ = false;
    // The frame that is being read has acknowledged so much.
    uint32_t frame_news_ = 0;
    uint64_t frame_bytes_ = 0;
    int64_t usual_bytes_ = 0;       // of a datagram
    std::vector<Counted> counted_;  // at most SentLog::kMostSpaces
    uint64_t news_ = 0;             // datagrams
    int64_t recovered_ = 0;         // of them had been counted as lost
    struct Late {
        SentRun run;
        uint64_t bits = 0;
    };
    std::optional<Late> late_;  // that was sent first
    std::array<LossSecond, kLossSeconds> seconds_{};
};

}  // namespace continuo::path
