// Attacks of a user with a key on a SNAPT, each at full speed or at a given rate.
#pragma once

#include "tests/support/hostile_user/forge.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::tests {

// When to end, and the rate: rounds (datagrams, messages or logins) a second; 0: as fast as
// possible.
class Pace {
  public:
    // `ready`: a file that is made by begin_now(); empty: none.
    Pace(base::TimePoint until, double rate, std::string ready = {})
        : until_(until), rate_(rate), ready_(std::move(ready)), began_(clock_now()) {}
    // Waits for the next round; false: the time is over.
    bool next();
    // Counting begins here. With a file to be made, waits until it may be seen.
    void begin_now();

  private:
    base::TimePoint until_;
    double rate_;
    std::string ready_;
    base::TimePoint began_;
    uint64_t rounds_ = 0;
};

struct Attack {
    std::string_view name;
    std::string_view what;
    std::function<Offered(const Account& account, const std::string& node, Pace pace)> run;
};
const std::vector<Attack>& attacks();

// Without a key: datagrams with that session's id, 0: with any.
Offered forge_sessions(const base::Endpoint& to, uint16_t session, Pace pace);

}  // namespace continuo::tests
