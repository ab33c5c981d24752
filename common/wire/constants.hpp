// Constants of the protocol: two ends that differ in one of them cannot communicate. Limits of this
// implementation alone are in limits.hpp. docs/PROTOCOL.md section 8 gives the reason for each
// value.
#pragma once

#include "common/base/time.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace continuo::wire {

// Header, section 3.1.
inline constexpr uint8_t kProtocolVersion = 2;
inline constexpr uint8_t kUnsealedVersion = 0;
inline constexpr size_t kShortHeaderBytes = 6;
inline constexpr size_t kLongHeaderBytes = 8;
inline constexpr size_t kMaxPaths = 16;
// The index of datagrams over TCP (docs/PROTOCOL.md section 3.7); uplinks use those below.
inline constexpr uint8_t kTcpPath = kMaxPaths - 1;
inline constexpr size_t kMaxLanes = 8;
inline constexpr size_t kMaxSpaces = 4 * kMaxPaths * kMaxLanes;  // in one epoch and direction
inline constexpr uint8_t kEpochModulus = 4;
inline constexpr size_t kFullTagBytes = 16;
inline constexpr size_t kShortTagBytes = 10;  // HMAC only

// Sequence numbers, section 3.2.
inline constexpr uint64_t kShortFormDistance = uint64_t{1} << 14;
inline constexpr uint64_t kSequenceHalfWindow = uint64_t{1} << 15;
inline constexpr uint64_t kRekeyDatagrams = uint64_t{1} << 27;   // one key, all spaces together
inline constexpr uint64_t kMaxKeyDatagrams = uint64_t{1} << 28;  // the key is dead from here on
inline constexpr uint32_t kMaxSequence = (uint32_t{1} << 28) - 1;
inline constexpr base::Duration kRekeyAfter = base::seconds(3600);
inline constexpr size_t kMinReplayWindow = 4096;

// Body, sections 3.3 to 3.5.
inline constexpr uint8_t kFirstFrameType = 0x80;      // below: a section head
inline constexpr uint8_t kFirstSkippableType = 0xA0;  // these carry their length
inline constexpr uint8_t kFirstReservedType = 0xC0;   // not assigned; voids the datagram
inline constexpr uint16_t kEscapedSlot = 15;
inline constexpr uint16_t kMaxSlots = 1024;
inline constexpr uint32_t kMaxFlowIndexes = 65536;
inline constexpr size_t kDefaultSectionOutputBytes =
    65536;                                     // decompressed; control may tell another
inline constexpr uint32_t kAckReach = 4096;    // numbers, highest included
inline constexpr size_t kMaxClosedFlows = 32;  // in one CLOSED
inline constexpr size_t kChallengeBytes = 8;
inline constexpr uint16_t kMaxFragmentIds = uint16_t{1} << 15;
inline constexpr size_t kMaxFragments = 128;
inline constexpr size_t kMaxGenerationBytes = 255;  // counted part of a GENERATION
inline constexpr size_t kMaxLiveGenerations = 4;

// Most IP bytes in a datagram of a node, as a multiple of its outer bytes. Section 7.1.
inline constexpr size_t kMaxExpansion = 32;

// Acknowledgements, section 6.6.
inline constexpr base::Duration kAckTimeUnit = base::microseconds(8);
inline constexpr uint32_t kAckClockModulus = uint32_t{1} << 24;
inline constexpr uint32_t kAckCreditPermille = 20;  // share of the outer bytes received
inline constexpr uint32_t kAckCreditStartBytes = 300;
inline constexpr uint32_t kAckCreditCapBytes = 3000;

// Roaming, section 5.
inline constexpr size_t kAnnounceCopies = 4;
inline constexpr size_t kAnnounceBodyBytes = 1200;  // padded datagram: IP payload of UDP
inline constexpr size_t kAmplificationFactor = 3;
inline constexpr base::Duration kKeepaliveInterval = base::seconds(25);
// Copies that an ANNOUNCE requested end after this.
inline constexpr base::Duration kCopiesLifetime = base::seconds(2);
inline constexpr base::Duration kReassemblyTimeout = base::seconds(1);

// T_skew: a datagram is dead when one sent at least this much later has been acknowledged.
// Section 6.5.
inline constexpr base::Duration kMinSkew = base::milliseconds(300);
inline constexpr base::Duration kSkewMargin = base::milliseconds(100);
constexpr base::Duration skew_allowance(base::Duration largest_path_rtt) {
    return std::max<base::Duration>(kMinSkew, 2 * largest_path_rtt + kSkewMargin);
}

// Flows that one ORDER names.
inline constexpr size_t kMaxOrderedFlows = 16;

// Section 3.4.
enum class FrameType : uint8_t {
    Pad = 0x80,
    Ack = 0x81,
    Copy = 0x82,
    Floor = 0x83,
    Generation = 0x84,
    Confirm = 0x85,
    Refuse = 0x86,
    Fragment = 0x87,
    Challenge = 0x88,
    Response = 0x89,
    Announce = 0x8A,
    Ping = 0x8C,
    Closed = 0x8D,
    Caps = 0x8E,
    Close = 0xA1,
    Order = 0xA3,
};

// Section 3.6.
enum class UnsealedType : uint8_t {
    Versions = 1,
    Unknown = 2,
    Hello = 3,  // only as first record of a plain TCP connection
};

}  // namespace continuo::wire
