#include "common/path/rate_estimator.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::TimePoint;

void RateEstimator::on_sent(SentRun& run, uint64_t bytes, TimePoint now) {
    if (in_flight_ == 0) {
        first_sent_at_ = now;
        delivered_at_ = now;
    }
    run.delivered_bytes = delivered_;
    run.delivered_at = delivered_at_;
    run.first_sent_at = first_sent_at_;
    run.is_app_limited = app_limited_until_ != 0;
    in_flight_ += bytes;
}

void RateEstimator::on_delivered(const SentRun& run,
                                 SentLog::Position position,
                                 uint64_t bytes,
                                 uint64_t was_in_flight) {
    delivered_ += bytes;
    on_gone(was_in_flight);
    if (!newest_ || position >= newest_position_) {
        newest_ = run;
        newest_position_ = position;
    }
}

bool RateEstimator::has_standing_queue(const RttEstimator& rtt) {
    const Duration queue = std::max<Duration>(kSmallestQueue, rtt.minimum() / 8);
    return rtt.has_sample() && rtt.recent_minimum() >= rtt.minimum() + queue;
}

void RateEstimator::finish(TimePoint arrived_at, const RttEstimator& rtt) {
    if (!newest_) {
        return;
    }
    const SentRun run = *newest_;
    newest_.reset();
    delivered_at_ = std::max(delivered_at_, arrived_at);
    first_sent_at_ = std::max(first_sent_at_, run.sent_at);
    if (app_limited_until_ != 0 && delivered_ > app_limited_until_) {
        app_limited_until_ = 0;
    }
    if (run.delivered_bytes >= round_ends_at_) {
        ++rounds_;
        round_ends_at_ = delivered_;
    }
    const Duration span =
        std::max(run.sent_at - run.first_sent_at, delivered_at_ - run.delivered_at);
    // Of less than a round trip acknowledgements that come together tell nothing.
    if (span <= Duration{} || span < rtt.minimum() || delivered_ <= run.delivered_bytes) {
        return;
    }
    const double seconds = std::chrono::duration<double>(span).count();
    const auto sample =
        static_cast<uint64_t>(static_cast<double>(delivered_ - run.delivered_bytes) / seconds);
    if (run.is_app_limited && sample < rate_.best()) {
        return;
    }
    is_known_ = is_known_ || !run.is_app_limited;
    if (!run.is_app_limited && has_standing_queue(rtt)) {
        rate_.reset(sample, rounds_);
    } else {
        rate_.add(sample, rounds_, kWindowRounds);
    }
}

void RateEstimator::reset() {
    const uint64_t delivered = delivered_;
    *this = RateEstimator();
    delivered_ = delivered;
}

}  // namespace continuo::path
