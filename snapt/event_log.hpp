// EventLog: logins, refusals, ends of sessions and changes of users, a line of the log each, as
// EVENT KEY=VALUE..., for people and programs. A value that is more than a word stands in quotes.
// Each kind has a limit of its own, so that no crowd of strangers hides a login; how many lines
// were left out is said by `left_out` of the next one. Any thread.
#pragma once

#include "common/base/log.hpp"
#include "common/base/time.hpp"

#include <array>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace continuo::snapt {

// Lines of a kind at once, and then one in each interval. Choices, not measured
// (docs/OPERATIONS.md, What snapt logs).
inline constexpr int64_t kEventLinesAtOnce = 32;
inline constexpr base::Duration kEventLineSpacing = base::milliseconds(500);

class EventLog {
  public:
    // Stranger: a refusal of somebody who proved no key.
    enum class Kind : uint8_t { Login, Refusal, Stranger, End, User, Count };
    using Fields = std::initializer_list<std::pair<std::string_view, std::string>>;
    using Sink = std::function<void(base::LogLevel level, const std::string& line)>;

    // Without a sink lines go to base::log().
    explicit EventLog(Sink sink = {}) : sink_(std::move(sink)) {}

    void write(Kind kind, Fields fields, base::TimePoint now);
    // Now and then: says what was left out if no further line does.
    void on_tick(base::TimePoint now);

  private:
    static constexpr size_t kKinds = static_cast<size_t>(Kind::Count);
    struct Budget {
        base::TimePoint paid_until{};
        uint64_t left_out = 0;
    };
    bool take(Budget& budget, base::TimePoint now);
    void put(Kind kind, std::string line, Budget& budget);

    Sink sink_;
    std::mutex mutex_;  // guards what follows
    std::array<Budget, kKinds> budgets_;
};

}  // namespace continuo::snapt
