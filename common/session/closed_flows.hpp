// ClosedFlows: indexes of flows that ended here and that the other end has not been told of
// (CLOSED, docs/PROTOCOL.md section 6.4). A node's index rests after that: a CLOSED that comes late
// must not end the next flow that has it. Pure.
#pragma once

#include "common/base/time.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

namespace continuo::session {

// Flows of a session that the other end has not been told of. It finds out about further ones by
// its own time-outs.
inline constexpr size_t kMaxClosedToTell = 4096;

class ClosedFlows {
  public:
    bool is_empty() const { return untold_.empty(); }
    // False: there are kMaxClosedToTell.
    bool add(uint32_t index) {
        if (untold_.size() >= kMaxClosedToTell) {
            return false;
        }
        untold_.push_back(index);
        return true;
    }
    // The newest of them, which is told now. There must be one.
    uint32_t take() {
        const uint32_t index = untold_.back();
        untold_.pop_back();
        return index;
    }

    // Nobody else may have the index before then.
    void rest(uint32_t index, base::TimePoint until) { resting_.push_back({index, until}); }
    // Passes the rested indexes to `release`, oldest first.
    template <typename Release>
    void wake(base::TimePoint now, Release&& release) {
        for (; !resting_.empty() && resting_.front().until <= now; resting_.pop_front()) {
            release(resting_.front().index);
        }
    }

  private:
    struct Resting {
        uint32_t index = 0;
        base::TimePoint until{};
    };

    std::vector<uint32_t> untold_;
    std::deque<Resting> resting_;
};

}  // namespace continuo::session
