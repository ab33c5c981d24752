// RateEstimator: the delivery rate of a path (draft-cheng-iccrg-delivery-rate-estimation). A sample
// is the bytes delivered between the sending of a datagram and its acknowledgement, divided by the
// longer of the times in which they were sent and delivered. An application-limited sample counts
// only if it exceeds the estimate. The rate is the largest sample of ten round trips (as in BBR);
// while this sender's own queue stands in the path it is the newest sample, since the path cannot
// do better then.
#pragma once

#include "common/recovery/rtt_estimator.hpp"
#include "common/recovery/sent_log.hpp"

#include <optional>

namespace continuo::recovery {

class RateEstimator {
  public:
    static constexpr uint64_t kWindowRounds = 10;  // draft-ietf-ccwg-bbr, MaxBwFilterLen
    // A queue stands when even the fastest recent datagrams waited longer than this, or than an
    // eighth of the smallest round trip.
    static constexpr base::Duration kSmallestQueue = base::milliseconds(10);
    // Two full datagrams may always be under way (RFC 9002 section 7.2). While less than that is
    // unacknowledged, a queue is attributed to other traffic: a rate that is too high corrects
    // itself in use; one that is too low keeps the path from being used.
    static constexpr uint64_t kSmallestWindow = uint64_t{2} * 1500;

    // Stores the delivery state in `run`. Call before the run is logged.
    void on_sent(SentRun& run, uint64_t bytes, base::TimePoint now);
    // The sender has nothing more to send. The data under way is application-limited, unless a
    // queue stands in the path that may be this sender's.
    void on_app_limited() {
        if (has_queue_ && in_flight_ >= kSmallestWindow) {
            return;
        }
        app_limited_until_ = std::max<uint64_t>(delivered_ + in_flight_, 1);
    }
    // Datagrams of a run arrived, including late ones. `was_in_flight`: those of the bytes that
    // were counted as under way.
    void on_delivered(const SentRun& run,
                      SentLog::Position position,
                      uint64_t bytes,
                      uint64_t was_in_flight);
    // Bytes arrived whose numbers no acknowledgement named; negative: bytes counted so before are
    // named now.
    void on_unnamed(int64_t bytes);
    // Datagrams sent before `now` belong to no later sample and only count in delivered_bytes().
    // The rate stays; no queue is assumed.
    void begin_anew(base::TimePoint now);
    // Bytes that were lost or forgotten.
    void on_gone(uint64_t bytes) { in_flight_ -= std::min(bytes, in_flight_); }
    // All ACK frames of one datagram were read. `arrived_at`: when the newest datagram arrived at
    // the peer, by a clock that runs like ours; TimePoint{}: unknown.
    // `round_trip`: the smallest. `has_queue`: a queue stands in the path.
    void finish(base::TimePoint arrived_at, base::Duration round_trip, bool has_queue);

    // In outer IP packets; 0: unknown.
    uint64_t bytes_per_s() const { return rate_.best(); }
    // At least one sample in the window was not application-limited.
    bool is_known() const { return is_known_; }
    // The path had a queue when the latest acknowledgement was read.
    bool has_queue() const { return has_queue_; }
    uint64_t delivered_bytes() const { return delivered_ + untimed_; }
    uint64_t in_flight_bytes() const { return in_flight_; }
    uint64_t rounds() const { return rounds_; }

  private:
    uint64_t delivered_ = 0;  // bytes that may belong to a sample
    uint64_t untimed_ = 0;    // bytes that arrived and belong to no sample
    uint64_t in_flight_ = 0;
    base::TimePoint delivered_at_{};
    base::TimePoint first_sent_at_{};
    base::TimePoint begun_at_{};
    uint64_t app_limited_until_ = 1;  // 0: not limited; limited until the first delivery
    // The run that was sent last among those acknowledged now.
    std::optional<SentRun> newest_;
    SentLog::Position newest_position_ = 0;
    uint64_t rounds_ = 0;
    uint64_t round_ends_at_ = 0;  // in delivered bytes
    WindowedExtreme<uint64_t, uint64_t, std::greater<>> rate_;
    bool is_known_ = false;
    bool has_queue_ = false;
};

}  // namespace continuo::recovery
