// Turns: who works next on a shared loop. Deficit round robin by measured time: the cost of a turn
// is known only afterwards, and is paid off before the next one. A participant below its share
// comes before those that wait, so small work is served at once however much the others want. Debts
// are not capped. Pure: the caller measures, and excludes work of others.
#pragma once

#include "common/base/time.hpp"

#include <cstddef>

namespace continuo::turns {

// Time that each waiting participant may use in a round (the quantum).
inline constexpr base::Duration kTurn = base::microseconds(200);

// A participant in Turns; it must be removed before it is destroyed.
class Turn {
  public:
    Turn() = default;
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    bool is_waiting() const { return place_ != Place::Idle; }

  private:
    friend class Turns;
    enum class Place : uint8_t { Idle, Early, Late };
    Turn* next_ = nullptr;
    Turn* previous_ = nullptr;
    Place place_ = Place::Idle;
    base::Duration credit_ = kTurn;
    uint64_t round_ = 0;  // when it was last idle
};

class Turns {
  public:
    // The participant has work; no effect when it already waits.
    void wake(Turn& turn);
    // The participant whose turn it is, until finish(); null when nobody waits.
    Turn* next();
    // Its turn took this long.
    void finish(Turn& turn, base::Duration cost, bool has_more);
    // It cost this much outside its turns.
    void charge(Turn& turn, base::Duration cost);
    void remove(Turn& turn);
    // Nobody waited for this long, which pays off debts like rounds do.
    void pass(base::Duration idle);
    // Time left in this round; zero or less: others come first.
    base::Duration credit(Turn& turn) const;
    size_t waiting() const { return early_.count + late_.count; }
    bool is_empty() const { return waiting() == 0; }
    bool is_alone(const Turn& turn) const { return turn.is_waiting() && waiting() == 1; }

  private:
    struct Line {
        Turn* first = nullptr;
        Turn* last = nullptr;
        size_t count = 0;
    };
    void append(Turn& turn, Turn::Place place);
    void take_out(Turn& turn);
    Line& line_of(const Turn& turn) { return turn.place_ == Turn::Place::Early ? early_ : late_; }

    Line early_;  // with a credit that others have used up
    Line late_;
    uint64_t round_ = 0;
    size_t granted_ = 0;     // in this round
    base::Duration idle_{};  // less than a round
};

}  // namespace continuo::turns
