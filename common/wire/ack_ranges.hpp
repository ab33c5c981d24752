// AckRanges: the numbers in an acknowledgement as they are in a frame: newest first, each range
// with its kind. Ranges of one kind are at least one number apart; those of different kinds may
// adjoin.
//
//   count (1), { gap (varint, not before the first) | 2 * (numbers - 1) + kind (varint) } * count
//
// A gap is how many numbers lie between two ranges. Follows RFC 9000 section 19.3; the kind is
// ours.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/frame.hpp"

#include <cstdint>
#include <span>

namespace continuo::wire {

// The meaning of an acknowledged number. A number never changes its kind.
enum class AckKind : uint8_t {
    Applied,   // its body took effect: references may rely on it
    Received,  // authenticated and new, but void, below a floor or over a limit
};

struct AckRange {
    uint32_t first = 0;
    uint32_t last = 0;  // included
    AckKind kind = AckKind::Applied;
    bool operator==(const AckRange&) const = default;
};

inline constexpr size_t kMaxAckRanges = 255;

// Reads one range after the other, down from `highest`. The view must outlive it.
class AckRangeReader {
  public:
    AckRangeReader(base::ByteView ranges, uint32_t highest);

    size_t left() const { return left_; }
    // Call left() times. Malformed: no ranges at all, a number below 0 or kAckReach or more below
    // the highest, adjoining ranges of one kind.
    base::Result<AckRange> next();
    // Behind the ranges that were read.
    base::ByteView rest() const { return reader_.rest(); }

  private:
    base::ByteReader reader_;
    uint32_t highest_;
    size_t left_;
    bool is_first_ = true;
    AckRange before_{};
};

// Writes as many of `ranges` as fit, newest first; returns how many. With 0 nothing is written. The
// ranges must follow the rules above.
size_t write_ack_ranges(base::ByteWriter& writer, std::span<const AckRange> ranges);
// The same with a whole frame: `head` has the other fields.
size_t write_ack(base::ByteWriter& writer, Ack head, std::span<const AckRange> ranges);

}  // namespace continuo::wire
