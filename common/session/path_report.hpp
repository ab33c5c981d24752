// PathReport: what the REPORTs of the peer (docs/PROTOCOL.md section 6.7) tell of one path in the
// direction that this end sends: loss, round trip, delivery rate. Pure; fixed memory, nothing is
// allocated for a datagram.
// From the same it keeps when the path will have taken in what was sent, so that datagrams can be
// given to the path on which they arrive first.
//
// The delivery rate is what draft-cheng-iccrg-delivery-rate-estimation makes of acknowledgements,
// made of reports: bytes that arrived, over the receiver's time or, if that is longer, the time in
// which they were sent. A sample tells what the path gives only when the path was the bottleneck:
// it took in much faster than it gave out, or even the fastest datagrams of the last reports waited
// in it. Any other one was limited by the application and counts only if it is larger than what is
// known. The estimate is the largest of the last kKeptSamples samples that count.
#pragma once

#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/session/report_wait.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace continuo::session {

class PathReport {
  public:
    static constexpr size_t kKeptSamples = 8;
    // Of a path that was never full: too little would send more elsewhere than need be, too much
    // would fill it before a REPORT tells.
    static constexpr double kAssumedBytesPerS = 1.25e6;
    // A sample covers so much; one of a thin stream the longest, or it would tell of few datagrams.
    static constexpr base::Duration kShortestSample = base::milliseconds(200);
    static constexpr base::Duration kLongestSample = base::seconds(1);
    static constexpr uint64_t kSampleDatagrams = 16;
    // Loss is told of the last seconds, and of so many numbers at least.
    static constexpr size_t kLossSeconds = 10;
    static constexpr uint64_t kLossNumbers = 16;
    // Without reports for so long nothing is known of the loss.
    static constexpr base::Duration kLifetime = base::seconds(60);

    // Datagrams left, `bytes` of outer packets in all, with packets or only frames; the first has
    // this number in the space of its class.
    void on_sent(uint32_t epoch,
                 base::TrafficClass traffic_class,
                 uint64_t first_sequence,
                 uint64_t bytes,
                 bool has_packets,
                 base::TimePoint now);
    void note_round_trip(base::Duration sample);
    // One REPORT of a space that this path has in `epoch`; finish() follows the last one of a
    // datagram. `overhead`: outer bytes of a datagram besides the reported ones. `came_back`: on
    // this path, so that the round trip is its own.
    void
    on_report(uint32_t epoch, const wire::Report& report, uint32_t overhead, bool came_back = true);
    // Gives a sample of the round trip if one was told that came back on this path.
    std::optional<base::Duration> finish(base::Duration smoothed_rtt, base::TimePoint now);
    bool has_report() const { return batch_.is_open; }
    // All REPORTs of a datagram were taken, those too that tell a number only.
    void on_read(base::TimePoint now);
    // What was sent before `now` tells no round trip any more.
    void distrust_round_trip(base::TimePoint now) { round_trips_from_ = now; }
    // No packets were sent and nothing was reported for kLifetime.
    bool is_idle(base::TimePoint now) const {
        return now - std::max(reported_at_, sent_at_) > kLifetime;
    }

    // Whether TIME shall go with a datagram now; `is_cheap`: the datagram leaves for a report.
    bool is_time_due(bool is_cheap, base::TimePoint now) const;
    void on_time_sent(base::TimePoint now);

    // Outer packets of which no REPORT has told, be it by a later number of the class: a path keeps
    // the order of each.
    uint64_t under_way_bytes() const { return sent_bytes_ - arrived_bytes_; }
    // A REPORT of what is under way should have come long ago; `round_trip`: as long as it may take
    // (RFC 6298), `interval`: between REPORTs that ride on other datagrams; of little by what it
    // took before (ReportWait). From time to time it says no, so that something is sent to be
    // reported.
    bool is_overdue(base::Duration round_trip, base::Duration interval, base::TimePoint now) const;
    // How long a REPORT of what is sent now may take, by whatever paths REPORTs came back (RFC
    // 6298, section 2), but no longer than the fastest and `more`; nothing without a sample.
    std::optional<base::Duration> report_after(base::Duration more) const;
    // Whether a REPORT has covered that number of its class.
    bool is_told(uint32_t epoch, base::TrafficClass traffic_class, uint64_t sequence) const {
        return epoch_ == epoch && sequence < reported_next_[base::index_of(traffic_class)];
    }
    // So much is under way that the peer has to report of it.
    bool is_owed() const { return waiting_since_ != base::kNever; }
    // For how long something has been under way of which a REPORT was to be expected.
    base::Duration silence(base::TimePoint now) const;
    // When the path will have taken in what was sent, at the rate that it delivers.
    base::TimePoint ready_at(base::TimePoint now) const { return std::max(ready_at_, now); }
    // finish() was called: the newest datagram that was reported then had left the queue of the
    // path so long before.
    void on_lag(base::Duration lag, base::TimePoint now);
    // When a datagram of so many bytes that is sent now will be there, less the delay of a path
    // that is faster by `more`, queues apart.
    base::TimePoint delivered_at(uint64_t bytes, base::Duration more, base::TimePoint now) const;
    // How long a path of which nothing is known may take to take in so much.
    static base::Duration assumed_time_for(uint64_t bytes) {
        return base::microseconds(
            static_cast<int64_t>(static_cast<double>(bytes) * 1e6 / kAssumedBytesPerS));
    }
    // The smallest one-way delay of late, by clocks that have any zero; and the smallest round
    // trip.
    std::optional<uint16_t> base_delay() const;
    std::optional<base::Duration> base_round_trip() const;
    // By which `delay` is longer, in wire::kClockUnit.
    static int16_t delay_above(uint16_t delay, uint16_t other);

    // A fraction; nothing while too little is known.
    std::optional<double> loss(base::TimePoint now) const;
    // Of outer IP packets; 0: unknown.
    uint64_t delivery_bytes_per_s() const { return delivery_bytes_per_s_; }
    // Whether the newest reports were limited by the path and not by the application.
    bool is_bottleneck() const { return is_bottleneck_; }
    // Whether any of the samples that count was: else the path may deliver far more.
    bool was_bottleneck() const {
        return std::any_of(samples_.begin(), samples_.end(),
                           [](const KeptSample& sample) { return sample.is_limited_by_path; });
    }
    uint64_t lost() const { return lost_; }
    uint64_t late() const { return late_; }
    uint64_t duplicates() const { return duplicates_; }

  private:
    // Where the sender was at a time.
    struct Mark {
        base::TimePoint at{};
        uint64_t sent_bytes = 0;   // before it
        uint64_t class_bytes = 0;  // the same, of its class
        uint32_t sequence = 0;     // the next to be sent
        base::TrafficClass traffic_class = base::TrafficClass::LtLd;
        bool is_set = false;
    };
    // Of the reports of one datagram.
    struct Batch {
        bool is_open = false;
        uint64_t bytes = 0;
        uint64_t datagrams = 0;
        uint64_t lost = 0;
        uint64_t late = 0;
        uint64_t interval_ms = 0;
        std::optional<wire::ReportDelay> delay;
        bool came_back = false;
        // The space with most of the bytes, whose numbers tell when they were sent.
        uint64_t main_bytes = 0;
        base::TrafficClass main_class = base::TrafficClass::LtLd;
        uint64_t main_from = 0;  // first number that it covers
        uint64_t main_to = 0;
        bool has_numbers = false;
    };
    struct Sample {
        uint64_t bytes = 0;
        uint64_t datagrams = 0;
        double elapsed_ms = 0;
        double bottleneck_ms = 0;
    };
    struct LossSecond {
        int64_t second = -1;
        uint64_t received = 0;
        int64_t lost = 0;  // less what came late
    };

    void forget_epoch(uint32_t epoch);
    void note_answer(base::Duration sample);
    void note_arrived(base::TrafficClass traffic_class, uint64_t next);
    void set_arrived(base::TrafficClass traffic_class, uint64_t bytes);
    bool is_rate_known() const;
    void expect_report(base::TimePoint now);
    base::Duration time_for(uint64_t bytes) const;
    double worth(base::TimePoint now) const;
    void set_rate();
    void note_loss(base::TimePoint now);
    void note_delay(base::TimePoint now);
    std::optional<base::Duration> round_trip(base::TimePoint now) const;
    bool has_standing_queue() const;
    bool has_waited(double ms) const;
    void note_rate(bool is_queued);
    double sending_rate() const;
    void take_sample();

    static constexpr size_t kMarks = 32;
    std::array<Mark, kMarks> marks_{};
    size_t next_mark_ = 0;
    std::array<base::TimePoint, base::kTrafficClasses> mark_at_{};
    base::Duration mark_every_ = wire::kReportShortest / 4;
    uint64_t sent_bytes_ = 0;
    base::TimePoint sent_at_{};  // the newest mark with packets
    base::TimePoint sent_last_at_{};
    std::array<Mark, base::kTrafficClasses> newest_{};  // of what was sent last in each class
    std::array<uint64_t, base::kTrafficClasses> class_sent_{};  // as sent_bytes_
    std::array<uint64_t, base::kTrafficClasses> class_arrived_{};
    uint64_t arrived_bytes_ = 0;     // of all classes
    uint64_t reportable_bytes_ = 0;  // under way, and with packets
    // Since when enough is under way that a REPORT should come; kNever: it is not.
    base::TimePoint waiting_since_ = base::kNever;
    ReportWait wait_;  // of less
    bool is_told_ = false;
    base::TimePoint ready_at_{};
    double us_per_byte_ = 1e6 / kAssumedBytesPerS;
    std::optional<uint32_t> epoch_;
    std::array<uint64_t, base::kTrafficClasses> reported_next_{};

    Batch batch_;
    Sample sample_;
    struct KeptSample {
        uint64_t bytes_per_s = 0;
        bool is_limited_by_path = false;
    };
    std::array<KeptSample, kKeptSamples> samples_{};
    size_t next_sample_ = 0;
    uint64_t delivery_bytes_per_s_ = 0;
    bool is_bottleneck_ = false;

    std::array<LossSecond, kLossSeconds> loss_seconds_{};
    double loss_ = 0;
    bool has_loss_ = false;
    base::TimePoint reported_at_{};
    uint64_t lost_ = 0;
    uint64_t late_ = 0;
    uint64_t duplicates_ = 0;

    // Of all REPORTs with a delay, the fastest as base_round_trips_; zero: none.
    base::Duration smoothed_answer_{};
    base::Duration answer_variation_{};
    std::array<base::Duration, 2> fastest_answers_{};
    // Smallest round trips of the same time as base_delays_; zero: none.
    std::array<base::Duration, 2> base_round_trips_{};
    // Smallest one-way delays: of the last 15 to 30 s, and of the last reports; a queue that stands
    // makes all of these longer (as RFC 8289 tells it from one that comes and goes).
    std::array<uint16_t, 2> base_delays_{};
    bool has_base_ = false;
    base::TimePoint base_since_{};
    static constexpr size_t kQueueReports = 8;
    std::array<uint16_t, kQueueReports> delays_{};
    size_t delay_count_ = 0;

    base::TimePoint time_sent_at_{};
    base::TimePoint round_trips_from_{};
    uint64_t bytes_at_time_ = 0;
};

}  // namespace continuo::session
