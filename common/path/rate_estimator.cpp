#include "common/path/rate_estimator.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::TimePoint;

void RateEstimator::on_sent(SentRun& run, uint64_t bytes, TimePoint now) {
    const bool has_paused = in_flight_ == 0 && now - delivered_at_ > kShortestSpan;
    if (has_paused || newer_.delivered_at > now) {
        older_ = newer_ = {delivered_, now, now};  // a pause is no part of a sample
    }
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

void RateEstimator::begin_anew(TimePoint now) {
    begun_at_ = now;
    newest_.reset();
    older_ = newer_ = {delivered_, now, now};
    first_sent_at_ = now;
    delivered_at_ = now;
    has_queue_ = false;
    on_app_limited();
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
    const Sample sample = sample_of(run);
    move_marks(run);
    // Of less than a round trip acknowledgements that come together tell nothing.
    if (sample.span < std::max(round_trip, kShortestSpan) || sample.bytes == 0) {
        return;
    }
    const double span_s = std::chrono::duration<double>(sample.span).count();
    const auto bytes_per_s = static_cast<uint64_t>(static_cast<double>(sample.bytes) / span_s);
    if (sample.is_app_limited && bytes_per_s < rate_.best()) {
        return;
    }
    is_known_ = is_known_ || !sample.is_app_limited;
    if (!sample.is_app_limited && has_queue_) {
        rate_.reset(bytes_per_s, rounds_);
    } else {
        rate_.add(bytes_per_s, rounds_, kWindowRounds);
    }
}

RateEstimator::Sample RateEstimator::sample_of(const SentRun& run) const {
    const Duration span =
        std::max(run.sent_at - run.first_sent_at, delivered_at_ - run.delivered_at);
    if (span >= kShortestSpan) {
        return {delivered_ - std::min(run.delivered_bytes, delivered_), span, run.is_app_limited};
    }
    return {delivered_ - std::min(older_.delivered, delivered_),
            std::max(run.sent_at - older_.sent_at, delivered_at_ - older_.delivered_at),
            older_.is_app_limited || run.is_app_limited};
}

void RateEstimator::move_marks(const SentRun& run) {
    older_.is_app_limited = older_.is_app_limited || run.is_app_limited;
    newer_.is_app_limited = newer_.is_app_limited || run.is_app_limited;
    if (delivered_at_ - newer_.delivered_at >= kShortestSpan) {
        older_ = newer_;
        newer_ = {delivered_, delivered_at_, run.sent_at, false};
    }
}

}  // namespace continuo::path
