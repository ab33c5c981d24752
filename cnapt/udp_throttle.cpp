#include "cnapt/udp_throttle.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt {

using base::Duration;
using base::TimePoint;

namespace {

uint64_t growth(uint64_t now, uint64_t before) {
    return now > before ? now - before : 0;  // a session that began anew
}

double in_seconds(Duration span) {
    return std::chrono::duration<double>(span).count();
}

}  // namespace

UdpThrottle::Tick UdpThrottle::take(const UdpTraffic& traffic, bool is_on_stream) {
    const UdpTraffic before = std::exchange(before_, traffic);
    Tick tick;
    if (!std::exchange(has_before_, true)) {
        return tick;
    }
    tick.received = growth(traffic.received_datagrams, before.received_datagrams);
    tick.lost = growth(traffic.lost_datagrams, before.lost_datagrams);
    tick.sent_bytes = growth(traffic.sent_bytes, before.sent_bytes);
    const double arrives = is_on_stream ? 1.0 : 1.0 - std::clamp(traffic.loss_up, 0.0, 1.0);
    tick.delivered_down =
        static_cast<double>(growth(traffic.received_inner_bytes, before.received_inner_bytes));
    tick.delivered_up = static_cast<double>(tick.sent_bytes) * arrives;
    return tick;
}

void UdpThrottle::begin_watching(TimePoint now) {
    phase_ = Phase::Watching;
    filled_ = 0;
    watching_since_ = now;
}

UdpThrottle::Step
UdpThrottle::on_tick(const UdpTraffic& traffic, bool is_on_stream, bool may_try, TimePoint now) {
    const Tick tick = take(traffic, is_on_stream);
    if (phase_ != Phase::Watching && !is_on_stream) {
        begin_watching(now);  // TCP ended, or another uplink took over
        return Step::None;
    }
    switch (phase_) {
    case Phase::Watching:
        if (is_on_stream) {
            filled_ = 0;  // UDP is silent: TcpFallback's case
            return Step::None;
        }
        window_[next_] = tick;
        next_ = (next_ + 1) % window_.size();
        filled_ = std::min(filled_ + 1, window_.size());
        return watch(traffic, may_try, now);
    case Phase::Trying:
        stream_bytes_ += now - began_ > kTrialBegins ? tick.delivered(way_) : 0;
        return now - began_ >= kTrialEnds ? judge(now) : Step::None;
    case Phase::Staying:
        if (now - began_ >= stay_) {
            begin_watching(now);
            return Step::TryUdp;
        }
        break;
    }
    return Step::None;
}

double UdpThrottle::Tick::delivered(Way way) const {
    return way == Way::Down ? delivered_down : delivered_up;
}

bool UdpThrottle::Tick::loses(double share, uint64_t fewest) const {
    return lost >= fewest &&
           static_cast<double>(lost) >= share * static_cast<double>(lost + received);
}

UdpThrottle::Tick UdpThrottle::newest(size_t ticks) const {
    Tick sum;
    for (size_t age = 1; age <= std::min(ticks, filled_); ++age) {
        const Tick& tick = window_[(next_ + window_.size() - age) % window_.size()];
        sum.received += tick.received;
        sum.lost += tick.lost;
        sum.sent_bytes += tick.sent_bytes;
        sum.delivered_down += tick.delivered_down;
        sum.delivered_up += tick.delivered_up;
        sum.ticks_with_loss += tick.lost > 0 ? 1U : 0U;
    }
    return sum;
}

UdpThrottle::Step UdpThrottle::watch(const UdpTraffic& traffic, bool may_try, TimePoint now) {
    const bool has_other =
        traffic.other_heard_at != TimePoint{} && now - traffic.other_heard_at < kLatelyHeard;
    if (!may_try || has_other || filled_ < kWindowTicks || now < rest_until_) {
        return Step::None;
    }
    const Tick few = newest(kWindowTicks);
    const Tick many = newest(kThinWindowTicks);
    const bool is_bad_down = few.loses(kHeavyLoss, kFewestLost);
    const bool is_bad_up = few.sent_bytes >= kFewestBytesUp && traffic.loss_up >= kHeavyLoss;
    const bool is_bad_and_thin = filled_ == kThinWindowTicks &&
                                 many.loses(kThinHeavyLoss, kThinFewestLost) &&
                                 many.ticks_with_loss >= kThinFewestTicks;
    if (is_bad_down) {
        begin_trial(Way::Down, few, kWindowTicks, kWorthIt, now);
    } else if (is_bad_up) {
        begin_trial(Way::Up, few, kWindowTicks, kWorthIt, now);
    } else if (is_bad_and_thin) {
        begin_trial(Way::Down, many, kThinWindowTicks, kThinWorthIt, now);
    } else {
        return Step::None;
    }
    return Step::TryStream;
}

void UdpThrottle::begin_trial(
    Way way, const Tick& udp, size_t ticks, double worth_it, TimePoint now) {
    way_ = way;
    wanted_bytes_per_s_ =
        worth_it * udp.delivered(way) / in_seconds(kTick * static_cast<int64_t>(ticks));
    stream_bytes_ = 0;
    phase_ = Phase::Trying;
    began_ = now;
}

UdpThrottle::Step UdpThrottle::judge(TimePoint now) {
    const double stream_bytes_per_s = stream_bytes_ / in_seconds(kTrialEnds - kTrialBegins);
    if (stream_bytes_per_s < wanted_bytes_per_s_) {
        rest_ = std::clamp<Duration>(rest_ * 2, kFirstRest, kLongestRest);
        rest_until_ = now + rest_;
        begin_watching(now);
        return Step::TryUdp;
    }
    const bool is_again =
        watching_since_ != TimePoint{} && began_ - watching_since_ <= kAgainWithin;
    stay_ = is_again ? std::clamp<Duration>(stay_ * 2, kFirstStay, kLongestStay) : kFirstStay;
    rest_ = {};
    phase_ = Phase::Staying;
    began_ = now;
    return Step::None;
}

}  // namespace continuo::cnapt
