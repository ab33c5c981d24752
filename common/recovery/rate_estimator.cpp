#include "common/recovery/rate_estimator.hpp"

#include <algorithm>

namespace continuo::recovery {

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
    // Repeats are no deliveries, so what leaves beside them does not fill the path.
    if (run.is_repeat) {
        app_limited_until_ = std::max<uint64_t>(delivered_ + in_flight_, 1);
    }
}

void RateEstimator::begin_anew(TimePoint now) {
    begun_at_ = now;
    first_sent_at_ = now;
    delivered_at_ = now;
    has_queue_ = false;
    app_limited_until_ = std::max<uint64_t>(delivered_, 1);
}

void RateEstimator::on_delivered(const SentRun& run,
                                 SentLog::Position position,
                                 uint64_t bytes,
                                 uint64_t was_in_flight) {
    on_gone(was_in_flight);
    if (run.sent_at < begun_at_) {
        untimed_ += bytes;
        return;
    }
    delivered_ += bytes;
    if (!newest_ || position >= newest_position_) {
        newest_ = run;
        newest_position_ = position;
    }
}

// Bytes that were counted without a number and are named now may be outside every sample.
// `delivered_` then excludes them.
void RateEstimator::on_unnamed(int64_t bytes) {
    if (bytes >= 0) {
        delivered_ += static_cast<uint64_t>(bytes);
    } else {
        delivered_ -= std::min(static_cast<uint64_t>(-bytes), delivered_);
    }
}

void RateEstimator::finish(TimePoint arrived_at, Duration round_trip, bool has_queue) {
    if (!newest_) {
        return;
    }
    const SentRun run = *newest_;
    newest_.reset();
    has_queue_ = has_queue;
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
    // Over less than a round trip, acknowledgements that arrive together say nothing about the
    // rate.
    if (span <= Duration{} || span < round_trip || delivered_ <= run.delivered_bytes) {
        return;
    }
    const double span_s = std::chrono::duration<double>(span).count();
    const auto sample =
        static_cast<uint64_t>(static_cast<double>(delivered_ - run.delivered_bytes) / span_s);
    if (run.is_app_limited && sample < rate_.best()) {
        return;
    }
    is_known_ = is_known_ || !run.is_app_limited;
    if (!run.is_app_limited && has_queue_) {
        rate_.reset(sample, rounds_);
    } else {
        rate_.add(sample, rounds_, kWindowRounds);
    }
}

}  // namespace continuo::recovery
