// EventLog: logins, refusals, ends of sessions and changes of users, one log line each, as EVENT
// KEY=VALUE..., for people and programs. A value of more than a word is quoted. Each user has its
// own limit per kind, so that a flood by one user hides nothing about another's key; strangers, who
// have proven no key, share one. The field `left_out` of the user's next line of the kind says how
// many lines were dropped. Any thread.
#pragma once

#include "common/base/log.hpp"
#include "common/base/time.hpp"

#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt::links {

// Lines of a kind and user at once, then one per interval. Choices, not measured
// (docs/OPERATIONS.md, What snapt logs).
inline constexpr int64_t kEventLinesAtOnce = 32;
inline constexpr base::Duration kEventLineSpacing = base::milliseconds(500);
// Limits that are partly used, or have dropped lines to report. Further users share one per kind.
inline constexpr size_t kMostEventLimits = 4096;

class EventLog {
  public:
    // Stranger: a refusal of somebody who has proven no key.
    enum class Kind : uint8_t { Login, Refusal, Stranger, End, User, Allowance, Count };
    using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;
    using Sink = std::function<void(base::LogLevel level, const std::string& line)>;

    // Without a sink lines go to base::log().
    explicit EventLog(Sink sink = {}) : sink_(std::move(sink)) {}

    // The field `user` says whose limit applies.
    void write(Kind kind, Fields fields, base::TimePoint now);
    // Call at intervals: reports dropped lines if no further line does.
    void on_tick(base::TimePoint now);

  private:
    using Key = std::pair<Kind, std::string>;  // empty name: strangers, or further users
    struct Budget {
        base::TimePoint paid_until{};
        uint64_t left_out = 0;
    };
    static bool take(Budget& budget, base::TimePoint now);
    Budget& budget_of(Kind kind, Fields fields);
    void put(Kind kind, std::string line, Budget& budget);

    Sink sink_;
    std::mutex mutex_;  // guards what follows
    std::map<Key, Budget> budgets_;
};

}  // namespace continuo::snapt::links
