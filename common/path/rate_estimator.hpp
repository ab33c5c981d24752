// RateEstimator: what a path delivers (draft-cheng-iccrg-delivery-rate-estimation). A sample is the
// bytes that were delivered between the sending of a datagram and its acknowledgement, over the
// longer of the times in which they were sent and delivered. One that was limited by the
// application counts only if it is larger than what is known. The rate is the largest sample of ten
// round trips (as BBR); while a queue of this sender stands, the newest one, since the path cannot
// do better then.
#pragma once

#include "common/path/rtt_estimator.hpp"
#include "common/path/sent_log.hpp"

#include <optional>

namespace continuo::path {

class RateEstimator {
  public:
    static constexpr uint64_t kWindowRounds = 10;  // draft-ietf-ccwg-bbr, MaxBwFilterLen
    // A queue stands when even the fastest datagrams of late waited for so long, or an eighth of
    // the smallest round trip.
    static constexpr base::Duration kSmallestQueue = base::milliseconds(10);
    // Two full datagrams may always be under way (RFC 9002 section 7.2). While less than that waits
    // for acknowledgement, a queue is taken for others' packets: a rate that is too high heals when
    // the path is used, one that is too low keeps it from being used.
    static constexpr uint64_t kSmallestWindow = uint64_t{2} * 1500;

    // Notes in `run` how far delivery was. Called before the run is logged.
    void on_sent(SentRun& run, uint64_t bytes, base::TimePoint now);
    // The sender has nothing more to send. What is under way does not fill the path, unless a queue
    // stands in it that can be this sender's.
    void on_app_limited() {
        if (has_queue_ && in_flight_ >= kSmallestWindow) {
            return;
        }
        app_limited_until_ = std::max<uint64_t>(delivered_ + in_flight_, 1);
    }
    // Datagrams of a run arrived, late ones included: `was_in_flight` of the bytes were thought to
    // be under way.
    void on_delivered(const SentRun& run,
                      SentLog::Position position,
                      uint64_t bytes,
                      uint64_t was_in_flight);
    // So many bytes came of which no acknowledgement named the numbers; or, below zero, had been
    // counted so before.
    void on_unnamed(int64_t bytes);
    // Datagrams that left before `now` are part of no later sample: they count in delivered_bytes()
    // only. The rate stays, and no queue is known to stand.
    void begin_anew(base::TimePoint now);
    // Lost or forgotten.
    void on_gone(uint64_t bytes) { in_flight_ -= std::min(bytes, in_flight_); }
    // All of one datagram's acknowledgements were taken; the newest arrived at the peer then,
    // by a clock that goes as ours; TimePoint{}: unknown.
    // `round_trip`: the smallest; `has_queue`: one stands in the path.
    void finish(base::TimePoint arrived_at, base::Duration round_trip, bool has_queue);

    // Of outer IP packets. 0: unknown.
    uint64_t bytes_per_s() const { return rate_.best(); }
    // Some sample that counts was not limited by the application.
    bool is_known() const { return is_known_; }
    // Queues stood in the path when the latest acknowledgement was read.
    bool has_queue() const { return has_queue_; }
    uint64_t delivered_bytes() const { return delivered_ + untimed_; }
    uint64_t in_flight_bytes() const { return in_flight_; }
    uint64_t rounds() const { return rounds_; }

  private:
    uint64_t delivered_ = 0;  // bytes that may be part of a sample
    uint64_t untimed_ = 0;    // bytes that came and are part of none
    uint64_t in_flight_ = 0;
    base::TimePoint delivered_at_{};
    base::TimePoint first_sent_at_{};
    base::TimePoint begun_at_{};
    uint64_t app_limited_until_ = 1;  // 0: not limited; as long as nothing came it is
    // The run of this acknowledgement that was sent last.
    std::optional<SentRun> newest_;
    SentLog::Position newest_position_ = 0;
    uint64_t rounds_ = 0;
    uint64_t round_ends_at_ = 0;  // in delivered bytes
    WindowedExtreme<uint64_t, uint64_t, std::greater<>> rate_;
    bool is_known_ = false;
    bool has_queue_ = false;
};

}  // namespace continuo::path
