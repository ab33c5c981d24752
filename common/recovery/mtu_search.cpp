#include "common/recovery/mtu_search.hpp"

#include <algorithm>

namespace continuo::recovery {

using base::Duration;
using base::kNever;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

namespace {

// Datagrams above two thirds of the size are large: a black hole swallows them before its size
// matters.
constexpr uint32_t kLargeNumerator = 2;
constexpr uint32_t kLargeDenominator = 3;

// Minimum time between two questions caused by lost datagrams.
constexpr Duration kBetweenQuestions = seconds(1);

// MAX_PROBES of RFC 8899 section 5.1.2 for a search. A question about the size in use takes more:
// at 10 % loss each way all nine probes are lost once in three million questions.
constexpr uint32_t kSearchProbes = 3;
constexpr uint32_t kQuestionProbes = 9;
constexpr uint32_t kEnoughSmaller = 2;
constexpr Duration kQuestionSpacing = milliseconds(40);
constexpr Duration kLongestQuestion = milliseconds(1500);  // a full queue delays the answers
constexpr Duration kJudgeAgain = milliseconds(100);
// PROBE_TIMER: expected time to an answer, within bounds.
constexpr Duration kShortestPatience = milliseconds(100);
constexpr Duration kLongestPatience = seconds(1);
constexpr Duration kUnknownPatience = milliseconds(300);

// Sizes of the smaller probes in a question.
constexpr std::array<uint16_t, kQuestionProbes - 1> kSmallerSizes = {576,  1000, 1280, 576,
                                                                     1000, 1280, 576,  1000};

// Index of the largest usual size that is not above the datagram's.
size_t usual_size_of(uint32_t outer_bytes) {
    const auto& sizes = MtuSearch::kUsualSizes;
    const auto found = std::find_if(sizes.begin(), sizes.end(),
                                    [&](uint16_t size) { return size <= outer_bytes; });
    return std::min<size_t>(static_cast<size_t>(found - sizes.begin()), sizes.size() - 1);
}

}  // namespace

std::string_view to_string(MtuState state) {
    switch (state) {
    case MtuState::Base:
        return "base";
    case MtuState::Searching:
        return "searching";
    case MtuState::SearchComplete:
        return "complete";
    case MtuState::Error:
        return "error";
    }
    return "base";
}

void MtuSearch::begin(uint16_t limit) {
    const uint64_t holes = black_holes_;
    *this = MtuSearch{};
    black_holes_ = holes;
    limit_ = std::clamp(limit, kSmallest, kLargest);
    take_size(limit_);
}

void MtuSearch::set_limit(uint16_t limit) {
    limit = std::clamp(limit, kSmallest, kLargest);
    if (limit == limit_) {
        return;
    }
    const bool was_at_limit = size_ == limit_;
    limit_ = limit;
    if (size_ > limit_ || was_at_limit) {
        take_size(limit_);
    }
    distrust();
}

void MtuSearch::distrust() {
    give_up();
    state_ = MtuState::Base;
    raise_at_ = kNever;
    asked_at_ = {};
    passed_ = {};
    awaits_arrival_ = false;
    outstanding_ = {};  // answers would be about the old route
}

void MtuSearch::give_up() {
    if (is_asking_ || state_ == MtuState::Searching) {
        state_ = MtuState::Base;
    }
    is_asking_ = false;
    is_suspicious_ = false;
    step_at_ = kNever;
    ask_at_ = kNever;
}

void MtuSearch::take_size(uint16_t size) {
    size_ = size;
    large_above_ = uint32_t{size} * kLargeNumerator / kLargeDenominator;
}

// --- When to ask

void MtuSearch::on_large_acknowledged(uint32_t outer_bytes, TimePoint sent_at) {
    TimePoint& passed = passed_[usual_size_of(outer_bytes)];
    passed = std::max(passed, sent_at);
    if (is_suspicious_ && has_passed(suspect_bytes_, suspect_sent_at_)) {
        is_suspicious_ = false;
        ask_at_ = kNever;
    }
    if (is_asking_ && outer_bytes >= size_ && sent_at >= asked_at_) {
        has_passed_ = true;
        step_at_ = sent_at;  // send at once
    }
}

// A datagram of at least that size, sent at `from` or later, has arrived.
bool MtuSearch::has_passed(uint32_t outer_bytes, TimePoint from) const {
    const auto end = passed_.begin() + static_cast<ptrdiff_t>(usual_size_of(outer_bytes)) + 1;
    return std::any_of(passed_.begin(), end, [&](TimePoint at) { return at >= from; });
}

void MtuSearch::on_lost(uint32_t outer_bytes, TimePoint sent_at, TimePoint now) {
    const bool is_of_use = outer_bytes > large_above_ && outer_bytes <= size_ && size_ > kSmallest;
    if (!is_of_use || is_asking_ || is_suspicious_ || has_passed(outer_bytes, sent_at)) {
        return;
    }
    is_suspicious_ = true;
    suspect_bytes_ = outer_bytes;
    suspect_sent_at_ = sent_at;
    ask_at_ = asked_at_ == TimePoint{} ? now : std::max(now, asked_at_ + kBetweenQuestions);
}

void MtuSearch::ask_or_search(TimePoint now) {
    const bool is_unknown = state_ == MtuState::Base && size_ > kSmallest;
    if (is_unknown || is_suspicious_) {
        start_question(now);
    } else if (raise_at_ <= now || state_ == MtuState::Base) {
        start_search(now);
    }
}

// --- The question

void MtuSearch::start_question(TimePoint now) {
    asked_at_ = now;
    is_asking_ = true;
    is_suspicious_ = false;
    has_passed_ = false;
    owes_smaller_ = false;
    sent_probes_ = 0;
    smaller_answered_ = 0;
    largest_answered_ = 0;
    step_at_ = now;
}

// Sends one probe; if it is not answered in time, eight more, each followed by a smaller one.
std::optional<uint16_t> MtuSearch::question_step(TimePoint now) {
    if (has_passed_) {
        confirm(now);
        return std::nullopt;
    }
    if (owes_smaller_) {
        owes_smaller_ = false;
        step_at_ = now + (sent_probes_ == kQuestionProbes ? patience() : kQuestionSpacing);
        const uint16_t smaller = kSmallerSizes[sent_probes_ - 2];
        return smaller < size_ ? smaller : kSmallest;
    }
    if (sent_probes_ == kQuestionProbes) {
        judge(now);
        return std::nullopt;
    }
    ++sent_probes_;
    owes_smaller_ = sent_probes_ > 1;
    step_at_ = owes_smaller_ ? now : now + patience();
    return size_;
}

void MtuSearch::judge(TimePoint now) {
    if (smaller_answered_ >= kEnoughSmaller) {
        ++black_holes_;
        is_asking_ = false;
        take_size(largest_answered_);
        start_search(now);
        return;
    }
    if (now - asked_at_ < kLongestQuestion) {
        step_at_ = now + kJudgeAgain;
        return;
    }
    // The size is not the cause: nothing comes through.
    is_asking_ = false;
    step_at_ = kNever;
    state_ = MtuState::Base;
    awaits_arrival_ = true;
}

void MtuSearch::confirm(TimePoint now) {
    is_asking_ = false;
    step_at_ = kNever;
    const bool is_searched = size_ == limit_ || raise_at_ != kNever;
    if (state_ == MtuState::Searching || !is_searched) {
        start_search(now);
    } else {
        complete();
    }
}

// --- The search

void MtuSearch::start_search(TimePoint now) {
    raise_at_ = kNever;
    too_large_ = 0;
    sent_probes_ = 0;
    wanted_ = limit_;  // losses that were not caused by the size end with this
    step_at_ = now;
    state_ = MtuState::Searching;
    if (size_ >= limit_) {
        complete();
    }
}

std::optional<uint16_t> MtuSearch::search_step(TimePoint now) {
    if (sent_probes_ < kSearchProbes) {
        ++sent_probes_;
        step_at_ = now + patience();
        return wanted_;
    }
    too_large_ = wanted_;
    narrow_search(now);
    return std::nullopt;
}

// Halves the range of usual sizes that is left.
void MtuSearch::narrow_search(TimePoint now) {
    const uint16_t below = too_large_ > size_ ? too_large_ : limit_;
    const auto first = std::find_if(kUsualSizes.begin(), kUsualSizes.end(),
                                    [&](uint16_t size) { return size < below; });
    const auto last =
        std::find_if(first, kUsualSizes.end(), [&](uint16_t size) { return size <= size_; });
    if (first == last) {
        raise_at_ = size_ < limit_ ? now + kRaiseAfter : kNever;
        complete();
        return;
    }
    wanted_ = *(first + (last - first) / 2);
    sent_probes_ = 0;
    step_at_ = now;
}

void MtuSearch::complete() {
    state_ = size_ < kBase ? MtuState::Error : MtuState::SearchComplete;
    step_at_ = kNever;
}

// --- Probes and answers

Duration MtuSearch::patience() const {
    if (expected_ == Duration{} && answer_time_ == Duration{}) {
        return kUnknownPatience;
    }
    return std::clamp<Duration>(std::max<Duration>(expected_, answer_time_ * 3 / 2),
                                kShortestPatience, kLongestPatience);
}

std::optional<MtuProbe>
MtuSearch::next(Duration rtt, Duration variation, base::Random& random, TimePoint now) {
    expected_ = rtt + variation * 4;
    if (ask_at_ <= now) {
        ask_at_ = kNever;
        if (!is_asking_) {
            ask_or_search(now);
        }
    }
    while (step_at_ <= now) {
        const auto size = is_asking_ ? question_step(now) : search_step(now);
        if (size) {
            Outstanding& slot = outstanding_[next_outstanding_++ % kMaxOutstanding];
            slot.probe.outer_bytes = *size;
            random.fill(slot.probe.token);
            slot.sent_at = now;
            slot.is_open = true;
            return slot.probe;
        }
    }
    return std::nullopt;
}

bool MtuSearch::on_response(const wire::ChallengeToken& token, TimePoint now) {
    const auto found =
        std::find_if(outstanding_.begin(), outstanding_.end(), [&](const Outstanding& one) {
            return one.is_open && one.probe.token == token;
        });
    if (found == outstanding_.end()) {
        return false;
    }
    found->is_open = false;
    awaits_arrival_ = false;
    answer_time_ = now - found->sent_at;
    const uint16_t answered = found->probe.outer_bytes;
    if (answered > limit_) {
        return true;
    }
    if (answered < size_) {
        if (is_asking_ && found->sent_at >= asked_at_) {
            ++smaller_answered_;
            largest_answered_ = std::max(largest_answered_, answered);
        }
        return true;
    }
    const bool is_larger = answered > size_;
    if (is_larger) {
        take_size(answered);
    }
    if (is_asking_) {
        confirm(now);
    } else if (is_larger && state_ != MtuState::Base) {
        // A late answer counts as well.
        state_ = MtuState::Searching;
        narrow_search(now);
    }
    return true;
}

}  // namespace continuo::recovery
