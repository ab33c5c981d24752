// NamedNumbers: which of the newest numbers of a space an ACK has named. Naming a number again says
// nothing, so each is looked up once, however often and in whatever ranges it is named; a range
// costs at most one step for each 64 numbers. Numbers more than crypto::SequenceBitmap::kSpan below
// the highest count as named.
#pragma once

#include "common/crypto/sequence_bitmap.hpp"

#include <algorithm>
#include <cstdint>

namespace continuo::session {

class NamedNumbers {
  public:
    // Calls visit(first, last) for the parts of [first, last] that no ACK has named yet, newest
    // first, and marks them as named.
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

    // An ACK has named the number, or it is too old to be told.
    bool contains(uint64_t number) const {
        return number < named_.low() || named_.contains(number);
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
