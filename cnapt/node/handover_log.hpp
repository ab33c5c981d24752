// HandoverLog: the handovers of a node, counted and logged for people. The log has few lines of a
// node that moves all the time.
#pragma once

#include "common/base/time.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace continuo::cnapt::node {

struct Handover {
    int64_t at_utc_s = 0;
    std::string from;
    std::string to;
    double gap_ms = 0;
};

class HandoverLog {
  public:
    // `snapt`: its session has moved.
    void add(const std::string& snapt, Handover handover, base::TimePoint now);

    uint64_t count() const { return count_; }
    const std::optional<Handover>& last() const { return last_; }

  private:
    uint64_t count_ = 0;
    std::optional<Handover> last_;
    base::TimePoint free_at_{};  // when the rate limit allows the next line
    uint64_t unlogged_ = 0;
};

}  // namespace continuo::cnapt::node
