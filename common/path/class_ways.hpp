// ClassWays: how the datagrams of each class leave on one path so that they arrive. A network may
// drop one DSCP, or a NAT lose one of its mappings, while everything else passes. Then the class
// goes without its mark, or by the tuple of lt-ld; its own way is tried again after some time.
// Proof is by class: an ACK of its space, or the answer to a question that took the way in
// question. A question of a way goes with those of all better ones: where the whole path is silent
// for a while, the own way is answered together with the others, and kept. lt-ld itself is asked
// by the path's challenges. Pure.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace continuo::path {

// In the order in which they are tried.
enum class ClassWay : uint8_t {
    Own,       // by its own tuple, with its DSCP
    Unmarked,  // by its own tuple, with DSCP 0
    Detour,    // by the tuple of lt-ld, with DSCP 0
};
std::string_view to_string(ClassWay way);
inline constexpr size_t kClassWays = 3;

// The own way is tried again after that, with the next datagram of the class.
inline constexpr base::Duration kOwnWayAgainAfter = base::seconds(600);
// After a question that no ACK ended; twice as long each time while none names the class.
inline constexpr base::Duration kFirstQuiet = base::seconds(2);
inline constexpr base::Duration kLongestQuiet = base::seconds(60);

class ClassWays {
  public:
    // `ask_after`: what left so long ago and is unconfirmed is asked for, when something of another
    // class that left later, and after the last question, is confirmed. `answer_within`: then the
    // next way is asked. `repeat_after`: the first time.
    struct Times {
        base::Duration ask_after{};
        base::Duration answer_within{};
        base::Duration repeat_after{};
    };
    struct Question {
        base::TrafficClass traffic_class{};
        ClassWay way = ClassWay::Own;
        wire::ChallengeToken token{};
    };

    // A datagram with packets of the class left.
    void on_sent(base::TrafficClass traffic_class, base::TimePoint now);
    // What left at `sent_at` arrived, and nothing tells of what left from `rest_since` on; kNever:
    // nothing left after it.
    void on_confirmed(base::TrafficClass traffic_class,
                      base::TimePoint sent_at,
                      base::TimePoint rest_since);
    // A question of another kind, which left in the class at `sent_at`, was answered.
    void on_answered(base::TrafficClass traffic_class, base::TimePoint sent_at);
    // True when it answers a question.
    bool on_response(base::TrafficClass traffic_class,
                     const wire::ChallengeToken& token,
                     base::TimePoint now);
    // Begins and ends questions.
    void on_time(const Times& times, base::Random& random, base::TimePoint now);
    // That is to leave now, or once more.
    std::optional<Question> next_question(const Times& times, base::TimePoint now);
    base::TimePoint deadline(const Times& times) const;

    // Datagrams of a class other than lt-ld are unconfirmed.
    bool has_unconfirmed() const;
    // A datagram of the class left by the tuple of lt-ld within `span`: a change of the address
    // that the peer sees is the sender's own doing.
    bool has_taken_detour(base::TrafficClass traffic_class,
                          base::Duration span,
                          base::TimePoint now) const;
    ClassWay way(base::TrafficClass traffic_class) const { return of(traffic_class).way; }

  private:
    struct State {
        ClassWay way = ClassWay::Own;
        base::TimePoint own_way_again_at = base::kNever;
        base::TimePoint unconfirmed_since = base::kNever;
        base::TimePoint arrived_sent_at{};  // when the newest that arrived had left
        base::TimePoint sent_at{};
        base::TimePoint detour_at = base::kNever;  // the last time by the tuple of lt-ld
        // The question that is open, of the ways up to `asked`; `leaves` is the next of them.
        bool is_asking = false;
        bool is_trial = false;  // of better ways than the one in use, which works
        ClassWay asked = ClassWay::Own;
        size_t leaves = 0;
        base::TimePoint asked_at{};
        base::TimePoint ask_again_at = base::kNever;
        base::Duration interval{};  // zero: not repeated yet
        std::array<wire::ChallengeToken, kClassWays> tokens{};
        base::Duration quiet{};
        base::TimePoint quiet_until{};
    };

    const State& of(base::TrafficClass traffic_class) const {
        return states_[base::index_of(traffic_class)];
    }
    State& of(base::TrafficClass traffic_class) { return states_[base::index_of(traffic_class)]; }
    base::TimePoint due_at(size_t index, const Times& times) const;
    bool has_arrived_since(base::TimePoint at, const State* but) const;
    static bool is_trial_due(const State& state);
    static void ask(State& state, ClassWay way, base::Random& random, base::TimePoint now);
    static void open_question(State& state, ClassWay last, base::TimePoint now);
    static void end_question(State& state, base::TimePoint now);
    static void take(State& state, ClassWay way, base::TimePoint now);

    std::array<State, base::kTrafficClasses> states_;
};

}  // namespace continuo::path
