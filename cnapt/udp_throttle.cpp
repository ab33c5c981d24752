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
    tick.delivered_bytes =
        static_cast<double>(growth(traffic.received_bytes, before.received_bytes)) +
        static_cast<double>(tick.sent_bytes) * arrives;
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
        next_ = (next_ + 1) % kWindowTicks;
        filled_ = std::min(filled_ + 1, kWindowTicks);
        return watch(traffic, may_try, now);
    case Phase::Trying:
        stream_bytes_ += now - began_ > kTrialBegins ? tick.delivered_bytes : 0;
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

UdpThrottle::Step UdpThrottle::watch(const UdpTraffic& traffic, bool may_try, TimePoint now) {
    const bool has_other =
        traffic.other_heard_at != TimePoint{} && now - traffic.other_heard_at < kLatelyHeard;
    if (!may_try || has_other || filled_ < kWindowTicks || now < rest_until_) {
        return Step::None;
    }
    Tick sum;
    for (const Tick& tick : window_) {
        sum.received += tick.received;
        sum.lost += tick.lost;
        sum.sent_bytes += tick.sent_bytes;
        sum.delivered_bytes += tick.delivered_bytes;
    }
    const bool is_bad_down =
        sum.lost >= kFewestLost &&
        static_cast<double>(sum.lost) >= kHeavyLoss * static_cast<double>(sum.lost + sum.received);
    const bool is_bad_up = sum.sent_bytes >= kFewestBytesUp && traffic.loss_up >= kHeavyLoss;
    if (!is_bad_down && !is_bad_up) {
        return Step::None;
    }
    udp_bytes_per_s_ = sum.delivered_bytes / in_seconds(kTick * kWindowTicks);
    stream_bytes_ = 0;
    phase_ = Phase::Trying;
    began_ = now;
    return Step::TryStream;
}

UdpThrottle::Step UdpThrottle::judge(TimePoint now) {
    const double stream_bytes_per_s = stream_bytes_ / in_seconds(kTrialEnds - kTrialBegins);
    if (stream_bytes_per_s < udp_bytes_per_s_ * kWorthIt) {
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
