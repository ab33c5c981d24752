#include "policy/udp_throttle.hpp"

#include <algorithm>
#include <utility>

namespace continuo::policy {

using base::Duration;
using base::TimePoint;

namespace {

// Negative when what was missing has come late.
int64_t difference(uint64_t now, uint64_t before) {
    return static_cast<int64_t>(now - before);
}

double in_seconds(Duration span) {
    return std::chrono::duration<double>(span).count();
}

}  // namespace

bool UdpThrottle::Datagrams::loses(double share, int64_t fewest) const {
    return lost >= fewest &&
           static_cast<double>(lost) >= share * static_cast<double>(lost + arrived);
}

void UdpThrottle::Datagrams::add(const Datagrams& other) {
    arrived += other.arrived;
    lost += other.lost;
    bytes += other.bytes;
    ticks_with_loss += other.lost > 0 ? 1U : 0U;
}

double UdpThrottle::Tick::rate(Way way) const {
    if (span <= Duration{}) {
        return 0;
    }
    const double bytes_per_s = static_cast<double>(by(way).bytes) / in_seconds(span);
    const int64_t lost = std::max<int64_t>(up.lost, 0);
    return way == Way::Down || lost == 0 ? bytes_per_s
                                         : bytes_per_s * static_cast<double>(up.arrived) /
                                               static_cast<double>(up.arrived + lost);
}

void UdpThrottle::Tick::add(const Tick& other) {
    span += other.span;
    down.add(other.down);
    up.add(other.up);
}

UdpThrottle::Tick
UdpThrottle::growth(const UdpTraffic& traffic, const UdpTraffic& before, bool is_on_stream) {
    Tick tick;
    tick.down = {
        .arrived = difference(traffic.received_datagrams, before.received_datagrams),
        .lost = difference(traffic.lost_datagrams, before.lost_datagrams),
        .bytes = difference(traffic.received_inner_bytes, before.received_inner_bytes),
    };
    tick.up.bytes = difference(traffic.sent_bytes, before.sent_bytes);
    const int64_t arrived = difference(traffic.arrived_up_datagrams, before.arrived_up_datagrams);
    const int64_t lost = difference(traffic.lost_up_datagrams, before.lost_up_datagrams);
    const bool has_begun_anew = arrived < 0 || arrived + lost < 0;
    if (!is_on_stream && traffic.path == before.path && !has_begun_anew) {
        tick.up.arrived = arrived;
        tick.up.lost = lost;
    }
    return tick;
}

UdpThrottle::Tick UdpThrottle::take(const UdpTraffic& traffic, bool is_on_stream, TimePoint now) {
    const UdpTraffic before = std::exchange(before_, traffic);
    const TimePoint since = std::exchange(taken_at_, now);
    const bool is_another =
        traffic.session_id != before.session_id || traffic.network != before.network;
    if (traffic.network != before.network) {  // what was found out there says nothing here
        rest_.reset();
        rest_until_ = {};
        stay_.reset();
        watching_since_ = {};
    }
    if (!std::exchange(has_before_, true) || is_another) {
        filled_ = 0;
        finding_.reset();
        return {};
    }
    Tick tick = growth(traffic, before, is_on_stream);
    tick.span = now - since;
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
    finding_.reset();
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
            finding_.reset();
            return Step::None;  // UDP is silent: TcpFallback's case
        }
        remember(tick, now);
        return watch(traffic, may_try, now);
    case Phase::Trying:
        if (since - began_ >= kTrialBegins && tick.span > Duration{}) {
            carried_.add(tick);
            has_stalled_ = has_stalled_ || tick.rate(way_) <= 0;
        }
        if (traffic.is_stream_silent) {
            carried_ = {};  // for whatever reason, as a hole for its full segments
        }
        return traffic.is_stream_silent || now - began_ >= kTrialEnds ? judge(now) : Step::None;
    case Phase::Staying:
        if (now - began_ >= stay_.pause()) {
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
        if (tick.down.arrived + tick.down.lost + tick.up.bytes > 0) {
            in_use = sum;  // what was before is no part of the rate
            in_use.ticks_in_use = age;
        }
    }
    return in_use;
}

// The whole window loses heavily, in two ticks at least. Or all newer ticks together do after one
// that lost much, as the sender has slowed down since: the worst of these is left out, since a
// pause of the link may end in it.
std::optional<UdpThrottle::Tick> UdpThrottle::heavy_loss(Way way) const {
    const Tick window = newest(kWindowTicks);
    size_t heavy_ticks = 0;
    for (size_t age = 1; age <= kWindowTicks; ++age) {
        heavy_ticks += remembered(age).by(way).loses(kHeavyLoss, kFewestLostInTick) ? 1U : 0U;
    }
    if (heavy_ticks >= kHeavyTicks && window.rate(way) > 0 &&
        window.by(way).loses(kHeavyLoss, kFewestLost)) {
        return window;
    }
    Datagrams worst;
    for (size_t age = 1; age < std::min(in_row_, filled_); ++age) {
        const Datagrams& newer = remembered(age).by(way);
        worst = newer.lost > worst.lost ? newer : worst;
        const Tick since = newest(age);
        Datagrams others = since.by(way);
        others.lost -= worst.lost;
        others.arrived -= worst.arrived;
        if (remembered(age + 1).by(way).lost >= kFewestLost && since.rate(way) > 0 &&
            since.by(way).loses(kHeavyLoss, kFewestLostInTick) &&
            others.loses(kHeavyLoss, kFewestLostInTick)) {
            return since;
        }
    }
    return std::nullopt;
}

// Only on the way down: what of a thin flow up arrives over TCP, and when, is not known in time.
std::optional<UdpThrottle::Tick> UdpThrottle::thin_loss_down() const {
    const Tick window = newest(kThinWindowTicks);
    const bool is_found =
        window.ticks_in_use >= kThinShortest && window.down.ticks_with_loss >= kThinFewestTicks &&
        window.rate(Way::Down) > 0 && window.down.loses(kThinHeavyLoss, kThinFewestLost);
    return is_found ? std::optional(window) : std::nullopt;
}

std::optional<UdpThrottle::Finding> UdpThrottle::find(TimePoint now) const {
    if (filled_ >= kWindowTicks && in_row_ >= kWindowTicks) {
        for (const Way way : {Way::Down, Way::Up}) {
            if (const std::optional<Tick> heavy = heavy_loss(way)) {
                return Finding{way, *heavy, false, now};
            }
        }
    }
    if (filled_ == kThinWindowTicks) {
        if (const std::optional<Tick> thin = thin_loss_down()) {
            return Finding{Way::Down, *thin, true, now};
        }
    }
    return std::nullopt;
}

UdpThrottle::Step UdpThrottle::watch(const UdpTraffic& traffic, bool may_try, TimePoint now) {
    const bool has_other =
        traffic.other_heard_at != TimePoint{} && now - traffic.other_heard_at < kLatelyHeard;
    if (has_other || now < rest_until_) {
        finding_.reset();
        return Step::None;
    }
    if (const std::optional<Finding> found = find(now)) {
        finding_ = found;
    } else if (finding_ && now - finding_->at >= kFindingLasts) {
        finding_.reset();
    }
    if (!finding_ || !may_try) {
        return Step::None;
    }
    begin_trial(*finding_, now);
    finding_.reset();
    return Step::TryStream;
}

void UdpThrottle::begin_trial(const Finding& finding, TimePoint now) {
    way_ = finding.way;
    is_thin_ = finding.is_thin;
    const Way other = way_ == Way::Down ? Way::Up : Way::Down;
    const double of_other = finding.udp.rate(other) >= kOtherWayBytes ? finding.udp.rate(other) : 0;
    wanted_bytes_per_s_.at(static_cast<size_t>(way_)) =
        finding.udp.rate(way_) * (is_thin_ ? kThinWorthIt : kWorthIt);
    wanted_bytes_per_s_.at(static_cast<size_t>(other)) = of_other * kOtherWayShare;
    carried_ = {};
    has_stalled_ = false;
    phase_ = Phase::Trying;
    began_ = now;
}

// A thin flow may get all of its bytes, and each of them late: it may not stand still.
bool UdpThrottle::is_worth_it() const {
    const bool is_enough = carried_.rate(Way::Down) >= wanted_bytes_per_s_[0] &&
                           carried_.rate(Way::Up) >= wanted_bytes_per_s_[1];
    return is_enough && carried_.rate(way_) > 0 && !(is_thin_ && has_stalled_);
}

UdpThrottle::Step UdpThrottle::judge(TimePoint now) {
    if (!is_worth_it()) {
        // When nothing was to carry, it has shown nothing.
        const bool has_shown = carried_.rate(way_) > 0;
        rest_until_ =
            now + (has_shown ? rest_.next(kFirstRest, kLongestRest) : rest_.repeat(kFirstRest));
        begin_watching(now);
        return Step::TryUdp;
    }
    const bool is_again =
        watching_since_ != TimePoint{} && began_ - watching_since_ <= kAgainWithin;
    if (!is_again) {
        stay_.reset();
    }
    stay_.next(kFirstStay, kLongestStay);
    rest_.reset();
    phase_ = Phase::Staying;
    began_ = now;
    return Step::None;
}

}  // namespace continuo::policy
