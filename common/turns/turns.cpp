#include "common/turns/turns.hpp"

#include "common/base/assert.hpp"

#include <algorithm>

namespace continuo::turns {

using base::Duration;

void Turns::append(Turn& turn, Turn::Place place) {
    turn.place_ = place;
    Line& line = line_of(turn);
    turn.next_ = nullptr;
    turn.previous_ = line.last;
    (line.last != nullptr ? line.last->next_ : line.first) = &turn;
    line.last = &turn;
    ++line.count;
}

void Turns::take_out(Turn& turn) {
    Line& line = line_of(turn);
    (turn.previous_ != nullptr ? turn.previous_->next_ : line.first) = turn.next_;
    (turn.next_ != nullptr ? turn.next_->previous_ : line.last) = turn.previous_;
    --line.count;
    turn.place_ = Turn::Place::Idle;
}

// Rounds spent idle pay off its debt but save nothing up.
Duration Turns::credit(Turn& turn) const {
    if (!turn.is_waiting() && turn.round_ != round_) {
        const auto enough = static_cast<uint64_t>((kTurn - turn.credit_) / kTurn + 1);
        const auto rounds = static_cast<int64_t>(std::min(round_ - turn.round_, enough));
        turn.credit_ = std::min<Duration>(kTurn, turn.credit_ + rounds * kTurn);
        turn.round_ = round_;
    }
    return turn.credit_;
}

void Turns::wake(Turn& turn) {
    if (!turn.is_waiting()) {
        append(turn, credit(turn) > Duration::zero() ? Turn::Place::Early : Turn::Place::Late);
    }
}

Turn* Turns::next() {
    if (early_.first != nullptr) {
        return early_.first;
    }
    while (late_.first != nullptr) {
        Turn& turn = *late_.first;
        if (turn.credit_ > Duration::zero()) {
            return &turn;
        }
        turn.credit_ += kTurn;
        if (++granted_ >= late_.count) {
            granted_ = 0;
            ++round_;
        }
        if (turn.credit_ <= Duration::zero()) {
            take_out(turn);
            append(turn, Turn::Place::Late);
        }
    }
    return nullptr;
}

void Turns::charge(Turn& turn, Duration cost) {
    turn.credit_ = credit(turn) - cost;
}

void Turns::finish(Turn& turn, Duration cost, bool has_more) {
    CTN_ASSERT(turn.is_waiting());
    charge(turn, cost);
    if (!has_more) {
        take_out(turn);
        turn.round_ = round_;
    } else if (turn.credit_ <= Duration::zero()) {
        take_out(turn);
        append(turn, Turn::Place::Late);
    }
}

void Turns::pass(Duration idle) {
    idle_ += idle;
    round_ += static_cast<uint64_t>(idle_ / kTurn);
    idle_ %= kTurn;
}

void Turns::remove(Turn& turn) {
    if (turn.is_waiting()) {
        take_out(turn);
    }
}

}  // namespace continuo::turns
