// NamedNumbers: which of the newest numbers of a space an ACK has named. What an ACK names again
// says nothing: so each number is looked up once, however often and in whatever ranges it is
// named, and a range costs a step for each 64 numbers at most. Numbers further below the highest
// one than crypto::SequenceBitmap::kSpan count as named.
#pragma once

#include "common/crypto/sequence_bitmap.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::session {

class NamedNumbers {
  public:
    // Calls visit(first, last) for the parts of [first, last] that no ACK has named, newest first,
    // and notes them.
    template <typename Visit>
    void take_new(uint32_t first, uint32_t last, const Visit& visit) {
        uint64_t end = uint64_t{last} + 1;
        if (end > named_.next()) {
            const uint64_t from = std::max<uint64_t>(first, named_.next());
            note(from, end, visit);
            end = from;
        }
        const uint64_t floor = std::max<uint64_t>(first, named_.low());
        while (end > floor) {
            end = named_.find_down(end, floor, false);
            const uint64_t from = named_.find_down(end, floor, true);
            if (from < end) {
                note(from, end, visit);
            }
            end = from;
        }
    }

  private:
    template <typename Visit>
    void note(uint64_t from, uint64_t end, const Visit& visit) {
        for (uint64_t number = std::max(from, end - std::min(end, kSpan)); number < end; ++number) {
            named_.set(number);
        }
        visit(static_cast<uint32_t>(from), static_cast<uint32_t>(end - 1));
    }

    static constexpr uint64_t kSpan = crypto::SequenceBitmap::kSpan;
    crypto::SequenceBitmap named_;
};

}  // namespace continuo::session
