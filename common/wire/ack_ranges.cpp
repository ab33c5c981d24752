#include "common/wire/ack_ranges.hpp"

#include <algorithm>

namespace continuo::wire {

using base::Errc;
using base::Error;

namespace {

uint64_t length_field(const AckRange& range) {
    return uint64_t{range.last - range.first} * 2 + static_cast<uint64_t>(range.kind);
}

}  // namespace

AckRangeReader::AckRangeReader(base::ByteView ranges, uint32_t highest)
    : reader_(ranges), highest_(highest), left_(reader_.u8()) {
    // None at all is an error too, which next() tells.
    if (!reader_.ok() || left_ == 0) {
        reader_.fail();
        left_ = 1;
    }
}

base::Result<AckRange> AckRangeReader::next() {
    uint64_t gap = 0;
    uint64_t last = highest_;
    if (!is_first_) {
        gap = reader_.varint();
        if (!reader_.ok() || gap >= kAckReach || before_.first < gap + 1) {
            reader_.fail();
            return Error{Errc::Malformed, "gap of ACK"};
        }
        last = before_.first - gap - 1;
    }
    const uint64_t field = reader_.varint();
    const uint64_t below = field >> 1U;
    if (!reader_.ok() || below > last || highest_ - (last - below) >= kAckReach) {
        reader_.fail();
        return Error{Errc::Malformed, "range of ACK"};
    }
    const AckRange range{static_cast<uint32_t>(last - below), static_cast<uint32_t>(last),
                         (field & 1U) != 0 ? AckKind::Received : AckKind::Applied};
    if (!is_first_ && gap == 0 && range.kind == before_.kind) {
        reader_.fail();
        return Error{Errc::Malformed, "ranges of ACK adjoin"};
    }
    is_first_ = false;
    before_ = range;
    --left_;
    return range;
}

size_t write_ack_ranges(base::ByteWriter& writer, std::span<const AckRange> ranges) {
    const size_t begin = writer.size();
    const base::MutableByteView count = writer.reserve(1);
    size_t written = 0;
    for (; writer.ok() && written < std::min(ranges.size(), kMaxAckRanges); ++written) {
        const AckRange& range = ranges[written];
        const size_t gap_bytes =
            written > 0 ? base::varint_bytes(ranges[written - 1].first - range.last - 1) : 0;
        if (gap_bytes + base::varint_bytes(length_field(range)) > writer.room()) {
            break;
        }
        if (written > 0) {
            writer.varint(ranges[written - 1].first - range.last - 1);
        }
        writer.varint(length_field(range));
    }
    if (written == 0) {
        if (writer.ok()) {
            writer.rewind(begin);
        }
        return 0;
    }
    count[0] = static_cast<uint8_t>(written);
    return written;
}

}  // namespace continuo::wire
