// Why a packet or datagram was dropped. Each reason has one counter; its name is the key in `status
// --json`.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace continuo::base {

enum class DropReason : uint8_t {
    // Outer datagrams, in the order of trust.
    TooShort,
    BadVersion,
    UnknownSession,
    UnknownEpoch,
    Unauthentic,
    Replayed,
    Repeated,            // as Replayed, after SNAPT had been asked to send again
    BadBody,             // authenticated, but does not parse: peer's mistake
    UnknownReference,    // coded against state that is not here
    BelowFloor,          // late: the sender has abandoned its references
    DuplicateAggregate,  // another copy was delivered
    DecompressFailed,
    DatagramTooLong,  // longer than any path takes
    InflationLimit,   // the node's datagrams would expand beyond its budget
    // Inner packets.
    NotIp,
    MalformedPacket,
    UnsupportedProtocol,
    NotOurSource,  // captured packet without cnapt0's source
    NoBinding,     // TCP without SYN and without flow
    NoSession,
    VersionNotCarried,  // no SNAPT that answers carries its IP version
    FlowLimit,
    QueueFull,
    PoolEmpty,
    TooLong,
    ReassemblyTimeout,
    ReassemblyLimit,
    PolicyDenied,
    SpoofedSource,
    Refused,   // destination that nodes may not send to
    NodeGone,  // node not heard for long
    UserRate,  // user above its rate
    UsedUp,    // user's quota or credit used up
    Draining,  // new flow of a SNAPT that its operator empties
    // System edge.
    SendFailed,
    TunWriteFailed,
    AmplificationLimit,  // unproven path, three times limit
    InputFull,           // more from a node than its share of the data loop
    StrangersFull,       // from unknown addresses, above their limit
    Count,
};

inline constexpr size_t kDropReasons = static_cast<size_t>(DropReason::Count);

inline constexpr std::array<std::string_view, kDropReasons> kDropReasonNames = {
    "too_short",
    "bad_version",
    "unknown_session",
    "unknown_epoch",
    "unauthentic",
    "replayed",
    "repeated",
    "bad_body",
    "unknown_reference",
    "below_floor",
    "duplicate_aggregate",
    "decompress_failed",
    "datagram_too_long",
    "inflation_limit",
    "not_ip",
    "malformed_packet",
    "unsupported_protocol",
    "not_our_source",
    "no_binding",
    "no_session",
    "version_not_carried",
    "flow_limit",
    "queue_full",
    "pool_empty",
    "too_long",
    "reassembly_timeout",
    "reassembly_limit",
    "policy_denied",
    "spoofed_source",
    "refused",
    "node_gone",
    "user_rate",
    "used_up",
    "draining",
    "send_failed",
    "tun_write_failed",
    "amplification_limit",
    "input_full",
    "strangers_full"};

constexpr std::string_view to_string(DropReason reason) {
    return kDropReasonNames[static_cast<size_t>(reason)];
}

// Counters of one thread; read by others through a snapshot that the owner makes.
class DropCounters {
  public:
    void add(DropReason reason, uint64_t count = 1) {
        counts_[static_cast<size_t>(reason)] += count;
    }
    uint64_t count(DropReason reason) const { return counts_[static_cast<size_t>(reason)]; }
    void merge(const DropCounters& other) {
        for (size_t i = 0; i < kDropReasons; ++i) {
            counts_[i] += other.counts_[i];
        }
    }

  private:
    std::array<uint64_t, kDropReasons> counts_{};
};

}  // namespace continuo::base
