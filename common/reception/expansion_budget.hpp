// ExpansionBudget: how many inner bytes the datagrams of one node's session may expand to. A
// compressed section of a few bytes can hold many packets, and one byte is a packet where its
// headers are known; without a bound, a SNAPT would turn a thin line into a flood. In each second a
// session may use kTimes the outer bytes received, and kFreeBytes, beside what is carried
// uncompressed.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace continuo::reception {

class ExpansionBudget {
  public:
    // Twice the most that a node sends (wire::kMaxExpansion).
    static constexpr uint64_t kTimes = 64;
    static constexpr uint64_t kFreeBytes = 1'000'000;

    // Adds `outer_bytes` received.
    void earn(uint64_t outer_bytes, base::TimePoint now) {
        part_of(now).earned += outer_bytes;
        earned_ += outer_bytes;
    }
    // Bytes left in the budget of the second that ends now.
    uint64_t left_bytes(base::TimePoint now) {
        part_of(now);
        const uint64_t most = earned_ * kTimes + kFreeBytes;
        return most - std::min(most, spent_);
    }
    // False, and nothing is spent, when `bytes` exceeds what is left.
    bool spend(uint64_t bytes, base::TimePoint now) {
        if (bytes > left_bytes(now)) {
            return false;
        }
        charge(bytes, now);
        return true;
    }
    // Spends `bytes` whatever is left: for data made before its size was known.
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

    // The current part of the second; expired parts are removed.
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
    base::TimePoint ends_at_ = base::TimePoint::min();  // end of the newest part
    uint64_t earned_ = 0;                               // in all parts
    uint64_t spent_ = 0;
};

}  // namespace continuo::reception
