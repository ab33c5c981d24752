#include "tests/support/tcp_model.hpp"

#include <algorithm>
#include <cmath>

namespace continuo::tests {

using base::Duration;
using base::kNever;
using base::milliseconds;
using base::TimePoint;

namespace {

constexpr Duration kDelayedAck = milliseconds(40);
constexpr Duration kShortestTimeout = milliseconds(200);
constexpr double kBeta = 717.0 / 1024;
constexpr double kCubic = 0.4;
constexpr uint64_t kDuplicateThreshold = 3;
// HyStart as in tcp_cubic.c, without pacing.
constexpr double kLowWindow = 16;
constexpr Duration kTrainGap = milliseconds(2);
constexpr uint32_t kRoundSamples = 8;
// Segments that are acknowledged at once in the beginning (quick acknowledgements).
constexpr uint64_t kQuickAcks = 16;

double seconds_of(Duration span) {
    return static_cast<double>(base::to_us(span)) / 1e6;
}

}  // namespace

// --- Receiver

std::optional<TcpAck> TcpReceiver::on_segment(uint64_t number, TimePoint sent_at, TimePoint now) {
    ++segments_;
    const bool is_known = number < next_ || beyond_.contains(number);
    if (is_known) {
        echo_ = sent_at;
        return acknowledge(true);
    }
    if (number != next_) {
        newest_ = number;
        beyond_.insert(number);
        return acknowledge(false);  // echo stays that of the last one in order (RFC 7323)
    }
    echo_ = unacknowledged_ == 0 ? sent_at : echo_;
    ++next_;
    const bool fills_hole = !beyond_.empty();
    while (!beyond_.empty() && *beyond_.begin() == next_) {
        beyond_.erase(beyond_.begin());
        ++next_;
    }
    ++unacknowledged_;
    if (fills_hole || unacknowledged_ >= 2 || segments_ <= kQuickAcks) {
        return acknowledge(false);
    }
    acknowledge_at_ = std::min<TimePoint>(acknowledge_at_, now + kDelayedAck);
    return std::nullopt;
}

std::optional<TcpAck> TcpReceiver::on_timeout(TimePoint now) {
    return now >= acknowledge_at_ ? std::optional(acknowledge(false)) : std::nullopt;
}

TcpAck TcpReceiver::acknowledge(bool is_duplicate) {
    unacknowledged_ = 0;
    acknowledge_at_ = kNever;
    TcpAck ack;
    ack.next = next_;
    ack.echo = echo_;
    ack.is_duplicate = is_duplicate;
    const auto add = [&](uint64_t inside) {
        TcpAck::Block block{inside, inside + 1};
        while (beyond_.contains(block.first - 1)) {
            --block.first;
        }
        while (beyond_.contains(block.end)) {
            ++block.end;
        }
        for (size_t i = 0; i < ack.block_count; ++i) {
            if (ack.blocks[i].first == block.first) {
                return;
            }
        }
        ack.blocks[ack.block_count++] = block;
    };
    if (beyond_.contains(newest_)) {
        add(newest_);
    }
    for (auto at = beyond_.rbegin(); at != beyond_.rend() && ack.block_count < ack.blocks.size();
         ++at) {
        if (!beyond_.contains(*at + 1)) {
            add(*at);
        }
    }
    return ack;
}

// --- Sender

uint64_t TcpSender::pipe() const {
    return flight_.size() - sacked_ - lost_;
}

std::optional<uint64_t> TcpSender::next_segment(TimePoint now) {
    if (static_cast<double>(pipe()) + 1 > window_) {
        return std::nullopt;
    }
    if (timeout_at_ == kNever) {
        timeout_at_ =
            now + std::max<Duration>(
                      kShortestTimeout,
                      smoothed_rtt_ == Duration{}
                          ? base::seconds(1)
                          : smoothed_rtt_ + std::max<Duration>(variation_ * 4, kShortestTimeout)) *
                      (1 << std::min(backoff_, 6U));
    }
    sent_in_recovery_ += is_recovering_ ? 1 : 0;
    if (lost_ > 0) {
        for (size_t i = 0; i < flight_.size(); ++i) {
            Segment& segment = flight_[i];
            if (segment.is_lost && !segment.is_sacked) {
                segment.is_lost = false;
                segment.is_sent_again = true;
                segment.sent_at = now;
                --lost_;
                ++retransmissions_to_undo_;
                first_retransmission_ = std::min(first_retransmission_, now);
                return first_ + i;
            }
        }
    }
    flight_.push_back({now});
    return first_ + flight_.size() - 1;
}

void TcpSender::take(Segment& segment, uint64_t number, Delivery& delivery, TimePoint now) {
    lost_ -= segment.is_lost ? 1 : 0;
    segment.is_lost = false;
    ++delivery.segments;
    if (!segment.is_sent_again && number < highest_sacked_) {
        saw_reordering_ = true;
    }
    if (segment.sent_at >= rack_sent_at_) {
        const Duration rtt = now - segment.sent_at;
        const bool is_of_original = segment.is_sent_again && rtt < smallest_rtt_;
        if (!is_of_original) {
            rack_sent_at_ = segment.sent_at;
            rack_rtt_ = rtt;
        }
    }
    if (segment.is_sent_again) {
        delivery.is_retransmitted = true;
    } else if (segment.sent_at >= delivery.newest_sent) {
        delivery.newest_sent = segment.sent_at;
        delivery.rtt = now - segment.sent_at;
    }
}

TcpSender::Delivery TcpSender::take_delivered(const TcpAck& ack, TimePoint now) {
    Delivery delivery;
    while (first_ < ack.next && !flight_.empty()) {
        Segment& segment = flight_.front();
        if (segment.is_sacked) {
            --sacked_;
        } else {
            take(segment, first_, delivery, now);
        }
        flight_.pop_front();
        ++first_;
    }
    for (size_t i = 0; i < ack.block_count; ++i) {
        for (uint64_t number = std::max(ack.blocks[i].first, first_); number < ack.blocks[i].end;
             ++number) {
            Segment& segment = flight_[number - first_];
            if (!segment.is_sacked) {
                take(segment, number, delivery, now);
                segment.is_sacked = true;
                ++sacked_;
                highest_sacked_ = std::max(highest_sacked_, number);
            }
        }
    }
    return delivery;
}

void TcpSender::on_ack(const TcpAck& ack, TimePoint now) {
    const uint64_t before = first_;
    const Delivery delivery = take_delivered(ack, now);
    const bool has_advanced = first_ > before;
    if (ack.is_duplicate) {
        reordering_steps_ = std::min(reordering_steps_ + 1, 0xFFU);
        retransmissions_to_undo_ -= retransmissions_to_undo_ > 0 ? 1 : 0;
    }
    if (delivery.rtt > Duration{}) {
        note_rtt(delivery.rtt);
    }
    if (has_advanced) {
        backoff_ = 0;
        timeout_at_ = kNever;
        if (!flight_.empty()) {
            timeout_at_ =
                now + smoothed_rtt_ + std::max<Duration>(variation_ * 4, kShortestTimeout);
        }
    }
    const uint64_t lost_before = lost_;
    detect_losses(now);
    if (is_recovering_) {
        const bool is_spurious = first_retransmission_ != kNever && has_advanced &&
                                 ack.echo < first_retransmission_ && ack.echo != TimePoint{};
        const bool are_all_spurious =
            first_retransmission_ != kNever && retransmissions_to_undo_ == 0;
        if (is_spurious || are_all_spurious) {
            undo();
        } else if (first_ >= recovery_point_) {
            is_recovering_ = false;
            window_ = was_timeout_ ? window_ : threshold_;
            was_timeout_ = false;
        }
    } else if (lost_ > 0) {
        enter_recovery();
    }
    if (is_recovering_ && !was_timeout_) {
        reduce(delivery, lost_ > lost_before);
    } else if (has_advanced) {
        if (delivery.rtt > Duration{} && !(epoch_ != kNever && now - epoch_ < base::seconds(1))) {
            watch_delay(delivery.rtt, now);
        }
        grow(first_ - before, now);
    }
}

void TcpSender::note_rtt(Duration rtt) {
    smallest_rtt_ = std::min(smallest_rtt_, rtt);
    if (smoothed_rtt_ == Duration{}) {
        smoothed_rtt_ = rtt;
        variation_ = rtt / 2;
        return;
    }
    const Duration error = rtt > smoothed_rtt_ ? rtt - smoothed_rtt_ : smoothed_rtt_ - rtt;
    variation_ = (variation_ * 3 + error) / 4;
    smoothed_rtt_ = (smoothed_rtt_ * 7 + rtt) / 8;
}

Duration TcpSender::reordering_window() const {
    if (!saw_reordering_ && (is_recovering_ || sacked_ >= kDuplicateThreshold)) {
        return {};
    }
    return std::min<Duration>(smallest_rtt_ / 4 * reordering_steps_, smoothed_rtt_ / 8);
}

// RFC 8985
void TcpSender::detect_losses(TimePoint now) {
    reorder_at_ = kNever;
    if (rack_sent_at_ == TimePoint{}) {
        return;
    }
    const Duration allowed = rack_rtt_ + reordering_window();
    for (Segment& segment : flight_) {
        if (segment.is_sacked || segment.is_lost || segment.sent_at >= rack_sent_at_) {
            continue;
        }
        if (now - segment.sent_at >= allowed) {
            segment.is_lost = true;
            ++lost_;
        } else {
            reorder_at_ = std::min<TimePoint>(reorder_at_, segment.sent_at + allowed);
        }
    }
}

void TcpSender::enter_recovery() {
    is_recovering_ = true;
    was_timeout_ = false;
    recovery_point_ = first_ + flight_.size();
    window_before_ = window_;
    threshold_before_ = threshold_;
    epoch_ = kNever;
    last_largest_ = window_ < last_largest_ ? window_ * (1 + kBeta) / 2 : window_;
    threshold_ = std::max(std::floor(window_ * kBeta), 2.0);
    delivered_in_recovery_ = 0;
    sent_in_recovery_ = 0;
    first_retransmission_ = kNever;
    retransmissions_to_undo_ = 0;
}

void TcpSender::reduce(const Delivery& delivery, bool has_lost) {
    delivered_in_recovery_ += delivery.segments;
    double more = 0;
    const auto out = static_cast<double>(sent_in_recovery_);
    if (static_cast<double>(pipe()) > threshold_) {
        more = std::ceil(static_cast<double>(delivered_in_recovery_) * threshold_ /
                         std::max(window_before_, 1.0)) -
               out;
    } else {
        more = std::max(static_cast<double>(delivered_in_recovery_) - out,
                        static_cast<double>(delivery.segments));
        more += has_lost ? 0 : 1;
        more = std::min(threshold_ - static_cast<double>(pipe()), more);
    }
    more = std::max(more, sent_in_recovery_ == 0 ? 1.0 : 0.0);
    window_ = static_cast<double>(pipe()) + more;
}

void TcpSender::undo() {
    is_recovering_ = false;
    was_timeout_ = false;
    window_ = std::max(window_, window_before_);
    threshold_ = std::max(threshold_, threshold_before_);
    for (Segment& segment : flight_) {
        segment.is_lost = false;
    }
    lost_ = 0;
}

void TcpSender::grow(uint64_t segments, TimePoint now) {
    const bool is_limited = static_cast<double>(pipe() + segments) >= window_ * 0.5;
    if (!is_limited) {
        return;
    }
    if (is_in_slow_start()) {
        const double grown = std::min(window_ + static_cast<double>(segments), threshold_);
        segments -= static_cast<uint64_t>(grown - window_);
        window_ = grown;
        if (segments == 0) {
            return;
        }
    }
    grow_cubic(segments, now);
}

void TcpSender::grow_cubic(uint64_t segments, TimePoint now) {
    if (epoch_ == kNever) {
        epoch_ = now;
        reno_ = window_;
        if (last_largest_ <= window_) {
            k_ = 0;
            origin_ = window_;
        } else {
            k_ = std::cbrt((last_largest_ - window_) / kCubic);
            origin_ = last_largest_;
        }
    }
    const double at = seconds_of(now - epoch_ + delay_min_) - k_;
    const double target = origin_ + kCubic * at * at * at;
    double every = target > window_ ? window_ / (target - window_) : 100 * window_;
    if (last_largest_ == 0 && every > 20) {
        every = 20;
    }
    // As fast as Reno with this factor would grow.
    reno_ += static_cast<double>(segments) * 3 * (1 - kBeta) / (1 + kBeta) / window_;
    if (reno_ > window_) {
        every = std::min(every, window_ / (reno_ - window_));
    }
    partial_ += static_cast<double>(segments) / std::max(every, 2.0);
    if (partial_ >= 1) {
        window_ += std::floor(partial_);
        partial_ -= std::floor(partial_);
    }
}

void TcpSender::watch_delay(Duration rtt, TimePoint now) {
    if (delay_min_ == Duration{} || rtt < delay_min_) {
        delay_min_ = rtt;
    }
    if (left_slow_start_ || !is_in_slow_start()) {
        return;
    }
    if (first_ > round_end_) {
        round_began_ = last_train_ack_ = now;
        round_end_ = first_ + flight_.size();
        round_rtt_ = Duration::max();
        round_samples_ = 0;
    }
    if (window_ < kLowWindow) {
        return;
    }
    if (now - last_train_ack_ <= kTrainGap) {
        last_train_ack_ = now;
        left_slow_start_ = now - round_began_ > delay_min_ / 2;
    }
    round_rtt_ = std::min(round_rtt_, rtt);
    const Duration threshold =
        std::clamp<Duration>(delay_min_ / 8, milliseconds(4), milliseconds(16));
    if (round_samples_ < kRoundSamples) {
        ++round_samples_;
    } else if (round_rtt_ > delay_min_ + threshold) {
        left_slow_start_ = true;
    }
    if (left_slow_start_) {
        threshold_ = window_;
    }
}

void TcpSender::on_timeout(TimePoint now) {
    if (now >= reorder_at_) {
        detect_losses(now);
        if (lost_ > 0 && !is_recovering_) {
            enter_recovery();
            reduce({}, true);
        }
    }
    if (now < timeout_at_) {
        return;
    }
    ++backoff_;
    timeout_at_ = kNever;
    if (flight_.empty()) {
        return;
    }
    if (!was_timeout_) {
        enter_recovery();
    }
    was_timeout_ = is_recovering_ = true;
    left_slow_start_ = false;
    delay_min_ = {};
    last_largest_ = 0;
    window_ = 1;
    lost_ = 0;
    for (Segment& segment : flight_) {
        segment.is_lost = !segment.is_sacked;
        lost_ += segment.is_lost ? 1 : 0;
    }
}

}  // namespace continuo::tests
