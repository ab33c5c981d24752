// Frames: the content of a body besides packets. `parse` starts at the type byte, `serialize`
// writes it; both handle the whole frame, including its length if it has one. Sequence numbers
// inside frames are complete. Views point into the parsed body. Errors of every parse: Truncated,
// Malformed, both of which void the datagram. docs/PROTOCOL.md section 3.4.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/result.hpp"
#include "common/wire/constants.hpp"
#include "common/wire/space.hpp"

#include <array>
#include <cstdint>
#include <optional>

namespace continuo::wire {

// The rest of the body is padding.
struct Pad {
    size_t bytes = 1;  // type byte included

    static base::Result<Pad> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return bytes; }
    bool operator==(const Pad&) const = default;
};

// Both ends included.
struct SequenceRun {
    uint32_t first = 0;
    uint32_t last = 0;
    bool operator==(const SequenceRun&) const = default;
};

// The numbers that arrived in one space. `ranges` is read with AckRangeReader (ack_ranges.hpp) and
// written with write_ack.
struct Ack {
    Space space;                  // one of the direction that is acknowledged
    bool previous_epoch = false;  // the one before that of the datagram which carries the ACK
    uint32_t highest = 0;         // number that the ranges begin with
    uint32_t delay = 0;           // from its arrival to the sealing of this ACK, in kAckTimeUnit
    uint32_t interval_ms = 0;     // current time between owed ACKs of this path
    // The receiver's clock when it arrived, in kAckTimeUnit, modulo kAckClockModulus; its zero is
    // arbitrary.
    uint32_t clock = 0;
    uint32_t missing = 0;  // missing numbers below `highest`, of the whole space
    base::ByteView ranges;

    static base::Result<Ack> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return head_bytes() + ranges.size(); }
    size_t head_bytes() const;
    void serialize_head(base::ByteWriter& writer) const;
    bool operator==(const Ack& other) const;
};

// The datagram is a copy of the aggregate first sealed as (space, sequence).
struct Copy {
    Space space;
    uint32_t sequence = 0;

    static base::Result<Copy> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Copy&) const = default;
};

// A datagram in `space` with a number below `sequence` is late.
struct Floor {
    Space space;
    uint32_t sequence = 0;

    static base::Result<Floor> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Floor&) const = default;
};

// Descriptor of a history. `listing` is read with ListingReader (listing.hpp).
struct Generation {
    uint16_t slot = 0;
    uint8_t generation = 0;
    uint8_t oldest = 0;  // all earlier ones are abandoned
    uint8_t base = 0;
    uint32_t keep_bytes = 0;  // from the end of `base`
    uint32_t hash = 0;
    base::ByteView listing;

    static base::Result<Generation> parse(base::ByteReader& reader);
    // Nothing is written, and the writer fails, when the counted part exceeds kMaxGenerationBytes.
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Generation& other) const;
};

struct Confirm {
    uint16_t slot = 0;
    uint8_t generation = 0;

    static base::Result<Confirm> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Confirm&) const = default;
};

enum class RefuseReason : uint8_t { Hash = 1, Memory = 2, Base = 3 };

struct Refuse {
    uint16_t slot = 0;
    uint8_t generation = 0;
    RefuseReason reason = RefuseReason::Hash;  // others may come from a newer peer

    static base::Result<Refuse> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Refuse&) const = default;
};

// One piece of a raw entry that does not fit a datagram.
struct Fragment {
    uint16_t id = 0;     // below kMaxFragmentIds
    uint8_t index = 0;   // below kMaxFragments
    bool last = false;   // last piece of its entry
    bool to_end = true;  // the piece reaches the end of the body; else it carries its length
    base::ByteView piece;

    static constexpr size_t kHeadBytes = 4;  // to_end

    static base::Result<Fragment> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Fragment& other) const;
};

using ChallengeToken = std::array<uint8_t, kChallengeBytes>;

struct Challenge {
    ChallengeToken token{};

    static constexpr size_t kBytes = 1 + kChallengeBytes;
    static base::Result<Challenge> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Challenge&) const = default;
};

struct Response {
    ChallengeToken token{};

    static constexpr size_t kBytes = 1 + kChallengeBytes;
    static base::Result<Response> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Response&) const = default;
};

enum class UplinkKind : uint8_t {
    Unknown = 0,
    Ethernet = 1,
    Wifi = 2,
    Cellular = 3,
    Mesh = 4,
    Other = 5
};

struct Announce {
    uint8_t path = 0;
    UplinkKind kind = UplinkKind::Unknown;  // values above Other read as Other
    uint16_t mtu = 0;                       // an outer IP packet's; 0: unknown
    bool active = false;                    // traffic to the node shall take this path
    bool copy_wanted = false;               // copies of low-delay classes shall take it as well
    bool withdrawn = false;                 // the path has ended
    uint16_t number = 0;                    // rises with every change of the active path

    static constexpr size_t kBytes = 8;
    static base::Result<Announce> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Announce&) const = default;
};

// RFC 1982 serial arithmetic over 16 bits; a distance of 2^15 is not newer.
constexpr bool is_newer_announcement(uint16_t candidate, uint16_t last) {
    const auto distance = static_cast<uint16_t>(candidate - last);
    return distance != 0 && distance < 0x8000;
}

// Asks for an ACK.
struct Ping {
    static constexpr size_t kBytes = 1;
    static base::Result<Ping> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Ping&) const = default;
};

struct Closed {
    static constexpr size_t kHeadBytes = 2;
    static constexpr size_t kMaxIndexBytes = 3;
    uint8_t count = 0;  // 1 to kMaxClosedFlows
    std::array<uint32_t, kMaxClosedFlows> indexes{};

    // False when full.
    bool add(uint32_t index);
    static base::Result<Closed> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Closed& other) const;
};

// Limits of the receiver that differ from those agreed over control.
struct Caps {
    uint32_t kept_bytes = 0;  // plaintext neither listed nor void, of one slot
    uint8_t live_generations = 0;

    static constexpr size_t kBytes = 6;
    static base::Result<Caps> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const { return kBytes; }
    bool operator==(const Caps&) const = default;
};

enum class CloseReason : uint8_t {
    Done = 0,
    Draining = 1,
    Replaced = 2,
    Limit = 3,
    Protocol = 4,
    Refused = 5
};

// The sender of this frame has ended the session.
struct Close {
    CloseReason reason = CloseReason::Done;  // others may come from a newer peer
    base::ByteView text;  // UTF-8, for logs; cut at kMaxCloseTextBytes when written

    static base::Result<Close> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    bool operator==(const Close& other) const;
};

// Positions of the packets of striped flows: this datagram is number `number` of that flow.
struct Order {
    struct Place {
        uint32_t index = 0;  // the flow's
        uint16_t number = 0;
        bool operator==(const Place&) const = default;
    };
    uint16_t paths = 0;  // over which the sender stripes now: bit n is path n
    uint8_t count = 0;
    std::array<Place, kMaxOrderedFlows> places{};

    // Null when it is not there.
    const Place* find(uint32_t index) const {
        for (size_t i = 0; i < count; ++i) {
            if (places[i].index == index) {
                return &places[i];
            }
        }
        return nullptr;
    }
    // False when full.
    bool add(uint32_t index, uint16_t number);
    static base::Result<Order> parse(base::ByteReader& reader);
    void serialize(base::ByteWriter& writer) const;
    size_t size() const;
    // Length of an ORDER of one flow, at most.
    static constexpr size_t kMaxSingleBytes = 10;
    bool operator==(const Order& other) const;
};

}  // namespace continuo::wire
