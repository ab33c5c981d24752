#include "cnapt/node/udp_throttle.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::node {

using base::Duration;
using base::TimePoint;

namespace {

// Negative when missing datagrams came late.
int64_t growth(uint64_t now, uint64_t before) {
    return static_cast<int64_t>(now - before);
}

double in_seconds(Duration span) {
    return std::chrono::duration<double>(span).count();
}

}  // namespace

bool UdpThrottle::Tick::loses(double share, int64_t fewest) const {
    return lost >= fewest &&
           static_cast<double>(lost) >= share * static_cast<double>(lost + received);
}

bool UdpThrottle::Tick::loses_up(double share) const {
    return lost_up > 0 && static_cast<double>(lost_up) >= share * static_cast<double>(sent);
}

double UdpThrottle::Tick::rate(Way way) const {
    return span > Duration{} ? delivered_bytes.at(static_cast<size_t>(way)) / in_seconds(span) : 0;
}

void UdpThrottle::Tick::add(const Tick& other) {
    span += other.span;
    received += other.received;
    lost += other.lost;
    sent_bytes += other.sent_bytes;
    for (size_t way = 0; way < delivered_bytes.size(); ++way) {
        delivered_bytes.at(way) += other.delivered_bytes.at(way);
    }
    ticks_with_loss += other.lost > 0 ? 1U : 0U;
}

UdpThrottle::Tick UdpThrottle::take(const UdpTraffic& traffic, bool is_on_stream, TimePoint now) {
    const UdpTraffic before = std::exchange(before_, traffic);
    const TimePoint since = std::exchange(taken_at_, now);
    const bool is_another =
        traffic.session_id != before.session_id || traffic.network != before.network;
    if (traffic.network != before.network) {  // results from another network do not apply here
        rest_ = {};
        rest_until_ = {};
        stay_ = {};
        watching_since_ = {};
    }
    if (!std::exchange(has_before_, true) || is_another) {
        filled_ = 0;
        return {};
    }
    Tick tick;
    tick.span = now - since;
    tick.received = growth(traffic.received_datagrams, before.received_datagrams);
    tick.lost = growth(traffic.lost_datagrams, before.lost_datagrams);
    tick.sent_bytes = growth(traffic.sent_bytes, before.sent_bytes);
    tick.sent = growth(traffic.sent_datagrams, before.sent_datagrams);
    tick.lost_up = growth(traffic.lost_up_datagrams, before.lost_up_datagrams);
    const double arrives = is_on_stream ? 1.0 : 1.0 - std::clamp(traffic.loss_up, 0.0, 1.0);
    tick.delivered_bytes = {
        static_cast<double>(growth(traffic.received_inner_bytes, before.received_inner_bytes)),
        static_cast<double>(tick.sent_bytes) * arrives};
    return tick;
}

void UdpThrottle::remember(const Tick& tick, TimePoint now) {
    if (tick.span <= Duration{}) {
        return;
    }
    const Duration since = now - std::exchange(remembered_at_, now);
    in_row_ = since > 2 * kTick ? 1 : in_row_ + 1;
    if (since > kLongestSilence) {
        filled_ = 0;
    }
    window_.at(next_) = tick;
    next_ = (next_ + 1) % window_.size();
    filled_ = std::min(filled_ + 1, window_.size());
}

void UdpThrottle::begin_watching(TimePoint now) {
    phase_ = Phase::Watching;
    filled_ = 0;
    watching_since_ = now;
}

UdpThrottle::Step
UdpThrottle::on_tick(const UdpTraffic& traffic, bool is_on_stream, bool may_try, TimePoint now) {
    const TimePoint since = taken_at_;
    const Tick tick = take(traffic, is_on_stream, now);
    if (phase_ != Phase::Watching && !is_on_stream) {
        begin_watching(now);  // TCP ended, or another uplink took over
        return Step::None;
    }
    switch (phase_) {
    case Phase::Watching:
        if (is_on_stream) {
            return Step::None;  // UDP is silent: TcpFallback's case
        }
        remember(tick, now);
        return watch(traffic, may_try, now);
    case Phase::Trying:
        if (since - began_ >= kTrialBegins && tick.span > Duration{}) {
            carried_.add(tick);
            has_stalled_ = has_stalled_ || tick.delivered_bytes.at(static_cast<size_t>(way_)) <= 0;
        }
        if (traffic.is_stream_silent) {
            carried_ = {};  // for whatever reason, such as a black hole for its full segments
        }
        return traffic.is_stream_silent || now - began_ >= kTrialEnds ? judge(now) : Step::None;
    case Phase::Staying:
        if (now - began_ >= stay_) {
            begin_watching(now);
            return Step::TryUdp;
        }
        break;
    }
    return Step::None;
}

const UdpThrottle::Tick& UdpThrottle::remembered(size_t age) const {
    return window_.at((next_ + window_.size() - age) % window_.size());
}

UdpThrottle::Tick UdpThrottle::newest(size_t ticks) const {
    Tick sum;
    Tick in_use;
    for (size_t age = 1; age <= std::min(ticks, filled_); ++age) {
        const Tick& tick = remembered(age);
        sum.add(tick);
        if (tick.received + tick.lost + tick.sent_bytes > 0) {
            in_use = sum;  // earlier traffic does not belong to the rate
            in_use.ticks_in_use = age;
        }
    }
    return in_use;
}

bool UdpThrottle::has_heavy_loss_up(const UdpTraffic& traffic) const {
    size_t heavy_ticks = 0;
    for (size_t age = 1; age <= kWindowTicks; ++age) {
        heavy_ticks += remembered(age).loses_up(kHeavyLoss) ? 1U : 0U;
    }
    return heavy_ticks >= kHeavyTicks && traffic.loss_up >= kHeavyLoss &&
           newest(kWindowTicks).sent_bytes >= kFewestBytesUp;
}

// UDP's delivery since heavy loss began, to which TCP is compared. Either the whole window has
// heavy loss, in at least two ticks; or all newer ticks together have it after one that lost much,
// since the sender has slowed down. The worst of these is left out, since a pause of the link may
// end in it.
std::optional<UdpThrottle::Tick> UdpThrottle::heavy_loss_down() const {
    const Tick window = newest(kWindowTicks);
    size_t heavy_ticks = 0;
    size_t oldest_heavy = 0;
    for (size_t age = 1; age <= kWindowTicks; ++age) {
        if (remembered(age).loses(kHeavyLoss, kFewestLostInTick)) {
            ++heavy_ticks;
            oldest_heavy = age;
        }
    }
    if (heavy_ticks >= kHeavyTicks && window.rate(Way::Down) > 0 &&
        window.loses(kHeavyLoss, kFewestLost)) {
        // The loss may have begun in the middle of the oldest.
        const Tick since = newest(oldest_heavy - 1);
        return since.rate(Way::Down) > 0 ? since : window;
    }
    Tick worst;
    for (size_t age = 1; age < std::min(in_row_, filled_); ++age) {
        worst = remembered(age).lost > worst.lost ? remembered(age) : worst;
        const Tick since = newest(age);
        Tick others = since;
        others.lost -= worst.lost;
        others.received -= worst.received;
        if (remembered(age + 1).lost >= kFewestLost && since.rate(Way::Down) > 0 &&
            since.loses(kHeavyLoss, kFewestLostInTick) &&
            others.loses(kHeavyLoss, kFewestLostInTick)) {
            return since;
        }
    }
    return std::nullopt;
}

UdpThrottle::Step UdpThrottle::watch(const UdpTraffic& traffic, bool may_try, TimePoint now) {
    const bool has_other =
        traffic.other_heard_at != TimePoint{} && now - traffic.other_heard_at < kLatelyHeard;
    if (!may_try || has_other || filled_ < kWindowTicks || now < rest_until_) {
        return Step::None;
    }
    const Tick few = newest(kWindowTicks);
    const Tick many = newest(kThinWindowTicks);
    const bool has_window = in_row_ >= kWindowTicks;
    const std::optional<Tick> down = has_window ? heavy_loss_down() : std::nullopt;
    const bool is_bad_up = has_window && has_heavy_loss_up(traffic);
    const bool is_bad_and_thin =
        filled_ == kThinWindowTicks && many.ticks_in_use >= kThinShortest &&
        many.ticks_with_loss >= kThinFewestTicks && many.rate(Way::Down) > 0 &&
        many.loses(kThinHeavyLoss, kThinFewestLost);
    if (down) {
        begin_trial(Way::Down, *down, false, now);
    } else if (is_bad_up) {
        begin_trial(Way::Up, few, false, now);
    } else if (is_bad_and_thin) {
        begin_trial(Way::Down, many, true, now);
    } else {
        return Step::None;
    }
    return Step::TryStream;
}

void UdpThrottle::begin_trial(Way way, const Tick& udp, bool is_thin, TimePoint now) {
    way_ = way;
    is_thin_ = is_thin;
    const Way other = way == Way::Down ? Way::Up : Way::Down;
    const double of_other = udp.rate(other) >= kOtherWayBytes ? udp.rate(other) : 0;
    wanted_bytes_per_s_.at(static_cast<size_t>(way)) =
        udp.rate(way) * (is_thin ? kThinWorthIt : kWorthIt);
    wanted_bytes_per_s_.at(static_cast<size_t>(other)) = of_other * kOtherWayShare;
    carried_ = {};
    has_stalled_ = false;
    phase_ = Phase::Trying;
    began_ = now;
}

// A thin flow may get all its bytes, but late: it must not stall.
bool UdpThrottle::is_worth_it() const {
    const bool is_enough = carried_.rate(Way::Down) >= wanted_bytes_per_s_[0] &&
                           carried_.rate(Way::Up) >= wanted_bytes_per_s_[1];
    return is_enough && carried_.rate(way_) > 0 && !(is_thin_ && has_stalled_);
}

UdpThrottle::Step UdpThrottle::judge(TimePoint now) {
    if (!is_worth_it()) {
        // Without anything to carry, it has shown nothing.
        const bool has_shown = carried_.rate(way_) > 0;
        rest_ = std::clamp<Duration>(rest_ * (has_shown ? 2 : 1), kFirstRest, kLongestRest);
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

}  // namespace continuo::cnapt::node
