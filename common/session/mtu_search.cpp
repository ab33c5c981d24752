#include "common/session/mtu_search.hpp"

#include <algorithm>

namespace continuo::session {

using base::Duration;
using base::kNever;
using base::milliseconds;
using base::seconds;
using base::TimePoint;

namespace {

// Datagrams above two thirds of the size are large: a hole swallows them before it is of any size
// that matters.
constexpr uint32_t kLargeNumerator = 2;
constexpr uint32_t kLargeDenominator = 3;

constexpr Duration kLongestWindow = seconds(1);
// Questions may cost a two-hundredth of the large datagrams...
constexpr uint64_t kCreditShare = 200;
constexpr uint64_t kMostCredit = 16;  // in probes
// ...and suspicion one more, so often.
constexpr Duration kBeyondCredit = seconds(1);
// Less than that is asked for as well while large datagrams leave in some number: a constant stream
// into a hole looks like none.
constexpr Duration kAskAgain = milliseconds(1500);
constexpr uint64_t kSomeDatagrams = 32;
// A sender has stopped, but for repetitions, when it sends at most so many large datagrams, and
// less than a quarter of what it sent in the window before.
constexpr uint64_t kFewDatagrams = 4;
constexpr uint64_t kCollapse = 4;

// MAX_PROBES of RFC 8899 section 5.1.2 where a larger size is looked for. A question about the size
// in use takes more: at 10 % of loss each way all nine are lost once in three million questions.
constexpr uint32_t kSearchProbes = 3;
constexpr uint32_t kQuestionProbes = 9;
constexpr uint32_t kEnoughSmaller = 2;
constexpr Duration kQuestionSpacing = milliseconds(40);
constexpr Duration kLongestQuestion = milliseconds(1500);  // a full queue holds the answers up
constexpr Duration kJudgeAgain = milliseconds(100);
// PROBE_TIMER: time to an answer, within bounds.
constexpr Duration kShortestPatience = milliseconds(100);
constexpr Duration kLongestPatience = seconds(1);
constexpr Duration kUnknownPatience = milliseconds(300);

// Sizes that accompany the probes of a question from the second on, as far as they are smaller.
constexpr std::array<uint16_t, kQuestionProbes - 1> kCompanions = {576,  1000, 1280, 576,
                                                                   1000, 1280, 576,  1000};

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
    may_be_silent_ = true;
    awaits_hearing_ = false;
    outstanding_ = {};  // answers would tell of the way that was
}

void MtuSearch::give_up() {
    if (is_asking_ || state_ == MtuState::Searching) {
        state_ = MtuState::Base;
    }
    is_asking_ = false;
    step_at_ = kNever;
    window_ends_at_ = kNever;
    window_bytes_ = 0;
    former_bytes_ = 0;
    is_suspicious_ = false;
}

void MtuSearch::take_size(uint16_t size) {
    size_ = size;
    large_above_ = uint32_t{size} * kLargeNumerator / kLargeDenominator;
}

// --- When to ask

void MtuSearch::open_window(TimePoint now) {
    heard_ = 0;
    window_ends_at_ = state_ == MtuState::Base ? now : now + window_;
}

void MtuSearch::close_window(TimePoint now) {
    if (window_bytes_ == 0 && !is_suspicious_) {
        window_ends_at_ = kNever;
        return;
    }
    credit_bytes_ = std::min(kMostCredit * size_, credit_bytes_ + window_bytes_ / kCreditShare);
    unasked_bytes_ += window_bytes_;
    if (heard_ > 0) {
        may_be_silent_ = true;
        awaits_hearing_ = false;
    }
    is_suspicious_ = !awaits_hearing_ && looks_like_a_hole();
    if (!is_asking_ && !awaits_hearing_) {
        ask_or_search(now);
    }
    // A suspicion that has to wait is compared with the same window on.
    former_bytes_ = is_suspicious_ ? former_bytes_ : window_bytes_;
    window_bytes_ = 0;
    heard_ = 0;
    window_ends_at_ = now + window_;
}

void MtuSearch::ask_or_search(TimePoint now) {
    const bool may_ask = credit_bytes_ >= size_ || now - asked_at_ >= kBeyondCredit;
    const bool is_unknown = state_ == MtuState::Base && size_ > kSmallest;
    const bool must_ask = is_unknown || (is_suspicious_ && may_ask);
    if (!must_ask && (raise_at_ <= now || state_ == MtuState::Base)) {
        start_search(now);
    } else if (must_ask || may_be_curious(now)) {
        start_question(now);
    }
}

bool MtuSearch::looks_like_a_hole() const {
    const bool is_silent = heard_ == 0 && may_be_silent_;
    const bool has_stopped =
        window_bytes_ <= kFewDatagrams * size_ && window_bytes_ * kCollapse < former_bytes_;
    return size_ > kSmallest && (is_silent || has_stopped);
}

// Whether it may be asked for without a reason. One probe is left for suspicion, and a search,
// which a question ends, is left alone.
bool MtuSearch::may_be_curious(TimePoint now) const {
    const bool is_late = now - asked_at_ >= kAskAgain && unasked_bytes_ >= kSomeDatagrams * size_;
    return size_ > kSmallest && state_ != MtuState::Searching &&
           (is_late || credit_bytes_ >= uint64_t{2} * size_);
}

// --- The question

void MtuSearch::start_question(TimePoint now) {
    credit_bytes_ -= std::min<uint64_t>(credit_bytes_, size_);
    may_be_silent_ = heard_ > 0;
    asked_at_ = now;
    unasked_bytes_ = 0;
    is_asking_ = true;
    is_suspicious_ = false;
    owes_smaller_ = false;
    sent_probes_ = 0;
    smaller_answered_ = 0;
    largest_answered_ = 0;
    step_at_ = now;
}

// One probe, and when it is not answered in time eight more, each with a smaller one behind it.
std::optional<uint16_t> MtuSearch::question_step(TimePoint now) {
    if (owes_smaller_) {
        owes_smaller_ = false;
        step_at_ = now + (sent_probes_ == kQuestionProbes ? patience() : kQuestionSpacing);
        const uint16_t companion = kCompanions[sent_probes_ - 2];
        return companion < size_ ? companion : kSmallest;
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
        former_bytes_ = 0;
        take_size(largest_answered_);
        start_search(now);
        return;
    }
    if (now - asked_at_ < kLongestQuestion) {
        step_at_ = now + kJudgeAgain;
        return;
    }
    // Not the size: nothing comes through.
    is_asking_ = false;
    step_at_ = kNever;
    state_ = MtuState::Base;
    awaits_hearing_ = true;
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
    wanted_ = limit_;  // what was only loss is over with this
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

// Halves what is left of the usual sizes.
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
    window_ = std::clamp<Duration>(rtt * 3 / 2 + variation * 2, kShortestWindow, kLongestWindow);
    if (window_ends_at_ <= now) {
        close_window(now);
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
    heard_ -= heard_ > 0 ? 1 : 0;  // what was asked for is no sign that data arrive
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
        // A late one counts as well.
        state_ = MtuState::Searching;
        narrow_search(now);
    }
    return true;
}

}  // namespace continuo::session
