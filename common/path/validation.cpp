#include "common/path/validation.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::TimePoint;

namespace {

// The last byte of the token tells the sending, counted from 0; all later ones look alike.
constexpr uint32_t kLastSending = UINT8_MAX;
// Longer than a challenge lives.
constexpr Duration kNoRepetition = base::seconds(60);

}  // namespace

void Validation::on_received(uint64_t bytes, TimePoint now) {
    if (is_proven_) {
        return;
    }
    received_bytes_ += bytes;
    if (is_asked() && std::exchange(is_withheld_, false)) {
        again_at_ = now;
        interval_ = kFirstProbeInterval;
    }
}

uint64_t Validation::room_for_data() const {
    if (is_proven_) {
        return UINT64_MAX;
    }
    const uint64_t taken = sent_bytes_ + kChallengeRoomBytes;
    return allowed_bytes() - std::min(allowed_bytes(), taken);
}

void Validation::start(base::Random& random, TimePoint now) {
    random.fill(token_);
    asked_since_ = now;
    again_at_ = now;
    interval_ = kFirstProbeInterval;
    repetitions_ = 0;
    was_sent_ = false;
    is_withheld_ = false;
}

void Validation::stop() {
    asked_since_ = base::kNever;
    again_at_ = base::kNever;
}

void Validation::ask_once(TimePoint now) {
    again_at_ = now;
    interval_ = kNoRepetition;
}

bool Validation::repeat(TimePoint now) {
    if (now - asked_since_ > kChallengeLifetime) {
        stop();
        return false;
    }
    again_at_ = now + interval_;
    interval_ = longer_interval(interval_);
    return true;
}

// So its answer tells a round trip. RFC 6298 section 3 takes none from what was sent more than
// once, because there all look alike.
wire::Challenge Validation::stamp(TimePoint now) {
    repetitions_ += was_sent_ && stamped_at_ != now ? 1U : 0U;
    was_sent_ = true;
    stamped_at_ = now;
    wire::Challenge challenge{token_};
    challenge.token.back() ^= static_cast<uint8_t>(std::min(repetitions_, kLastSending));
    return challenge;
}

std::optional<uint32_t> Validation::sending_of(const wire::ChallengeToken& token) const {
    const auto sending = static_cast<uint32_t>(token.back() ^ token_.back());
    const bool is_of_it = std::equal(token.begin(), token.end() - 1, token_.begin());
    return is_of_it && sending <= repetitions_ ? std::optional(sending) : std::nullopt;
}

std::optional<Validation::Answer> Validation::on_response(const wire::ChallengeToken& token,
                                                          TimePoint now) {
    const auto sending = is_asked() ? sending_of(token) : std::nullopt;
    if (!sending) {
        return std::nullopt;
    }
    const Duration since_first = now - asked_since_;
    const bool is_newest = *sending == repetitions_;
    Answer answer;
    answer.round_trip = is_newest ? now - stamped_at_ : since_first;
    answer.is_exact = is_newest || (*sending == 0 && since_first <= kMostUsefulRtt);
    is_proven_ = true;
    stop();
    return answer;
}

}  // namespace continuo::path
