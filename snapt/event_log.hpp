// EventLog: logins, refusals, ends of sessions and changes of users, a line of the log each, as
// EVENT KEY=VALUE..., for people and programs. A value that is more than a word stands in quotes.
// Each user has a limit of its own in each kind, so that nobody who floods hides what is done with
// somebody else's key; strangers, who have proven no key, have one together. How many lines were
// left out is said by `left_out` of the user's next one of the kind. Any thread.
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

namespace continuo::snapt {

// Lines of a kind and user at once, and then one in each interval. Choices, not measured
// (docs/OPERATIONS.md, What snapt logs).
inline constexpr int64_t kEventLinesAtOnce = 32;
inline constexpr base::Duration kEventLineSpacing = base::milliseconds(500);
// Limits that are not whole, or have something to say. Those of further users are one for each
// kind.
inline constexpr size_t kMostEventLimits = 4096;

class EventLog {
  public:
    // Stranger: a refusal of somebody who proved no key.
    enum class Kind : uint8_t { Login, Refusal, Stranger, End, User, Allowance, Count };
    using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;
    using Sink = std::function<void(base::LogLevel level, const std::string& line)>;

    // Without a sink lines go to base::log().
    explicit EventLog(Sink sink = {}) : sink_(std::move(sink)) {}

    // The field `user` says whose limit it is.
    void write(Kind kind, Fields fields, base::TimePoint now);
    // Now and then: says what was left out if no further line does.
    void on_tick(base::TimePoint now);

  private:
    using Key = std::pair<Kind, std::string>;  // without a name: strangers, or further users
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

}  // namespace continuo::snapt
