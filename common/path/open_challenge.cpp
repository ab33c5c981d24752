#include "common/path/open_challenge.hpp"

#include <utility>

namespace continuo::path {

using base::Duration;
using base::TimePoint;

namespace {

// The last byte of the token is the number of the sending, from 0; all from this one on look alike.
constexpr uint32_t kLastSending = UINT8_MAX;
// A longer time includes an outage of the link, and is not a round trip.
constexpr Duration kMostUsefulRtt = base::seconds(1);
// Longer than a challenge lives: the next question comes from another repeat_once().
constexpr Duration kNoRepetition = base::seconds(60);

}  // namespace

void OpenChallenge::start(base::Random& random, TimePoint now) {
    random.fill(token_);
    since_ = now;
    again_at_ = now;
    interval_ = recovery::Liveness::kProbeInterval;
    repetitions_ = 0;
    was_sent_ = false;
    is_withheld_ = false;
}

void OpenChallenge::repeat_once(TimePoint now) {
    again_at_ = now;
    interval_ = kNoRepetition;
}

void OpenChallenge::resume(TimePoint now) {
    if (std::exchange(is_withheld_, false)) {
        again_at_ = now;
        interval_ = recovery::Liveness::kProbeInterval;
    }
}

bool OpenChallenge::take_due(TimePoint now) {
    if (again_at_ > now) {
        return false;
    }
    if (now - since_ > kChallengeLifetime) {
        stop();
        return false;
    }
    again_at_ = now + interval_;
    interval_ = longer_interval(interval_);
    return true;
}

wire::Challenge OpenChallenge::next_sending(TimePoint now) {
    repetitions_ += was_sent_ && asked_at_ != now ? 1U : 0U;
    was_sent_ = true;
    asked_at_ = now;
    wire::Challenge challenge{token_};
    challenge.token.back() ^= static_cast<uint8_t>(std::min(repetitions_, kLastSending));
    return challenge;
}

std::optional<OpenChallenge::Answer> OpenChallenge::answer(const wire::ChallengeToken& token,
                                                           TimePoint now) const {
    const auto sending = static_cast<uint32_t>(token.back() ^ token_.back());
    const bool is_of_it = std::equal(token.begin(), token.end() - 1, token_.begin());
    if (!is_open() || !is_of_it || sending > repetitions_) {
        return std::nullopt;
    }
    const bool is_newest = sending == repetitions_;
    const Duration round_trip = now - (is_newest ? asked_at_ : since_);
    const bool is_first = sending == 0 && round_trip <= kMostUsefulRtt;
    return Answer{round_trip, is_newest || is_first, is_unmarked(sending)};
}

}  // namespace continuo::path
