// ExpansionBudget: how much may become of what comes in one session of a node. A compressed section
// of some bytes can hold many packets, and one byte is a packet where its headers are known.
// Without a bound a SNAPT would turn a thin line into a flood towards others. In each second a
// session may have kTimes the outer bytes that came, and kFreeBytes, beside what comes as it is.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace continuo::session {

class ExpansionBudget {
  public:
    // Twice what a node sends at most (wire::kMaxExpansion).
    static constexpr uint64_t kTimes = 64;
    static constexpr uint64_t kFreeBytes = 1'000'000;

    // Outer bytes came.
    void earn(uint64_t outer_bytes, base::TimePoint now) {
        part_of(now).earned += outer_bytes;
        earned_ += outer_bytes;
    }
    // Bytes left of the budget of the second that ends now.
    uint64_t left_bytes(base::TimePoint now) {
        part_of(now);
        const uint64_t most = earned_ * kTimes + kFreeBytes;
        return most - std::min(most, spent_);
    }
    // False, and nothing is spent, when it is more than is left.
    bool spend(uint64_t bytes, base::TimePoint now) {
        if (bytes > left_bytes(now)) {
            return false;
        }
        charge(bytes, now);
        return true;
    }
    // Whatever is left: what has been made before its size was known.
    void charge(uint64_t bytes, base::TimePoint now) {
        part_of(now).spent += bytes;
        spent_ += bytes;
    }

  private:
    static constexpr size_t kParts = 10;
    static constexpr base::Duration kPart = base::milliseconds(100);
    struct Part {
        int64_t number = 0;
        uint64_t earned = 0;
        uint64_t spent = 0;
    };

    // The part of the second at hand; those that are over are taken out.
    Part& part_of(base::TimePoint now) {
        if (now >= ends_at_) {
            const int64_t number = now.time_since_epoch() / kPart;
            for (Part& part : parts_) {
                if (part.number <= number - static_cast<int64_t>(kParts)) {
                    earned_ -= part.earned;
                    spent_ -= part.spent;
                    part = {};
                }
            }
            newest_ = static_cast<size_t>(number) % kParts;
            parts_[newest_].number = number;
            ends_at_ = base::TimePoint{(number + 1) * kPart};
        }
        return parts_[newest_];
    }

    std::array<Part, kParts> parts_{};
    size_t newest_ = 0;
    base::TimePoint ends_at_ = base::TimePoint::min();  // of the newest part
    uint64_t earned_ = 0;                               // of all parts
    uint64_t spent_ = 0;
};

}  // namespace continuo::session
