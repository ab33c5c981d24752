#include "common/session/path_report.hpp"

#include "common/session/receive_report.hpp"

#include <algorithm>
#include <utility>

namespace continuo::session {

using base::Duration;
using base::index_of;
using base::milliseconds;
using base::TimePoint;
using base::TrafficClass;

namespace {

// What comes from the peer is believed up to these, far above what a path can do.
constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr uint64_t kMostDatagrams = uint64_t{1} << 28;
constexpr uint64_t kLongestIntervalMs = 600'000;
constexpr Duration kLongestRtt = base::seconds(30);

constexpr Duration kBaseDelaySpan = base::seconds(15);
// Datagrams wait in the path when they take so much longer than the fastest did.
constexpr Duration kSmallestQueue = milliseconds(10);
constexpr int64_t kQueueShareOfRtt = 8;
// A path that takes in so many times as fast as it gives out is filling up.
constexpr double kFillingFactor = 1.3;
constexpr uint64_t kBacklogShare = 5;
// Then the mean datagram waited for so much of what giving out took longer: one part in these.
constexpr double kWaitedShare = 4;
// TIME costs 4 bytes: 0.2 % of these.
constexpr uint64_t kTimeEveryBytes = 2000;
// Of so much the peer reports without waiting for something to send, and sooner (PROTOCOL 6.7).
constexpr uint64_t kReportedBytes = 6000;
constexpr uint64_t kReportedSoonBytes = 48'000;
// A path that owes a REPORT is tried again when nothing was sent there for so long.
constexpr Duration kTryAgainAfter = base::seconds(1);
constexpr Duration kReportMargin = milliseconds(30);
// A path that was never full may deliver more than it has shown. Much more would hide its queue.
constexpr double kUntriedFactor = 1.25;
constexpr double kHeavyLoss = 0.1;
// No path is thought to be busy for longer.
constexpr Duration kLongestReady = base::seconds(10);
constexpr int16_t kMostFaster = base::seconds(1) / wire::kClockUnit;
constexpr double kLeastBytesPerS = 100;
// Seconds after which a path that tells nothing is thought to be twice as fast, and at most so
// much.
constexpr double kHalvedAfter = 2;
constexpr double kLeastWorth = 0.125;

// Zero: none.
void take_smaller(Duration& smallest, Duration sample) {
    smallest = smallest == Duration{} ? sample : std::min(smallest, sample);
}

Duration smallest_of(const std::array<Duration, 2>& spans) {
    Duration smallest{};
    for (const Duration span : spans) {
        if (span != Duration{}) {
            take_smaller(smallest, span);
        }
    }
    return smallest;
}

}  // namespace

void PathReport::forget_epoch(uint32_t epoch) {
    epoch_ = epoch;
    marks_.fill({});
    mark_at_.fill({});
    reported_next_.fill(0);
    newest_.fill({});
}

void PathReport::on_sent(uint32_t epoch,
                         TrafficClass traffic_class,
                         uint64_t first_sequence,
                         uint64_t bytes,
                         bool has_packets,
                         TimePoint now) {
    if (!epoch_) {
        round_trips_from_ = now;  // what comes of before told of another network
    }
    Mark& newest = newest_[index_of(traffic_class)];
    const bool is_granted_anew = newest.is_set && first_sequence < newest.sequence;
    if (epoch_ != epoch || is_granted_anew) {
        forget_epoch(epoch);
    }
    uint64_t& class_sent = class_sent_[index_of(traffic_class)];
    TimePoint& mark_at = mark_at_[index_of(traffic_class)];
    if (now >= mark_at) {
        mark_at = now + mark_every_;
        sent_at_ = has_packets ? now : sent_at_;
        marks_[next_mark_] = {now,           sent_bytes_,
                              class_sent,    static_cast<uint32_t>(first_sequence),
                              traffic_class, true};
        next_mark_ = (next_mark_ + 1) % kMarks;
    }
    newest = {now,           sent_bytes_, class_sent, static_cast<uint32_t>(first_sequence),
              traffic_class, true};
    sent_bytes_ += bytes;
    class_sent += bytes;
    if (has_packets) {
        reportable_bytes_ += bytes;
        wait_.on_sent(now);
    }
    sent_last_at_ = now;
    expect_report(now);
    ready_at_ = std::min(ready_at(now) + time_for(bytes), now + kLongestReady);
}

Duration PathReport::time_for(uint64_t bytes) const {
    const double us = static_cast<double>(bytes) * us_per_byte_;
    const auto longest = static_cast<double>(base::to_us(kLongestReady));
    return base::microseconds(static_cast<int64_t>(std::min(us, longest)));
}

// What was measured long ago is worth less: a path that looked slow is tried again, sooner the more
// the others are used.
double PathReport::worth(TimePoint now) const {
    const TimePoint since = std::max(reported_at_, round_trips_from_);
    const double age = static_cast<double>(base::to_ms(now - since)) / 1000.0;
    return std::max(1 / (1 + age / kHalvedAfter), kLeastWorth);
}

TimePoint PathReport::delivered_at(uint64_t bytes, Duration more, TimePoint now) const {
    const auto us = static_cast<double>(base::to_us(time_for(bytes) + more));
    return ready_at(now) + base::microseconds(static_cast<int64_t>(us * worth(now)));
}

// A policer makes no queue: it drops.
bool PathReport::is_rate_known() const {
    return was_bottleneck() || (has_loss_ && loss_ > kHeavyLoss);
}

void PathReport::set_rate() {
    const auto known = static_cast<double>(delivery_bytes_per_s_);
    const double rate =
        is_rate_known() ? known : std::max(known * kUntriedFactor, kAssumedBytesPerS);
    us_per_byte_ = 1e6 / std::max(rate, kLeastBytesPerS);
}

void PathReport::expect_report(TimePoint now) {
    if (waiting_since_ == base::kNever && reportable_bytes_ >= kReportedBytes) {
        waiting_since_ = now;
    }
}

// `bytes`: of those of the class.
void PathReport::set_arrived(TrafficClass traffic_class, uint64_t bytes) {
    uint64_t& arrived = class_arrived_[index_of(traffic_class)];
    bytes = std::min(bytes, class_sent_[index_of(traffic_class)]);
    if (bytes > arrived) {
        arrived_bytes_ += bytes - arrived;
        arrived = bytes;
        reportable_bytes_ = std::min(reportable_bytes_, under_way_bytes());
        waiting_since_ = base::kNever;
        is_told_ = true;
    }
}

// All before `next`, of its class, has arrived or is lost: between two marks in proportion.
void PathReport::note_arrived(TrafficClass traffic_class, uint64_t next) {
    const Mark& newest = newest_[index_of(traffic_class)];
    if (newest.is_set && newest.sequence < next) {
        set_arrived(traffic_class, class_sent_[index_of(traffic_class)]);
        return;
    }
    const Mark* before = nullptr;
    const Mark* after = newest.is_set ? &newest : nullptr;
    for (const Mark& mark : marks_) {
        if (!mark.is_set || mark.traffic_class != traffic_class) {
            continue;
        }
        if (mark.sequence <= next && (before == nullptr || mark.sequence > before->sequence)) {
            before = &mark;
        }
        if (mark.sequence > next && after != nullptr && mark.sequence < after->sequence) {
            after = &mark;
        }
    }
    if (before == nullptr || after == nullptr || after->class_bytes < before->class_bytes) {
        return;
    }
    const uint64_t numbers = std::max<uint64_t>(after->sequence - before->sequence, 1);
    const uint64_t part = std::min<uint64_t>(next - before->sequence, numbers);
    const uint64_t between = after->class_bytes - before->class_bytes;
    set_arrived(traffic_class, before->class_bytes + between * part / numbers);
}

void PathReport::note_round_trip(Duration sample) {
    take_smaller(base_round_trips_[0], sample);
}

void PathReport::note_answer(Duration sample) {
    take_smaller(fastest_answers_[0], sample);
    if (smoothed_answer_ == Duration{}) {
        smoothed_answer_ = sample;
        answer_variation_ = sample / 2;
        return;
    }
    const Duration error =
        sample > smoothed_answer_ ? sample - smoothed_answer_ : smoothed_answer_ - sample;
    answer_variation_ = (answer_variation_ * 3 + error) / 4;
    smoothed_answer_ = (smoothed_answer_ * 7 + sample) / 8;
}

std::optional<Duration> PathReport::report_after(Duration more) const {
    if (smoothed_answer_ == Duration{}) {
        return std::nullopt;
    }
    return std::min(smoothed_answer_ + answer_variation_ * 4, smallest_of(fastest_answers_) + more);
}

bool PathReport::is_overdue(Duration round_trip, Duration interval, TimePoint now) const {
    if (now - sent_last_at_ >= kTryAgainAfter) {
        return false;
    }
    if (waiting_since_ == base::kNever) {
        return wait_.is_overdue(now);
    }
    const Duration alone = under_way_bytes() >= kReportedSoonBytes ? interval : interval * 2;
    return now - waiting_since_ >= round_trip + alone + kReportMargin;
}

Duration PathReport::silence(TimePoint now) const {
    if (waiting_since_ != base::kNever) {
        return now - waiting_since_;
    }
    return wait_.is_overdue(now) ? wait_.silence(now) : Duration{};
}

void PathReport::on_read(TimePoint now) {
    if (std::exchange(is_told_, false)) {
        wait_.on_told(reportable_bytes_ == 0, now);
    }
}

std::optional<uint16_t> PathReport::base_delay() const {
    if (!has_base_) {
        return std::nullopt;
    }
    return delay_above(base_delays_[0], base_delays_[1]) < 0 ? base_delays_[0] : base_delays_[1];
}

std::optional<Duration> PathReport::base_round_trip() const {
    const Duration smallest = smallest_of(base_round_trips_);
    return smallest != Duration{} ? std::optional(smallest) : std::nullopt;
}

void PathReport::on_lag(Duration lag, TimePoint now) {
    if (delivery_bytes_per_s_ > 0) {
        ready_at_ = now - lag + time_for(under_way_bytes());
    } else if (delay_count_ > 0) {
        const int16_t queued =
            delay_above(delays_[(delay_count_ - 1) % kQueueReports], *base_delay());
        ready_at_ = now + wire::kClockUnit * std::max<int16_t>(queued, 0);
    }
}

void PathReport::on_report(uint32_t epoch,
                           const wire::Report& report,
                           uint32_t overhead,
                           bool came_back) {
    const size_t slot = index_of(report.space.traffic_class);
    const uint64_t from = reported_next_[slot];
    const bool is_sending = epoch_ == epoch;
    if (is_sending) {
        reported_next_[slot] = std::max<uint64_t>(from, uint64_t{report.highest} + 1);
        note_arrived(report.space.traffic_class, reported_next_[slot]);
    }
    const uint64_t datagrams = std::min(report.datagrams, kMostDatagrams);
    if (datagrams == 0 || report.interval_ms == 0) {
        return;  // tells the number only
    }
    const uint64_t bytes = std::min(report.bytes, kMostBytes) + datagrams * overhead;
    batch_.is_open = true;
    batch_.bytes += bytes;
    batch_.datagrams += datagrams;
    batch_.lost += std::min(report.lost, kMostDatagrams);
    batch_.late += std::min(report.late, datagrams);
    batch_.interval_ms =
        std::max(batch_.interval_ms, std::min(report.interval_ms, kLongestIntervalMs));
    duplicates_ += std::min(report.duplicates, kMostDatagrams);
    if (report.delay) {
        batch_.delay = report.delay;
        batch_.came_back = came_back;
    }
    if (is_sending && bytes > batch_.main_bytes) {
        batch_.main_bytes = bytes;
        batch_.main_class = report.space.traffic_class;
        batch_.main_from = from;
        batch_.main_to = uint64_t{report.highest} + 1;
        batch_.has_numbers = true;
    }
}

std::optional<Duration> PathReport::finish(Duration smoothed_rtt, TimePoint now) {
    if (!batch_.is_open) {
        return std::nullopt;
    }
    reported_at_ = now;
    note_loss(now);
    note_delay(now);
    note_rate(has_standing_queue());
    set_rate();
    auto sample = round_trip(now);
    if (sample) {
        note_answer(*sample);
    }
    if (sample && batch_.came_back) {
        note_round_trip(*sample);
    } else {
        sample.reset();
    }
    batch_ = {};
    mark_every_ = std::clamp(smoothed_rtt, wire::kReportShortest, wire::kReportLongest) / 4;
    expect_report(now);
    return sample;
}

std::optional<Duration> PathReport::round_trip(TimePoint now) const {
    if (!batch_.delay) {
        return std::nullopt;
    }
    const uint32_t since_time = (clock_at(now) - batch_.delay->echo) % wire::kClockModulus;
    const uint32_t units = (since_time - batch_.delay->held) % wire::kClockModulus;
    const Duration sample = wire::kClockUnit * units;
    if (sample > kLongestRtt || now - wire::kClockUnit * since_time < round_trips_from_) {
        return std::nullopt;
    }
    // A whole unit: rounding must not make a round trip that was there into none.
    return std::max<Duration>(sample, wire::kClockUnit);
}

void PathReport::note_loss(TimePoint now) {
    lost_ += batch_.lost;
    late_ += batch_.late;
    const int64_t second = base::to_ms(now.time_since_epoch()) / 1000;
    LossSecond& current = loss_seconds_[static_cast<size_t>(second) % kLossSeconds];
    if (current.second != second) {
        current = {second, 0, 0};
    }
    current.received += batch_.datagrams;
    current.lost += static_cast<int64_t>(batch_.lost) - static_cast<int64_t>(batch_.late);
    uint64_t received = 0;
    int64_t lost = 0;
    for (const LossSecond& part : loss_seconds_) {
        if (part.second > second - static_cast<int64_t>(kLossSeconds)) {
            received += part.received;
            lost += part.lost;
        }
    }
    const auto missing = static_cast<uint64_t>(std::max<int64_t>(0, lost));
    if (received + missing >= kLossNumbers) {
        has_loss_ = true;
        loss_ = static_cast<double>(missing) / static_cast<double>(received + missing);
    }
}

std::optional<double> PathReport::loss(TimePoint now) const {
    return has_loss_ && now - reported_at_ <= kLifetime ? std::optional(loss_) : std::nullopt;
}

// Both clocks have any zero, so that only differences mean anything.
int16_t PathReport::delay_above(uint16_t delay, uint16_t other) {
    return static_cast<int16_t>(static_cast<uint16_t>(delay - other));
}

void PathReport::note_delay(TimePoint now) {
    if (!batch_.delay) {
        return;
    }
    const uint32_t since_time = (clock_at(now) - batch_.delay->echo) % wire::kClockModulus;
    if (now - wire::kClockUnit * since_time < round_trips_from_) {
        return;
    }
    const uint16_t smallest = batch_.delay->smallest;
    // A queue of more than half a turn of the clock looks like a path that became faster.
    if (has_base_ && delay_above(smallest, base_delays_[0]) < -kMostFaster) {
        has_base_ = now - base_since_ < kBaseDelaySpan * 2;
        delay_count_ = has_base_ ? delay_count_ : 0;
        return;
    }
    if (!has_base_ || now - base_since_ >= kBaseDelaySpan) {
        base_delays_ = {smallest, has_base_ ? base_delays_[0] : smallest};
        base_round_trips_ = {Duration{}, base_round_trips_[0]};
        fastest_answers_ = {Duration{}, fastest_answers_[0]};
        has_base_ = true;
        base_since_ = now;
    } else if (delay_above(smallest, base_delays_[0]) < 0) {
        base_delays_[0] = smallest;
    }
    delays_[delay_count_++ % kQueueReports] = smallest;
}

// Against the fastest round trip: queues and silences make the smoothed one long.
bool PathReport::has_standing_queue() const {
    if (delay_count_ < kQueueReports) {
        return false;
    }
    const uint16_t base = *base_delay();
    const Duration round_trip = smallest_of(fastest_answers_);
    const Duration threshold = std::max<Duration>(kSmallestQueue, round_trip / kQueueShareOfRtt);
    return std::all_of(delays_.begin(), delays_.end(), [&](uint16_t delay) {
        return wire::kClockUnit * delay_above(delay, base) > threshold;
    });
}

// Bytes per millisecond at which the numbers of the batch were sent; 0: not known.
double PathReport::sending_rate() const {
    const Mark* first = nullptr;
    const Mark* last = nullptr;
    for (size_t i = 0; i < kMarks && batch_.has_numbers; ++i) {
        const Mark& mark = marks_[(next_mark_ + i) % kMarks];
        if (mark.is_set && mark.traffic_class == batch_.main_class &&
            mark.sequence >= batch_.main_from && mark.sequence <= batch_.main_to) {
            first = first == nullptr ? &mark : first;
            last = &mark;
        }
    }
    if (first == last) {
        return 0;
    }
    const uint64_t bytes = last->sent_bytes - first->sent_bytes;
    if (bytes * 2 < batch_.bytes) {
        return 0;  // too small a part of it
    }
    const double ms = static_cast<double>(base::to_us(last->at - first->at)) / 1000.0;
    return static_cast<double>(bytes) / std::max(ms, 1.0);
}

// What was taken in faster than it was given out waited in the path. What came in a burst after a
// pause did not: the path had nothing to give out before.
bool PathReport::has_waited(double ms) const {
    if (!batch_.delay || !has_base_) {
        return true;
    }
    const auto mean = wire::kClockUnit * delay_above(batch_.delay->mean, *base_delay());
    return static_cast<double>(base::to_us(mean)) / 1000.0 * kWaitedShare >= ms;
}

void PathReport::note_rate(bool is_queued) {
    const auto interval_ms = static_cast<double>(batch_.interval_ms);
    const auto bytes = static_cast<double>(batch_.bytes);
    // What was lost had been sent too.
    const double sent_bytes = bytes * static_cast<double>(batch_.datagrams + batch_.lost) /
                              static_cast<double>(batch_.datagrams);
    const double rate = sending_rate();
    const double sent_ms = rate > 0 ? sent_bytes / rate : interval_ms;
    // What it took in beyond that is still there: else the sender only had a pause.
    const bool has_backlog = under_way_bytes() * kBacklogShare >= batch_.bytes;
    const bool is_filling = batch_.datagrams >= kSampleDatagrams && has_backlog &&
                            sent_ms * kFillingFactor < interval_ms &&
                            has_waited(interval_ms - sent_ms);
    is_bottleneck_ = is_queued || is_filling;
    sample_.bytes += batch_.bytes;
    sample_.datagrams += batch_.datagrams;
    // What took longer to send than to arrive had been held up together.
    const double elapsed_ms = std::max(interval_ms, sent_ms);
    sample_.elapsed_ms += elapsed_ms;
    sample_.bottleneck_ms += is_bottleneck_ ? elapsed_ms : 0;
    const auto shortest = static_cast<double>(base::to_ms(kShortestSample));
    const auto longest = static_cast<double>(base::to_ms(kLongestSample));
    if (sample_.elapsed_ms >= longest ||
        (sample_.elapsed_ms >= shortest && sample_.datagrams >= kSampleDatagrams)) {
        take_sample();
    }
}

void PathReport::take_sample() {
    const auto rate =
        static_cast<uint64_t>(static_cast<double>(sample_.bytes) * 1000.0 / sample_.elapsed_ms);
    const bool is_limited_by_path = sample_.bottleneck_ms * 2 >= sample_.elapsed_ms;
    if (is_limited_by_path || rate > delivery_bytes_per_s_) {
        samples_[next_sample_] = {rate, is_limited_by_path};
        next_sample_ = (next_sample_ + 1) % kKeptSamples;
        delivery_bytes_per_s_ = 0;
        for (const KeptSample& sample : samples_) {
            delivery_bytes_per_s_ = std::max(delivery_bytes_per_s_, sample.bytes_per_s);
        }
    }
    sample_ = {};
}

bool PathReport::is_time_due(bool is_cheap, TimePoint now) const {
    return now - time_sent_at_ >= mark_every_ * 4 &&
           (is_cheap || sent_bytes_ - bytes_at_time_ >= kTimeEveryBytes);
}

void PathReport::on_time_sent(TimePoint now) {
    time_sent_at_ = now;
    bytes_at_time_ = sent_bytes_;
}

}  // namespace continuo::session
