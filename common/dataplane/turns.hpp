// Turns: who works next on a loop that several keep busy. Deficit round robin by measured time:
// what a turn has cost is known only afterwards, and is paid off before the next one. Who has used
// less than its share comes before those that wait, so one that asks for little is served at once
// however much the others want. Debts stand in full. Pure: the caller measures, and leaves out what
// was not its work.
#pragma once

#include "common/base/time.hpp"

#include <cstddef>

namespace continuo::dataplane {

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
    uint64_t round_ = 0;  // when it last had nothing to do
};

class Turns {
  public:
    // It has something to do; nothing changes when it waits already.
    void wake(Turn& turn);
    // The participant whose turn it is, the same until finish(); null when nobody waits.
    Turn* next();
    // It used so much of its turn.
    void finish(Turn& turn, base::Duration cost, bool has_more);
    // It cost so much outside its turns.
    void charge(Turn& turn, base::Duration cost);
    void remove(Turn& turn);
    // Nobody waited for so long: that pays off debts as rounds do.
    void pass(base::Duration idle);
    // Time left to it in this round; zero or less: others come first.
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

}  // namespace continuo::dataplane
