#include "cnapt/node/tcp_fallback.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::node {

using base::TimePoint;

TcpFallback::Decision TcpFallback::decide(const UdpFacts& udp, TimePoint now) {
    if (udp.silent_since == base::kNever) {
        return {};
    }
    const bool has_carried = ended_at_ != base::kNever && now - ended_at_ < kCarriedLately;
    const base::Duration patience = udp.was_proven ? kAskStreamAfter : kAskStreamAfterUnproven;
    const TimePoint ask_at = has_carried ? std::min(udp.silent_since + patience, ended_at_)
                                         : udp.silent_since + patience;
    if (now < ask_at) {
        return {Step::None, ask_at};
    }
    const bool has_answered = answered_at_ != base::kNever && answered_at_ >= ask_at;
    if (!has_answered) {
        return {Step::AskStream, base::kNever};
    }
    // A stream that works is silent for a moment after each datagram.
    const TimePoint use_at =
        std::max({ask_at + kAskedBefore, answered_at_ + kUdpGrace, udp.silent_since + kUdpGrace});
    if (now < use_at) {
        return {Step::None, use_at};
    }
    return {udp.has_other_answered ? Step::None : Step::UseStream, base::kNever};
}

void TcpFallback::on_stream_used(TimePoint now) {
    const bool was_short = udp_used_at_ != base::kNever && now - udp_used_at_ < kShortStay;
    rest_ = was_short ? std::clamp<base::Duration>(rest_ * 2, kFirstRest, kLongestRest)
                      : base::Duration{};
    rest_until_ = now + rest_;
    retried_at_ = now;
    busy_at_ = now;
}

bool TcpFallback::wants_retry(uint64_t traffic, TimePoint now) {
    if (std::exchange(traffic_, traffic) != traffic) {
        busy_at_ = now;
    }
    const base::Duration interval =
        now - busy_at_ < kRetryWhileBusy * 2 ? kRetryWhileBusy : kRetryWhileIdle;
    if (now < rest_until_ || now - retried_at_ < interval) {
        return false;
    }
    retried_at_ = now;
    return true;
}

}  // namespace continuo::cnapt::node
