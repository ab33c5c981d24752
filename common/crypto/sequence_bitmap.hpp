// SequenceBitmap: which of the newest numbers of a counter have been seen, after RFC 6479: a ring
// of words, one more than the span needs, so that moving on clears whole words and shifts nothing.
// Fixed size, no allocation, not thread-safe.
#pragma once

#include "common/base/bytes.hpp"

#include <algorithm>
#include <array>

namespace continuo::crypto {

class SequenceBitmap {
  public:
    // Numbers that are tracked one by one, the highest included.
    static constexpr uint64_t kSpan = 4096;

    // Highest number set + 1; 0 while none is.
    uint64_t next() const { return next_; }
    // The lowest number that can still be set or asked for.
    uint64_t low() const { return next_ > kSpan ? next_ - kSpan : 0; }
    // The lowest number whose bit is kept; at most 64 below low().
    uint64_t retained_from() const {
        const uint64_t words = (next_ + kWordBits - 1) / kWordBits;
        return words > kWords ? (words - kWords) * kWordBits : 0;
    }
    // False below retained_from() and from next() on.
    bool contains(uint64_t number) const {
        return number < next_ && number >= retained_from() && (word(number) & bit(number)) != 0;
    }
    // `number` must not be below low().
    void set(uint64_t number) {
        CTN_ASSERT(number >= low());
        if (number >= next_) {
            advance(number);
        }
        words_[number / kWordBits % kWords] |= bit(number);
    }
    // Bits that are set at or above retained_from().
    uint64_t count() const {
        uint64_t total = 0;
        for (const uint64_t bits : words_) {
            total += static_cast<uint64_t>(std::popcount(bits));
        }
        return total;
    }
    // Those at or above `from`, which must not be below retained_from().
    uint64_t count_from(uint64_t from) const {
        uint64_t total = 0;
        for (uint64_t at = from; at < next_; at = (at / kWordBits + 1) * kWordBits) {
            total +=
                static_cast<uint64_t>(std::popcount(word(at) & ~uint64_t{0} << at % kWordBits));
        }
        return total;
    }
    // One past the highest number in [floor, end) that is set (`wanted`) or is not; `floor` when
    // there is none. floor >= retained_from(), end <= next().
    uint64_t find_down(uint64_t end, uint64_t floor, bool wanted) const {
        while (end > floor) {
            const uint64_t last = end - 1;
            const uint64_t bits = wanted ? word(last) : ~word(last);
            const uint64_t at_or_below =
                bits & (~uint64_t{0} >> (kWordBits - 1 - last % kWordBits));
            const uint64_t base = last - last % kWordBits;
            if (at_or_below != 0) {
                const auto top = static_cast<uint64_t>(std::bit_width(at_or_below));
                return std::max(base + top, floor);
            }
            end = base;
        }
        return floor;
    }

  private:
    static constexpr uint64_t kWordBits = 64;
    static constexpr uint64_t kWords = kSpan / kWordBits + 1;

    static uint64_t bit(uint64_t number) { return uint64_t{1} << number % kWordBits; }
    uint64_t word(uint64_t number) const { return words_[number / kWordBits % kWords]; }
    void advance(uint64_t number) {
        const uint64_t first_new = (next_ + kWordBits - 1) / kWordBits;
        const uint64_t last_new = number / kWordBits;
        if (last_new >= first_new + kWords) {
            words_.fill(0);
        } else {
            for (uint64_t index = first_new; index <= last_new; ++index) {
                words_[index % kWords] = 0;
            }
        }
        next_ = number + 1;
    }

    std::array<uint64_t, kWords> words_{};
    uint64_t next_ = 0;
};

}  // namespace continuo::crypto
