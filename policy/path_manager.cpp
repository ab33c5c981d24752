#include "policy/path_manager.hpp"

#include <algorithm>
#include <utility>

namespace continuo::policy {

using base::Duration;
using base::TimePoint;
using path::PathState;

namespace {

using Kind = PathStep::Kind;

// A path that was heard so lately needs no question before it takes over.
constexpr Duration kProofLifetime = base::seconds(2);

bool has(WaySet set, uint8_t slot) {
    return (set & way_bit(slot)) != 0;
}

}  // namespace

const WayFacts* PathFacts::find(std::optional<uint8_t> slot) const {
    const auto found = std::find_if(ways.begin(), ways.end(),
                                    [slot](const WayFacts& way) { return way.slot == slot; });
    return found == ways.end() ? nullptr : &*found;
}

const WayFacts* PathFacts::best(WaySet left_out) const {
    const WaySet candidates = set_of(
        [left_out](const WayFacts& way) { return way.is_known && !has(left_out, way.slot); });
    const WayFacts* best = nullptr;
    for (const WayFacts& way : ways) {
        const bool is_candidate = has(candidates, way.slot) && (way.behind & candidates) == 0;
        if (is_candidate && (best == nullptr || way.rank < best->rank)) {
            best = &way;
        }
    }
    return best;
}

WaySet PathFacts::cut() const {
    return set_of([](const WayFacts& way) { return !way.can_carry; });
}

WaySet PathFacts::failing() const {
    return set_of([](const WayFacts& way) { return path::is_failing(way.state); });
}

WaySet PathFacts::beside(uint8_t slot) const {
    const WayFacts* const one = find(slot);
    return way_bit(slot) | set_of([one](const WayFacts& way) {
               return one != nullptr && way.network == one->network;
           });
}

void PathManager::begin() {
    active_.reset();
    is_on_stream_ = false;
}

void PathManager::forget(uint8_t slot) {
    bars_.at(slot) = {};
    throttled_ &= static_cast<WaySet>(~way_bit(slot));
    if (active_ == slot) {
        active_.reset();
    }
}

// Without an active one any serves: its route may follow in a moment.
const WayFacts* PathManager::better_than_active(const PathFacts& facts, WaySet left_out) const {
    const WayFacts* const found = facts.best(left_out);
    return found != nullptr && (found->has_route || !active_) ? found : nullptr;
}

WaySet PathManager::unproven(const PathFacts& facts, TimePoint now) const {
    return facts.set_of([&](const WayFacts& way) {
        return active_ != way.slot &&
               (way.state != PathState::Usable || now - way.heard_at > kProofLifetime);
    });
}

void PathManager::choose(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    const std::optional<uint8_t> former = active_;
    if (is_on_stream_ && active_) {
        const WaySet silent =
            facts.set_of([](const WayFacts& way) { return way.state != PathState::Usable; });
        if (const WayFacts* const answers = facts.best(silent | facts.cut())) {
            activate(facts, answers->slot, now, steps);
            steps.back().reason = "UDP gets through again";
        }
    } else {
        const WaySet useless = facts.failing() | facts.cut();
        const WayFacts* const active = facts.find(active_);
        const WayFacts* next = better_than_active(facts, useless | barred(now));
        if (next == nullptr) {
            next = better_than_active(facts, useless);
        }
        const bool may_carry = active != nullptr && active->can_carry && active->has_route &&
                               active->state != PathState::Dead;
        const WaySet unanswered = unproven(facts, now);
        if (may_carry && next != nullptr && has(unanswered, next->slot)) {
            steps.push_back({.kind = Kind::Probe, .slot = next->slot});
            next = better_than_active(facts, useless | unanswered);
        }
        const bool is_cut = active != nullptr && !active->can_carry;
        if (next == nullptr && (!active_ || is_cut)) {
            // UDP may be blocked there, and TCP pass.
            next = better_than_active(facts, facts.cut());
        }
        if (next != nullptr && active_ != next->slot) {
            activate(facts, next->slot, now, steps);
        }
    }
    if (active_ != former) {
        steps.push_back({.kind = Kind::Moved});
    }
}

void PathManager::take(const PathFacts& facts, uint8_t slot, TimePoint now, PathSteps& steps) {
    const WayFacts* const way = facts.find(slot);
    if (way != nullptr && way->is_known && way->can_carry && active_ != slot) {
        activate(facts, slot, now, steps);
    }
}

void PathManager::on_silent(
    const PathFacts& facts, uint8_t path, PathState state, TimePoint now, PathSteps& steps) {
    const bool is_doubtful = state == PathState::Doubtful;
    const bool is_active = is_on_stream_ ? path == wire::kTcpPath : active_ == path;
    if (!is_active) {
        if (is_doubtful) {
            choose(facts, now, steps);  // it was asked to take over, perhaps
        }
        return;
    }
    if (is_doubtful) {
        probe_others(facts, path, steps);  // one takes its place when it answers
        return;
    }
    if (path == wire::kTcpPath) {
        steps.push_back({.kind = Kind::Moved});  // its connection may be dead
        steps.push_back({.kind = Kind::Lost});
        return;
    }
    choose(facts, now, steps);
    if (active_ == path) {
        steps.push_back({.kind = Kind::Lost});
    }
}

void PathManager::probe_others(const PathFacts& facts, uint8_t slot, PathSteps& steps) {
    for (const WayFacts& way : facts.ways) {
        if (way.slot != slot && way.has_route && way.can_carry) {
            steps.push_back({.kind = Kind::Probe, .slot = way.slot});
        }
    }
}

void PathManager::activate(const PathFacts& facts, uint8_t slot, TimePoint now, PathSteps& steps) {
    const PathStep step{.kind = Kind::Activate,
                        .slot = slot,
                        .former = active_,
                        .was_on_stream = std::exchange(is_on_stream_, false)};
    if (step.was_on_stream) {
        leave_stream(facts, slot, now, steps);
    } else if (active_) {
        bar_if_failing(facts, *active_, slot, now);
    }
    active_ = slot;
    steps.push_back(step);
}

// --- Bars

WaySet PathManager::barred(TimePoint now) const {
    WaySet slots = 0;
    for (size_t slot = 0; slot < bars_.size(); ++slot) {
        slots |= bars_[slot].until > now ? way_bit(static_cast<uint8_t>(slot)) : WaySet{0};
    }
    return slots;
}

// With the other addresses of its interface, if another interface takes over.
void PathManager::bar_if_failing(const PathFacts& facts,
                                 uint8_t slot,
                                 uint8_t next,
                                 TimePoint now) {
    const WayFacts* const way = facts.find(slot);
    if (way == nullptr || !path::is_failing(way->state)) {
        return;
    }
    bar(slot, kFirstBar, kLongestBar, now);
    const WaySet same = facts.beside(slot);
    for (uint8_t other = 0; other < wire::kTcpPath; ++other) {
        if (has(same, other) && !has(same, next) && bars_[other].until < bars_[slot].until) {
            bars_[other] = bars_[slot];
        }
    }
}

// For `first`, twice as long each time when it happens again.
void PathManager::bar(uint8_t slot, Duration first, Duration longest, TimePoint now) {
    Bar& bar = bars_.at(slot);
    const bool is_again = bar.longest == longest && now - bar.until < kLongestBar;
    bar.longest = longest;
    bar.span = is_again ? std::min<Duration>(bar.span * 2, longest) : first;
    bar.until = now + bar.span;
    bar_ends_at_ = std::min(bar_ends_at_, bar.until);
}

// Paths that were barred may be taken back now.
void PathManager::end_bars(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    if (bar_ends_at_ > now) {
        return;
    }
    bar_ends_at_ = base::kNever;
    for (const Bar& bar : bars_) {
        if (bar.until > now) {
            bar_ends_at_ = std::min(bar_ends_at_, bar.until);
        }
    }
    choose(facts, now, steps);
}

void PathManager::on_tick(const PathFacts& facts, TimePoint now, PathSteps& steps) {
    end_bars(facts, now, steps);
    consider_stream(facts, now, steps);
    watch_throttle(facts, now, steps);
    retry_udp(facts, now, steps);
    mend_stream(facts, now, steps);
    try_next_port(facts, now, steps);
}

}  // namespace continuo::policy
