// ClassWays: how the datagrams of each class leave on one path so that they arrive. A network may
// drop one DSCP, or a NAT lose one of its mappings, while everything else passes. Then the class
// goes without its mark, or by the tuple of lt-ld; its own way is tried again after some time.
//
// A class is asked for when a datagram of it has not been named by any ACK for a time, and no other
// of it since, while an ACK has named something that left later: an ACK names what came in all
// classes of the path. The answer decides, by pairs: the ways are asked together, in rounds, and a
// way is dead when another was answered kProofs times beside it and it never was. lt-ld has no
// detour: the path itself rests on its tuple. Pure.
#pragma once

#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace continuo::path {

// In the order in which they are preferred.
enum class ClassWay : uint8_t {
    Own,       // by its own tuple, with its DSCP
    Unmarked,  // by its own tuple, with DSCP 0
    Detour,    // by the tuple of lt-ld, with DSCP 0
};
std::string_view to_string(ClassWay way);
inline constexpr size_t kClassWays = 3;

// The index of the class that speaks for a path.
inline constexpr size_t kLtLd = base::index_of(base::TrafficClass::LtLd);

// The own way is tried again after that, with the next datagram of the class.
inline constexpr base::Duration kOwnWayAgainAfter = base::seconds(600);
// After a question, until the next; twice as long each time while no ACK names the class.
inline constexpr base::Duration kFirstQuiet = base::seconds(2);
inline constexpr base::Duration kLongestQuiet = base::seconds(60);
// Where a tenth of the datagrams is lost each way, 19 of 100 questions are not answered: a way that
// passes is taken for dead once in three million questions (0.19 to the ninth).
inline constexpr uint32_t kProofs = 8;
// Rounds of a question; the first asks the own way alone.
inline constexpr uint32_t kMostRounds = 32;

class ClassWays {
  public:
    struct Times {
        base::Duration ask_after{};
        base::Duration answer_within{};  // a round trip, at the most
        base::Duration reordering{};     // a datagram that left so much later may overtake
    };
    struct Question {
        base::TrafficClass traffic_class{};
        ClassWay way = ClassWay::Own;
        wire::ChallengeToken token{};
    };

    // A datagram of the class left, by the way in use.
    void on_sent(base::TrafficClass traffic_class, base::TimePoint now);
    // An ACK, come by the path itself, named a datagram for the first time, of any class and way,
    // which had left at `sent_at`.
    void on_arrived(base::TimePoint sent_at) {
        arrived_sent_at_ = std::max(arrived_sent_at_, sent_at);
    }
    // An ACK named one of the class that had left at `sent_at` by the way in use then.
    void
    on_confirmed(base::TrafficClass traffic_class, base::TimePoint sent_at, base::TimePoint now);
    // A challenge in lt-ld, which had left with the mark first, at `since`, was answered without.
    void on_unmarked_answered(base::TimePoint since);
    // True when it answers a question.
    bool on_response(base::TrafficClass traffic_class,
                     const wire::ChallengeToken& token,
                     base::TimePoint now);
    // Begins and ends questions.
    void on_time(const Times& times, base::Random& random, base::TimePoint now);
    // The question that is to leave now.
    std::optional<Question> next_question(base::TimePoint now);
    base::TimePoint deadline(const Times& times) const;
    // Forgets datagrams sent so far: an ACK that names one proves nothing any more.
    void forget_sent();

    // A datagram that left before `sent_before` may not have arrived.
    bool has_unconfirmed(base::TimePoint sent_before) const;
    // A datagram of the class left by the tuple of lt-ld within `span`: a change of the address
    // that the peer sees is the sender's own doing.
    bool has_taken_detour(base::TrafficClass traffic_class,
                          base::Duration span,
                          base::TimePoint now) const;
    ClassWay way(base::TrafficClass traffic_class) const { return of(traffic_class).way; }

  private:
    struct State {
        ClassWay way = ClassWay::Own;
        base::TimePoint way_since{};
        base::TimePoint own_way_again_at = base::kNever;
        // The datagram that is waited for: the first that left after the former one was named.
        base::TimePoint awaited_since = base::kNever;
        base::TimePoint confirmed_at{};
        base::TimePoint sent_at{};
        base::TimePoint detour_at = base::kNever;  // the last time by the tuple of lt-ld
        bool is_doubted = false;  // on_unmarked_answered: something that left later arrived
        bool is_asking = false;
        bool has_detour = false;     // the detour is asked for as well
        uint32_t rounds = 0;         // begun so far
        size_t leaves = 0;           // the next way of the round
        base::TimePoint round_at{};  // when the next round begins, or the question ends
        base::TimePoint began_at{};
        base::TimePoint asked_at{};  // when the last round began
        wire::ChallengeToken token{};
        std::array<uint32_t, kClassWays> answered{};  // bit: round
        base::Duration quiet{};
        base::TimePoint quiet_until{};
    };

    const State& of(base::TrafficClass traffic_class) const {
        return states_[base::index_of(traffic_class)];
    }
    State& of(base::TrafficClass traffic_class) { return states_[base::index_of(traffic_class)]; }
    bool has_arrived_since(const State& state, base::TimePoint at) const;
    base::TimePoint due_at(const State& state, const Times& times) const;
    static bool is_trial_due(const State& state);
    static size_t ways_of_round(const State& state);
    static void open_question(State& state, base::Random& random, base::TimePoint now);
    void begin_round(State& state, const Times& times, base::TimePoint now) const;
    static void end_question(State& state, base::TimePoint now);
    static void take(State& state, ClassWay way, base::TimePoint now);

    std::array<State, base::kTrafficClasses> states_;
    base::TimePoint arrived_sent_at_{};  // when the newest that arrived, of any class, had left
};

}  // namespace continuo::path
