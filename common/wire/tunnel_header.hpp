// TunnelHeader: the first 6 or 8 bytes of every sealed datagram, authenticated, never encrypted.
//
//  0                   1                   2                   3
//  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
// +-------+---+---+-+-------+-----+-------------------------------+
// |Version|Epo|Cls|L| Path  |Lane |          Session id           |
// +-------+---+---+-+-------+-----+-------------------------------+
// |  Sequence, low 16 bits (L=0) or all 32 bits (L=1)             |
// +---------------------------------------------------------------+
//
// docs/PROTOCOL.md section 3.1.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/base/traffic_class.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/space.hpp"

#include <cstdint>

namespace continuo::wire {

enum class DatagramKind : uint8_t {
    Empty,
    Sealed,        // in our version
    Unsealed,      // unsealed.hpp parses it
    OtherVersion,  // may be answered with VERSIONS
};

// Looks at the first byte only.
constexpr DatagramKind kind_of(base::ByteView datagram) {
    if (datagram.empty()) {
        return DatagramKind::Empty;
    }
    switch (datagram[0] >> 4) {
    case kUnsealedVersion:
        return DatagramKind::Unsealed;
    case kProtocolVersion:
        return DatagramKind::Sealed;
    default:
        return DatagramKind::OtherVersion;
    }
}

struct TunnelHeader {
    uint8_t epoch = 0;  // modulo kEpochModulus
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    uint8_t path = 0;
    uint8_t lane = 0;
    uint16_t session_id = 0;
    bool long_sequence = false;
    uint32_t sequence = 0;  // whole with long_sequence, else the low 16 bits

    // Errors: Truncated; Unsupported (`where` is kWhereUnsealed for a message of version 0).
    static base::Result<TunnelHeader> parse(base::ByteReader& reader);
    // Fields beyond their width are cut.
    void serialize(base::ByteWriter& writer) const;

    constexpr size_t size() const { return long_sequence ? kLongHeaderBytes : kShortHeaderBytes; }
    constexpr Space space() const { return {traffic_class, path, lane}; }
    constexpr uint16_t space_number() const { return space_of(traffic_class, path, lane); }
    // `expected`: highest authenticated number of the space + 1, or 0.
    constexpr uint64_t whole_sequence(uint64_t expected) const {
        return long_sequence ? sequence
                             : reconstruct_sequence(expected, static_cast<uint16_t>(sequence));
    }
    bool operator==(const TunnelHeader&) const = default;
};

inline constexpr std::string_view kWhereUnsealed = "unsealed message";

// Class and path index of a datagram of at least kShortHeaderBytes; not authenticated.
inline base::TrafficClass class_of(base::ByteView datagram) {
    return static_cast<base::TrafficClass>(datagram[0] & 0x03U);
}
inline uint8_t path_of(base::ByteView datagram) {
    return datagram[1] >> 3U & 0x0FU;
}

}  // namespace continuo::wire
