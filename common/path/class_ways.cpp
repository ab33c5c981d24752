#include "common/path/class_ways.hpp"

#include <algorithm>

namespace continuo::path {

using base::Duration;
using base::TimePoint;
using base::TrafficClass;

namespace {

// Between repetitions of a question, as for challenges.
constexpr Duration kLongestInterval = base::seconds(1);

constexpr size_t kLtLd = base::index_of(TrafficClass::LtLd);

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
    state.unconfirmed_since = std::min(state.unconfirmed_since, now);
    state.sent_at = now;
    state.detour_at = state.way == ClassWay::Detour ? now : state.detour_at;
}

void ClassWays::on_confirmed(TrafficClass traffic_class, TimePoint sent_at, TimePoint rest_since) {
    State& state = of(traffic_class);
    state.arrived_sent_at = std::max(state.arrived_sent_at, sent_at);
    state.unconfirmed_since = rest_since;
    state.quiet = {};
    // An ACK may name a question by another way, which proves nothing of the one in use. What is
    // lost after one that ends the question is another matter, and asked for as soon.
    if (state.is_asking && !state.is_trial && state.asked <= state.way) {
        state.is_asking = false;
        state.ask_again_at = base::kNever;
    }
}

void ClassWays::on_answered(TrafficClass traffic_class, TimePoint sent_at) {
    State& state = of(traffic_class);
    state.arrived_sent_at = std::max(state.arrived_sent_at, sent_at);
    if (state.unconfirmed_since != base::kNever) {
        state.unconfirmed_since = std::max(state.unconfirmed_since, sent_at);
    }
}

bool ClassWays::on_response(TrafficClass traffic_class,
                            const wire::ChallengeToken& token,
                            TimePoint now) {
    State& state = of(traffic_class);
    // A better way than that in use may answer late: its datagrams stand in a queue.
    const auto last = static_cast<size_t>(state.is_asking ? state.asked : state.way);
    for (size_t i = 0; i < last + (state.is_asking ? 1 : 0); ++i) {
        if (state.tokens[i] == token) {
            take(state, static_cast<ClassWay>(i), now);
            return true;
        }
    }
    return false;
}

// What was answered first need not be the best that passes: the answers of better ways may have
// been lost, so that those are asked once more.
void ClassWays::take(State& state, ClassWay way, TimePoint now) {
    state.way = way;
    state.unconfirmed_since = base::kNever;
    state.arrived_sent_at = std::max(state.arrived_sent_at, state.asked_at);
    if (way == ClassWay::Own) {
        state.own_way_again_at = base::kNever;
        end_question(state, now);
        return;
    }
    state.own_way_again_at = now + kOwnWayAgainAfter;
    state.is_trial = true;
    open_question(state, static_cast<ClassWay>(static_cast<size_t>(way) - 1), now);
}

void ClassWays::end_question(State& state, TimePoint now) {
    state.is_asking = false;
    state.ask_again_at = base::kNever;
    state.quiet = std::clamp<Duration>(state.quiet * 2, kFirstQuiet, kLongestQuiet);
    state.quiet_until = now + state.quiet;
}

void ClassWays::ask(State& state, ClassWay way, base::Random& random, TimePoint now) {
    random.fill(state.tokens[static_cast<size_t>(way)]);
    open_question(state, way, now);
}

void ClassWays::open_question(State& state, ClassWay last, TimePoint now) {
    state.is_asking = true;
    state.asked = last;
    state.leaves = 0;
    state.asked_at = now;
    state.ask_again_at = now;
    state.interval = {};
}

// An idle class asks nothing.
bool ClassWays::is_trial_due(const State& state) {
    return state.way != ClassWay::Own && state.sent_at >= state.own_way_again_at;
}

// Something that left later has arrived, not counting the class `but`.
bool ClassWays::has_arrived_since(TimePoint at, const State* but) const {
    return std::any_of(states_.begin(), states_.end(),
                       [&](const State& any) { return &any != but && any.arrived_sent_at > at; });
}

TimePoint ClassWays::due_at(size_t index, const Times& times) const {
    const State& state = states_[index];
    if (index == kLtLd) {
        return base::kNever;
    }
    if (state.is_asking) {
        return std::min(state.ask_again_at, state.asked_at + times.answer_within);
    }
    if (is_trial_due(state)) {
        return has_arrived_since(state.asked_at, nullptr) ? state.sent_at : base::kNever;
    }
    const TimePoint since = state.unconfirmed_since;
    return since != base::kNever && has_arrived_since(std::max(since, state.asked_at), &state)
               ? std::max(since + times.ask_after, state.quiet_until)
               : base::kNever;
}

void ClassWays::on_time(const Times& times, base::Random& random, TimePoint now) {
    for (size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        if (due_at(i, times) > now) {
            continue;
        }
        if (!state.is_asking) {
            state.is_trial = is_trial_due(state);
            ask(state, ClassWay::Own, random, now);
            continue;
        }
        if (now < state.asked_at + times.answer_within) {
            continue;  // it is repeated
        }
        const auto next = static_cast<size_t>(state.asked) + 1;
        const size_t ways = state.is_trial ? static_cast<size_t>(state.way) : kClassWays;
        if (next < ways) {
            ask(state, static_cast<ClassWay>(next), random, now);
            continue;
        }
        if (state.is_trial) {
            state.own_way_again_at = now + kOwnWayAgainAfter;
        }
        end_question(state, now);
    }
}

std::optional<ClassWays::Question> ClassWays::next_question(const Times& times, TimePoint now) {
    for (size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        if (!state.is_asking || state.ask_again_at > now) {
            continue;
        }
        const size_t way = state.leaves++;
        if (way == static_cast<size_t>(state.asked)) {
            state.leaves = 0;
            state.interval = std::clamp<Duration>(state.interval * 2, times.repeat_after,
                                                  std::max(times.repeat_after, kLongestInterval));
            state.ask_again_at = now + state.interval;
        }
        const auto asked = static_cast<ClassWay>(way);
        state.detour_at = asked == ClassWay::Detour ? now : state.detour_at;
        return Question{static_cast<TrafficClass>(i), asked, state.tokens[way]};
    }
    return std::nullopt;
}

TimePoint ClassWays::deadline(const Times& times) const {
    TimePoint earliest = base::kNever;
    for (size_t i = 0; i < states_.size(); ++i) {
        earliest = std::min(earliest, due_at(i, times));
    }
    return earliest;
}

bool ClassWays::has_unconfirmed() const {
    return std::any_of(states_.begin(), states_.end(), [&](const State& state) {
        return &state != &states_[kLtLd] && state.unconfirmed_since != base::kNever;
    });
}

bool ClassWays::has_taken_detour(TrafficClass traffic_class, Duration span, TimePoint now) const {
    const TimePoint at = of(traffic_class).detour_at;
    return at != base::kNever && now - at <= span;
}

}  // namespace continuo::path
