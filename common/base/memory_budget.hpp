// MemoryBudget: limit of the memory that growing buffers may take together, however many there are.
// A holder that is refused goes on without the memory, as its header says; refusals are counted
// here. Not thread-safe: its holders live on one loop.
#pragma once

#include "common/base/assert.hpp"

#include <cstddef>
#include <cstdint>

namespace continuo::base {

class MemoryBudget {
  public:
    explicit MemoryBudget(size_t limit_bytes) : limit_bytes_(limit_bytes) {}

    size_t limit_bytes() const { return limit_bytes_; }
    size_t used_bytes() const { return used_bytes_; }
    // Number of refusals.
    uint64_t refusals() const { return refusals_; }

  private:
    friend class MemoryShare;
    bool take(size_t bytes) {
        if (bytes > limit_bytes_ - used_bytes_) {
            ++refusals_;
            return false;
        }
        used_bytes_ += bytes;
        return true;
    }
    void give_back(size_t bytes) {
        CTN_ASSERT(bytes <= used_bytes_);
        used_bytes_ -= bytes;
    }

    size_t limit_bytes_;
    size_t used_bytes_ = 0;
    uint64_t refusals_ = 0;
};

// One holder's share. The budget must outlive the share; without a budget there is no limit.
class MemoryShare {
  public:
    explicit MemoryShare(MemoryBudget* budget) : budget_(budget) {}
    MemoryShare(const MemoryShare&) = delete;
    MemoryShare& operator=(const MemoryShare&) = delete;
    ~MemoryShare() { give_back(bytes_); }

    // False when `bytes` more are not available; nothing has changed then.
    bool take(size_t bytes) {
        if (budget_ != nullptr && !budget_->take(bytes)) {
            return false;
        }
        bytes_ += bytes;
        return true;
    }
    void give_back(size_t bytes) {
        CTN_ASSERT(bytes <= bytes_);
        bytes_ -= bytes;
        if (budget_ != nullptr) {
            budget_->give_back(bytes);
        }
    }
    size_t bytes() const { return bytes_; }

  private:
    MemoryBudget* budget_;
    size_t bytes_ = 0;
};

}  // namespace continuo::base
