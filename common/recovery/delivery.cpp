#include "common/recovery/delivery.hpp"

#include "common/wire/space.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace continuo::recovery {

using base::Duration;
using base::TimePoint;

namespace {

// Datagrams that leave within this fraction of a round trip form one run.
constexpr int64_t kRunShareOfRtt = 64;

// A lost datagram that arrives within four round trips plus this margin counts as late.
constexpr Duration kLateMargin = base::seconds(1);

// Upper bound of the estimated time for which a path stays busy.
constexpr Duration kLongestQueue = base::seconds(10);

uint64_t count(uint64_t bits) {
    return static_cast<uint64_t>(std::popcount(bits));
}

int64_t second_at(TimePoint now) {
    return base::to_ms(now.time_since_epoch()) / 1000;
}

}  // namespace

void Delivery::on_sent(SentRun run, TimePoint now) {
    const uint64_t all = run.count >= 64 ? ~uint64_t{0} : (uint64_t{1} << run.count) - 1;
    const uint64_t bytes = run.bytes_of(all);
    run.sent_at = now;
    sent_at_ = run.has_packets ? now : sent_at_;
    drained_at_ = std::max(drained_at_, now) + time_for(bytes);
    if (rate_.in_flight_bytes() == 0) {
        relative_delay_.rebase();
    }
    rate_.on_sent(run, bytes, now);
    counters_.sent_datagrams += run.count;
    unacknowledged_bytes_ += run.has_packets ? bytes : 0;
    outstanding_pings_ += run.asks ? run.count : 0U;
    const Duration span = std::max(rtt_.minimum() / kRunShareOfRtt, log_.span_when_crowded(now));
    const SentRun forgotten = log_.push(run, span);
    if (forgotten.outstanding != 0) {
        rate_.on_gone(forgotten.bytes_of(forgotten.outstanding));
        take_away(forgotten, forgotten.outstanding);
    }
    liveness_.on_sent(run.has_packets, run.asks, unacknowledged_bytes_, now);
}

// Datagrams that are acknowledged or lost no longer count as outstanding.
void Delivery::take_away(const SentRun& run, uint64_t bits) {
    if (run.has_packets) {
        unacknowledged_bytes_ -= std::min(run.bytes_of(bits), unacknowledged_bytes_);
    }
    if (run.asks) {
        outstanding_pings_ -= std::min(static_cast<uint32_t>(count(bits)), outstanding_pings_);
    }
}

uint32_t Delivery::on_range(const NumberSpace& space,
                            uint32_t first,
                            uint32_t last,
                            const std::optional<Highest>& highest) {
    const uint32_t before = frame_news_;
    const auto on_run = [&](SentLog::Position position, const SentRun& run, uint64_t newly,
                            uint64_t late) {
        on_acknowledged(position, run, newly, late);
        const bool has_highest = highest && (run.mask(last, last) & (newly | late)) != 0 &&
                                 run.sent_at >= round_trips_from_;
        if (has_highest && (!sample_.is_set || position >= sample_.position)) {
            sample_ = {run.sent_at_of(last), *highest, position, true};
        }
    };
    if (!log_.acknowledge(space, first, last, on_run)) {
        ++counters_.refused_ranges;
    }
    return frame_news_ - before;
}

void Delivery::on_acknowledged(SentLog::Position position,
                               const SentRun& run,
                               uint64_t newly,
                               uint64_t late) {
    const uint64_t bits = newly | late;
    note_arrived(run, bits);
    has_news_ = has_own_news_ = true;
    news_ += count(bits);
    frame_news_ += static_cast<uint32_t>(count(bits));
    frame_bytes_ += run.bytes_of(bits);
    counters_.delivered_bytes += run.has_packets ? run.bytes_of(bits) : 0;
    recovered_ += run.is_size_probe ? 0 : static_cast<int64_t>(count(late));
    rate_.on_delivered(run, position, run.bytes_of(bits), run.bytes_of(newly));
    take_away(run, newly);
    loss_.on_acknowledged(position, run, bits);
    if (search_ != nullptr && !run.is_size_probe) {
        search_->on_acknowledged(run.largest_of(bits), run.sent_at);
    }
    if (late != 0 && (!late_ || run.sent_at <= late_->run.sent_at)) {
        late_ = Late{run, late};
    }
}

void Delivery::note_arrived(const SentRun& run, uint64_t bits) {
    const auto highest = static_cast<uint32_t>(std::bit_width(bits)) - 1U;
    const TimePoint sent_at = run.sent_at_of(run.first + highest);
    arrived_.any = std::max(arrived_.any, sent_at);
    if (!run.is_other_way) {
        const auto space = wire::space_from_number(run.space.space);
        TimePoint& of_class = arrived_.by_way[base::index_of(space.traffic_class)];
        of_class = std::max(of_class, sent_at);
    }
}

bool Delivery::take_out(const NumberSpace& space, uint32_t first, uint32_t last) {
    bool has_found = false;
    log_.take_out(space, first, last, [&](const SentRun& run, uint64_t outstanding) {
        has_found = true;
        rate_.on_gone(run.bytes_of(outstanding));
        take_away(run, outstanding);
        liveness_.on_taken_out(unacknowledged_bytes_, outstanding_pings_ > 0);
    });
    log_.settle(TimePoint{});  // lost datagrams may still come late
    return has_found;
}

uint32_t Delivery::on_repeat_range(const NumberSpace& space, uint32_t first, uint32_t last) {
    if (!log_.has_repeats()) {
        return 0;
    }
    uint64_t arrived = 0;
    const auto on_run = [&](SentLog::Position /*position*/, const SentRun& run, uint64_t newly,
                            uint64_t late) {
        arrived += count(newly | late);
        recovered_ += static_cast<int64_t>(count(late));
        rate_.on_gone(run.bytes_of(newly));
        take_away(run, newly);
    };
    log_.acknowledge_repeats(space, first, last, on_run);
    has_news_ = has_news_ || arrived != 0;
    news_ += arrived;
    return static_cast<uint32_t>(arrived);
}

void Delivery::on_count(const NumberSpace& space, uint32_t received, uint32_t repeats) {
    const uint32_t news = std::exchange(frame_news_, 0);
    const uint64_t bytes = std::exchange(frame_bytes_, 0);
    usual_bytes_ = news > 0 ? static_cast<int64_t>(bytes / news) : usual_bytes_;
    auto known = std::find_if(counted_.begin(), counted_.end(),
                              [&](const Counted& any) { return any.space == space; });
    if (known == counted_.end()) {
        if (counted_.size() >= SentLog::kMostSpaces) {
            counted_.erase(counted_.begin());
        }
        counted_.push_back({space, received});
        return;
    }
    const uint32_t came = received > known->received ? received - known->received : 0;
    known->received = std::max(known->received, received);
    rate_.on_unnamed((int64_t{came} - int64_t{news} - int64_t{repeats}) * usual_bytes_);
}

void Delivery::finish_ack(bool came_back, TimePoint now) {
    if (!has_news_) {
        return;
    }
    acknowledged_at_ = now;
    TimePoint arrived_at{};  // unknown
    if (sample_.is_set) {
        if (came_back) {
            rtt_.on_sample(now - sample_.sent_at, sample_.highest.ack_delay, now);
        }
        relative_delay_.on_sample(sample_.sent_at, sample_.highest.clock, rtt_.smoothed(), now);
        // Timed by the peer's clock, so that a queue on the way back does not count, plus the
        // smallest round trip: the next sample begins when an acknowledgement would have come.
        arrived_at = relative_delay_.arrival(sample_.sent_at, rtt_.minimum());
    }
    if (late_) {
        loss_.on_late(late_->run, late_->bits, sample_.is_set ? arrived_at : now);
    }
    rate_.finish(arrived_at, rtt_.minimum(), has_standing_queue());
    // The newest datagram that arrived has left the queue of the path.
    const TimePoint left_queue_at =
        sample_.is_set ? sample_.sent_at + relative_delay_.latest_queue() : now - rtt_.minimum();
    drained_at_ = left_queue_at + time_for(rate_.in_flight_bytes());
    counters_.delivered_datagrams += news_;
    counters_.late_datagrams += static_cast<uint64_t>(recovered_);
    counters_.lost_datagrams -= static_cast<uint64_t>(recovered_);
    LossSecond& second = second_of(now);
    second.delivered += news_;
    second.lost -= recovered_;
    if (!std::exchange(has_own_news_, false)) {
        settle(now);  // repeats overtake nothing
        liveness_.on_taken_out(unacknowledged_bytes_, outstanding_pings_ > 0);
    } else if (detect_losses(now); came_back) {
        liveness_.on_progress(unacknowledged_bytes_, outstanding_pings_ > 0, now);
    } else {
        liveness_.on_progress_told_elsewhere(unacknowledged_bytes_, outstanding_pings_ > 0, now);
    }
    sample_ = {};
    late_.reset();
    has_news_ = false;
    news_ = 0;
    recovered_ = 0;
}

void Delivery::detect_losses(TimePoint now) {
    loss_.detect(log_, rtt_, now, [&](const SentRun& run, uint64_t bits) {
        rate_.on_gone(run.bytes_of(bits));
        take_away(run, bits);
        if (run.is_size_probe) {
            return;
        }
        counters_.lost_datagrams += count(bits);
        second_of(now).lost += static_cast<int64_t>(count(bits));
        if (search_ != nullptr) {
            search_->on_lost(run.largest_of(bits), run.sent_at, now);
        }
    });
    settle(now);
}

// A late datagram is expected for at most two round trips after it was declared lost
// (LossDetector).
void Delivery::settle(TimePoint now) {
    log_.settle(now - std::min(4 * rtt_.smoothed() + kLateMargin, now.time_since_epoch()));
}

void Delivery::on_time(TimePoint now) {
    if (loss_.deadline() <= now) {
        detect_losses(now);
    }
}

Delivery::LossSecond& Delivery::second_of(TimePoint now) {
    const int64_t second = second_at(now);
    LossSecond& current = seconds_[static_cast<size_t>(second) % kLossSeconds];
    if (current.second != second) {
        current = {second, 0, 0};
    }
    return current;
}

bool Delivery::has_standing_queue() const {
    return relative_delay_.standing_queue() >=
           std::max<Duration>(RateEstimator::kSmallestQueue, rtt_.minimum() / 8);
}

Duration Delivery::time_for(uint64_t bytes) const {
    return time_for(bytes, rate_.is_known() ? std::max<uint64_t>(rate_.bytes_per_s(), 1)
                                            : std::max(rate_.bytes_per_s(), kAssumedBytesPerS));
}

Duration Delivery::time_for(uint64_t bytes, uint64_t bytes_per_s) {
    const double us = static_cast<double>(bytes) * 1e6 / static_cast<double>(bytes_per_s);
    const auto longest_us = static_cast<double>(base::to_us(kLongestQueue));
    return base::microseconds(static_cast<int64_t>(std::min(us, longest_us)));
}

std::optional<double> Delivery::loss(TimePoint now) const {
    uint64_t delivered = 0;
    int64_t lost = 0;
    for (const LossSecond& part : seconds_) {
        if (part.second > second_at(now) - static_cast<int64_t>(kLossSeconds)) {
            delivered += part.delivered;
            lost += part.lost;
        }
    }
    const auto missing = static_cast<uint64_t>(std::max<int64_t>(lost, 0));
    if (delivered + missing < kLossDatagrams) {
        return std::nullopt;
    }
    return static_cast<double>(missing) / static_cast<double>(delivered + missing);
}

}  // namespace continuo::recovery
