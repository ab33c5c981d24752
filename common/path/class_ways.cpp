#include "common/path/class_ways.hpp"

#include <algorithm>
#include <bit>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Between rounds, where a round trip takes longer: so a question ends in a few seconds, too.
constexpr Duration kLongestSpacing = base::milliseconds(250);

constexpr size_t kUnmarked = static_cast<size_t>(ClassWay::Unmarked);

// A question that an ACK ends so soon is followed by the next without a pause: what left before a
// mark was dropped is named after.
constexpr uint32_t kCheapRounds = 2;

// The last byte of a token tells round and way: which pairs were answered is what counts.
constexpr uint8_t kRoundBits = 5;
static_assert(kMostRounds <= 1U << kRoundBits && kClassWays << kRoundBits <= UINT8_MAX);

Duration spacing(const ClassWays::Times& times) {
    return std::min(times.answer_within, kLongestSpacing);
}

}  // namespace

std::string_view to_string(ClassWay way) {
    switch (way) {
    case ClassWay::Own:
        return "own";
    case ClassWay::Unmarked:
        return "unmarked";
    case ClassWay::Detour:
        return "detour";
    }
    return "own";
}

void ClassWays::on_sent(TrafficClass traffic_class, TimePoint now) {
    State& state = of(traffic_class);
    state.awaited_since = std::min(state.awaited_since, now);
    state.sent_at = now;
    state.detour_at = state.way == ClassWay::Detour ? now : state.detour_at;
}

void ClassWays::on_confirmed(TrafficClass traffic_class, TimePoint sent_at, TimePoint now) {
    State& state = of(traffic_class);
    if (sent_at < state.way_since) {
        return;  // it proves nothing of the way in use
    }
    state.confirmed_at = now;
    state.quiet = {};
    if (sent_at >= state.awaited_since) {
        state.awaited_since = base::kNever;
        state.is_doubted = false;
    }
    if (state.way == ClassWay::Own && state.is_asking) {
        state.is_asking = false;
        if (state.rounds > kCheapRounds) {
            state.quiet_until = now + kFirstQuiet;
        }
    }
}

void ClassWays::on_unmarked_answered(TimePoint since) {
    State& state = states_[kLtLd];
    if (state.way == ClassWay::Own) {
        state.awaited_since = std::min(state.awaited_since, since);
        state.is_doubted = true;
    }
}

void ClassWays::forget_sent() {
    for (State& state : states_) {
        state.awaited_since = base::kNever;
        state.is_doubted = false;
    }
}

bool ClassWays::on_response(TrafficClass traffic_class,
                            const wire::ChallengeToken& token,
                            TimePoint now) {
    State& state = of(traffic_class);
    const auto last = static_cast<uint8_t>(token.back() ^ state.token.back());
    const uint32_t round = last % (1U << kRoundBits);
    const size_t answered = last >> kRoundBits;
    if (!std::equal(token.begin(), token.end() - 1, state.token.begin()) || round >= state.rounds ||
        answered >= kClassWays) {
        return false;
    }
    state.answered[answered] |= 1U << round;
    // The own way, or one that is better than that in use, may answer late: it has a queue.
    if (answered == 0 || !state.is_asking) {
        if (state.is_asking || answered < static_cast<size_t>(state.way)) {
            take(state, static_cast<ClassWay>(answered), now);
        }
        return true;
    }
    if (static_cast<uint32_t>(std::popcount(state.answered[answered])) >= kProofs) {
        const auto* const best = std::find_if(state.answered.begin(), state.answered.end(),
                                              [](uint32_t rounds) { return rounds != 0; });
        take(state, static_cast<ClassWay>(best - state.answered.begin()), now);
    }
    return true;
}

void ClassWays::take(State& state, ClassWay way, TimePoint now) {
    state.way_since = state.way == way ? state.way_since : now;
    state.way = way;
    state.awaited_since = base::kNever;
    state.is_doubted = false;
    end_question(state, now);
}

void ClassWays::end_question(State& state, TimePoint now) {
    state.is_asking = false;
    state.own_way_again_at = state.way == ClassWay::Own ? base::kNever : now + kOwnWayAgainAfter;
    state.quiet = std::clamp<Duration>(state.quiet * 2, kFirstQuiet, kLongestQuiet);
    state.quiet_until = now + state.quiet;
}

void ClassWays::open_question(State& state, base::Random& random, TimePoint now) {
    random.fill(state.token);
    state.is_asking = true;
    state.is_doubted = false;
    state.has_detour = state.way == ClassWay::Detour;
    state.rounds = 0;
    state.answered = {};
    state.began_at = now;
    state.round_at = now;
}

// The detour moves the tuple that the peer knows, so that it is asked for only when the first
// rounds should have been answered and none was.
void ClassWays::begin_round(State& state, const Times& times, TimePoint now) const {
    const Duration between = state.rounds == 0 ? times.answer_within : spacing(times);
    const bool is_answered = std::any_of(state.answered.begin(), state.answered.end(),
                                         [](uint32_t rounds) { return rounds != 0; });
    const bool is_missed =
        now - state.began_at >= 2 * (times.answer_within + spacing(times)) && !is_answered;
    state.has_detour = state.has_detour || (is_missed && &state != &states_[kLtLd]);
    ++state.rounds;
    state.leaves = 0;
    state.asked_at = now;
    state.round_at = now + (state.rounds == kMostRounds ? times.answer_within : between);
}

// An idle class asks nothing.
bool ClassWays::is_trial_due(const State& state) {
    return state.way != ClassWay::Own && state.sent_at >= state.own_way_again_at;
}

bool ClassWays::has_arrived_since(const State& state, TimePoint at) const {
    return state.is_doubted || arrived_sent_at_ > at;
}

size_t ClassWays::ways_of_round(const State& state) {
    return state.rounds <= 1 ? 1 : state.has_detour ? kClassWays : kUnmarked + 1;
}

TimePoint ClassWays::due_at(const State& state, const Times& times) const {
    if (state.is_asking) {
        return state.leaves < ways_of_round(state) && state.rounds > 0 ? TimePoint{}
                                                                       : state.round_at;
    }
    if (is_trial_due(state)) {
        return has_arrived_since(state, state.asked_at) ? state.sent_at : base::kNever;
    }
    const TimePoint since = state.awaited_since;
    if (since == base::kNever ||
        !has_arrived_since(state, std::max(since + times.reordering, state.asked_at))) {
        return base::kNever;
    }
    return std::max(
        {since + times.ask_after, state.confirmed_at + times.ask_after, state.quiet_until});
}

void ClassWays::on_time(const Times& times, base::Random& random, TimePoint now) {
    for (State& state : states_) {
        if (!state.is_asking && due_at(state, times) <= now) {
            open_question(state, random, now);
        }
        if (!state.is_asking || state.round_at > now) {
            continue;
        }
        if (state.rounds < kMostRounds) {
            begin_round(state, times, now);
        } else {
            end_question(state, now);
        }
    }
}

std::optional<ClassWays::Question> ClassWays::next_question(TimePoint now) {
    for (size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        if (!state.is_asking || state.rounds == 0 || state.leaves >= ways_of_round(state)) {
            continue;
        }
        const size_t way = state.leaves++;
        Question question{static_cast<TrafficClass>(i), static_cast<ClassWay>(way), state.token};
        question.token.back() ^= static_cast<uint8_t>(way << kRoundBits | (state.rounds - 1));
        state.detour_at = question.way == ClassWay::Detour ? now : state.detour_at;
        return question;
    }
    return std::nullopt;
}

TimePoint ClassWays::deadline(const Times& times) const {
    TimePoint earliest = base::kNever;
    for (const State& state : states_) {
        earliest = std::min(earliest, due_at(state, times));
    }
    return earliest;
}

bool ClassWays::has_unconfirmed(TimePoint sent_before) const {
    return std::any_of(states_.begin(), states_.end(),
                       [&](const State& state) { return state.awaited_since < sent_before; });
}

bool ClassWays::has_taken_detour(TrafficClass traffic_class, Duration span, TimePoint now) const {
    const TimePoint at = of(traffic_class).detour_at;
    return at != base::kNever && now - at <= span;
}

}  // namespace continuo::path
