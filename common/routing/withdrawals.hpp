// Withdrawals: how many more times a node tells, on its active path, that other paths have ended
// (docs/PROTOCOL.md section 5.3). Pure.
#pragma once

#include "common/routing/path_types.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

namespace continuo::routing {

class Withdrawals {
  public:
    void on_ended(uint8_t index) {
        due_[index] = kWithdrawals;
        pending_ |= mask_of(index);
        ended_ |= mask_of(index);
    }
    // The index is in use again.
    void cancel(uint8_t index) {
        due_[index] = 0;
        pending_ &= static_cast<PathMask>(~mask_of(index));
        ended_ &= static_cast<PathMask>(~mask_of(index));
    }
    // Those sent before an announcement that was not answered may have been lost with it.
    void repeat() {
        for (unsigned left = ended_; left != 0; left &= left - 1) {
            uint8_t& due = due_[static_cast<size_t>(std::countr_zero(left))];
            due = std::max<uint8_t>(due, 1);
        }
        pending_ |= ended_;
    }
    bool has_due() const { return pending_ != 0; }
    // The path to tell of now; `active` has not ended.
    std::optional<uint8_t> next(uint8_t active) {
        while (pending_ != 0) {
            const auto index = static_cast<uint8_t>(std::countr_zero(pending_));
            if (--due_[index] == 0 || index == active) {
                pending_ &= static_cast<PathMask>(~mask_of(index));
            }
            if (index != active) {
                return index;
            }
        }
        return std::nullopt;
    }

  private:
    // Losing all of them costs SNAPT some datagrams until it notices missing answers.
    static constexpr uint8_t kWithdrawals = 3;

    std::array<uint8_t, wire::kMaxPaths> due_{};
    PathMask pending_ = 0;
    PathMask ended_ = 0;  // told
};

}  // namespace continuo::routing
