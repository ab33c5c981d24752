#include "common/crypto/replay_window.hpp"

namespace continuo::crypto {

ReplayVerdict ReplayWindow::check(uint64_t sequence) const {
    if (!state_ || sequence >= state_->seen.next()) {
        return ReplayVerdict::Fresh;
    }
    if (sequence < state_->seen.low()) {
        return ReplayVerdict::Late;
    }
    return state_->seen.contains(sequence) ? ReplayVerdict::Duplicate : ReplayVerdict::Fresh;
}

ReplayVerdict ReplayWindow::mark(uint64_t sequence) {
    if (!state_) {
        state_ = std::make_unique<State>();
    }
    const ReplayVerdict verdict = check(sequence);
    switch (verdict) {
    case ReplayVerdict::Fresh:
        state_->seen.set(sequence);
        ++state_->accepted;
        break;
    case ReplayVerdict::Duplicate:
        ++state_->duplicates;
        break;
    case ReplayVerdict::Late:
        ++state_->late;
        break;
    }
    return verdict;
}

uint64_t ReplayWindow::lost() const {
    if (!state_) {
        return 0;
    }
    const uint64_t accepted_before = state_->accepted - state_->seen.count();
    return state_->seen.retained_from() - accepted_before;
}

uint64_t ReplayWindow::missing_below(uint64_t number) const {
    return state_ ? number - (state_->accepted - state_->seen.count_from(number)) : number;
}

}  // namespace continuo::crypto
