// Space: what has a sequence counter and a replay window of its own. Epoch and direction are known
// from the context. docs/PROTOCOL.md section 3.2.
#pragma once

#include "common/base/result.hpp"
#include "common/base/traffic_class.hpp"
#include "common/wire/constants.hpp"

#include <cstdint>
#include <optional>

namespace continuo::wire {

struct Space {
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    uint8_t path = 0;
    uint8_t lane = 0;

    bool operator==(const Space&) const = default;
};

// The number that enters the nonce: 0^7 class(2) path(4) lane(3). Below kMaxSpaces, so it indexes a
// table.
constexpr uint16_t space_of(base::TrafficClass traffic_class, uint8_t path, uint8_t lane) {
    return static_cast<uint16_t>((static_cast<unsigned>(traffic_class) & 3U) << 7 |
                                 (path & 0xFU) << 3 | (lane & 7U));
}
constexpr uint16_t space_number(const Space& space) {
    return space_of(space.traffic_class, space.path, space.lane);
}
// `number` must be below kMaxSpaces; higher bits are ignored.
constexpr Space space_from_number(uint16_t number) {
    return {static_cast<base::TrafficClass>(number >> 7 & 3U),
            static_cast<uint8_t>(number >> 3 & 0xFU), static_cast<uint8_t>(number & 7U)};
}

// The whole number that has these low bits and lies nearest to `expected` (highest authenticated +
// 1): in (expected - 2^15, expected + 2^15]. RFC 9000 appendix A.3.
constexpr uint64_t reconstruct_sequence(uint64_t expected, uint16_t low16) {
    constexpr uint64_t kWindow = 2 * kSequenceHalfWindow;
    const uint64_t candidate = (expected & ~(kWindow - 1)) | low16;
    if (candidate + kSequenceHalfWindow <= expected) {
        return candidate + kWindow;
    }
    if (candidate > expected + kSequenceHalfWindow && candidate >= kWindow) {
        return candidate - kWindow;
    }
    return candidate;
}

// Whether datagram `next` of a space has to carry its whole sequence number. `highest_acknowledged`
// is the highest one that an ACK or REPORT named.
constexpr bool needs_long_form(uint64_t next, std::optional<uint64_t> highest_acknowledged) {
    return !highest_acknowledged || next >= *highest_acknowledged + kShortFormDistance;
}

}  // namespace continuo::wire
