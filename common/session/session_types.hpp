// Settings and counters of a session, and the interface to its daemon.
#pragma once

#include "common/base/drop_reason.hpp"
#include "common/base/ip_address.hpp"
#include "common/base/memory_budget.hpp"
#include "common/base/path_mode.hpp"
#include "common/base/token_bucket.hpp"
#include "common/crypto/datagram_cipher.hpp"
#include "common/elision/types.hpp"
#include "common/flow/flow.hpp"
#include "common/packet/header_fields.hpp"
#include "common/path/path_state.hpp"
#include "common/path/probe.hpp"
#include "common/wire/tcp_record.hpp"
#include "common/wire/unsealed.hpp"

#include <array>
#include <bit>
#include <memory>

namespace continuo::tunnel {
class Session;
}  // namespace continuo::tunnel

namespace continuo::session {

// Knobs of one class for what this end sends (docs/PROTOCOL.md section 6.1).
struct ClassSettings {
    base::Duration hold = base::milliseconds(5);
    uint32_t min_bytes = 0;                // outer IP bytes; hold until so many are predicted
    uint32_t max_bytes = 0;                // outer IP bytes of a datagram; 0: path MTU
    double fill = 1.0;                     // fraction of the datagram at which an aggregate is full
    uint64_t queue_bytes = 1 << 20;        // per class and session
    int compression_level = 3;             // 0: off
    bool is_compression_automatic = true;  // super-packets: CompressionGovernor decides
    // Receiver: longest time that a packet of a striped flow waits for earlier ones. Sender: paths
    // whose delays differ by more are not striped over.
    base::Duration resequence{};
    base::Striping striping = base::Striping::Packet;
};

// Keys of one epoch, named from this end's point of view.
struct EpochInstall {
    uint32_t epoch = 0;
    std::unique_ptr<crypto::DatagramCipher> sealer;
    std::unique_ptr<crypto::DatagramCipher> opener;
};

// State that the loop driving a session keeps in it.
struct DriverHook {
    size_t heap_place = 0;
    base::TimePoint deadline = base::kNever;
    bool is_touched = false;
    bool is_waiting = false;  // for a full socket
};

struct SessionSettings {
    path::Role role = path::Role::Node;
    uint16_t local_id = 0;  // in datagrams that arrive here
    uint16_t peer_id = 0;   // in datagrams sent from here
    // Replaces the node's side of restored packets: cnapt0's addresses on the node, the lease at
    // SNAPT.
    base::IpAddress node_ipv4;
    base::IpAddress node_ipv6;
    std::array<ClassSettings, base::kTrafficClasses> classes;
    base::Duration keepalive = base::seconds(25);
    uint64_t rekey_datagrams = wire::kRekeyDatagrams;  // new keys after at most this many
    bool is_readable =
        false;  // authenticate only: a section may hold packets of several remote addresses
    // Memory of all sessions of the process: datagrams kept for repeats, packets held for order,
    // logs of datagrams under way. Must outlive them; null: only the limits of each session.
    base::MemoryBudget* memory = nullptr;
    // Rate of inner packets sent, in IP bytes; packets above it wait in their class. Sessions may
    // share one. Must outlive them; null: no limit.
    base::TokenBucket* rate = nullptr;

    // The side of packets sent from here that is the node.
    packet::NodeSide sends_side() const {
        return role == path::Role::Node ? packet::NodeSide::Source : packet::NodeSide::Destination;
    }
    packet::NodeSide receives_side() const {
        return role == path::Role::Node ? packet::NodeSide::Destination : packet::NodeSide::Source;
    }
    const base::IpAddress& node_address(base::IpVersion version) const {
        return version == base::IpVersion::V4 ? node_ipv4 : node_ipv6;
    }
};

// About 60 sessions with both rings at their own limits.
inline constexpr size_t kMaxKeptBytes = size_t{256} * 1024 * 1024;

// A rate with a burst, in bytes.
template <int64_t kRatePerSecond, int64_t kBurst>
class ByteBudget {
  public:
    static constexpr int64_t kBytesPerSecond = kRatePerSecond;
    static constexpr int64_t kBurstBytes = kBurst;

    bool take(size_t bytes, base::TimePoint now) {
        const int64_t gained = base::to_us(now - refilled_at_) * (kBytesPerSecond / 1'000'000);
        if (gained > 0) {
            credit_ = refilled_at_ == base::TimePoint{} ? kBurstBytes
                                                        : std::min(kBurstBytes, credit_ + gained);
            refilled_at_ = now;
        }
        if (credit_ < static_cast<int64_t>(bytes)) {
            return false;
        }
        credit_ -= static_cast<int64_t>(bytes);
        return true;
    }

  private:
    int64_t credit_ = kBurstBytes;
    base::TimePoint refilled_at_{};
};

// Copies while a path is in doubt: enough for calls and keystrokes, not for a download that is in a
// low-delay class.
using CopyBudget = ByteBudget<1'000'000, 262'144>;

// Limit of packets that a node keeps while a path is silent. TCP sends few; a flow that keeps its
// rate must not arrive as one burst afterwards.
inline constexpr size_t kMostKeptPackets = 32;

// Buckets are powers of two of microseconds: precise enough for a median and a 99th percentile.
class DelayHistogram {
  public:
    void add(base::Duration delay) {
        const auto us = static_cast<uint64_t>(std::max<int64_t>(0, base::to_us(delay)));
        ++buckets_[std::min<size_t>(static_cast<size_t>(std::bit_width(us)), kBuckets - 1)];
        ++total_;
    }
    // Upper bound of the bucket that holds the quantile; 0 without samples.
    double quantile_ms(double quantile) const {
        if (total_ == 0) {
            return 0;
        }
        const auto wanted = static_cast<uint64_t>(static_cast<double>(total_) * quantile);
        uint64_t seen = 0;
        for (size_t i = 0; i < kBuckets; ++i) {
            seen += buckets_[i];
            if (seen > wanted) {
                return static_cast<double>(uint64_t{1} << i) / 1000.0;
            }
        }
        return static_cast<double>(uint64_t{1} << (kBuckets - 1)) / 1000.0;
    }
    uint64_t total() const { return total_; }

  private:
    static constexpr size_t kBuckets = 26;  // up to 33 s
    std::array<uint64_t, kBuckets> buckets_{};
    uint64_t total_ = 0;
};

// Send counters of one class, as in the packet-aggregation qdisc of Karlstad 2008.
struct ClassCounters {
    uint64_t packets = 0;  // segments of super-packets included
    uint64_t datagrams = 0;
    uint64_t packets_alone = 0;    // alone in their datagram
    uint64_t sent_by_timeout = 0;  // datagrams
    uint64_t sent_by_size = 0;
    uint64_t inner_bytes = 0;  // IP lengths
    uint64_t wire_bytes = 0;   // outer IP lengths
    uint64_t queue_drops = 0;
    uint64_t super_packets = 0;  // sent in the fixed-length form
    uint64_t super_segments = 0;
    uint64_t software_segmented = 0;
    uint64_t fragments = 0;
    uint64_t compressed_sections = 0;
    DelayHistogram queue_delay;
};

struct SessionCounters {
    uint64_t datagrams_received = 0;
    uint64_t bytes_received = 0;        // outer IP lengths
    uint64_t inner_bytes_received = 0;  // IP lengths of accepted packets
    // Outer bytes of datagrams, by their class, that brought no packets of their own: control,
    // padding, copies, repeats.
    struct Overhead {
        uint64_t sent = 0;
        uint64_t received = 0;
    };
    std::array<Overhead, base::kTrafficClasses> overhead{};  // by base::index_of
    uint64_t overhead_sent() const {
        uint64_t sum = 0;
        for (const Overhead& of_class : overhead) {
            sum += of_class.sent;
        }
        return sum;
    }
    uint64_t overhead_received() const {
        uint64_t sum = 0;
        for (const Overhead& of_class : overhead) {
            sum += of_class.received;
        }
        return sum;
    }
    uint64_t acks_sent = 0;
    uint64_t acks_received = 0;
    uint64_t lost_datagrams = 0;  // gaps that were never filled
    uint64_t duplicates = 0;
    uint64_t copies_dropped = 0;  // their packets had come on another path
    uint64_t copies_sent = 0;
    uint64_t copies_unsent = 0;  // wanted, but beyond CopyBudget or the size of the path
    uint64_t handovers = 0;
    uint64_t repeated_datagrams = 0;  // SNAPT: sent again after a move of the return path
    uint64_t closed_untold = 0;       // flows that ended, beyond kMaxClosedToTell (ClosedFlows)
};

// Whether the other end is told of a flow's end (CLOSED), beside other data.
enum class EndNotice : uint8_t { None, Closed };

struct FlowOpening {
    uint32_t index = 0;
    packet::FiveTuple tuple;
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    elision::OpenInfo open;
    const packet::HeaderFields* fields = nullptr;  // its packet's, during the call; null: unknown
    // Else it is a context, made from the header of a packet that follows whole: whether that
    // begins a connection is not known yet.
    bool has_packet = true;
};

// The daemon's side of a session. Called only from on_datagrams, poll_transmit and on_timeout;
// views are valid during the call. It may change the state of paths, but should not poll sessions,
// which are in the middle of a call: their caller does that afterwards.
class SessionHost {
  public:
    virtual ~SessionHost() = default;

    // An OPEN arrived. Returns the flow, which the session then keeps under that index; null
    // refuses it (counted; its packets are dropped).
    virtual flow::Flow*
    on_flow_opened(tunnel::Session& session, const FlowOpening& opening, base::TimePoint now) = 0;
    // A packet of the flow, which is open, came in a datagram of another class.
    virtual void on_other_class(tunnel::Session& /*session*/,
                                flow::Flow& /*flow*/,
                                base::TrafficClass /*traffic_class*/,
                                base::TimePoint /*now*/) {}
    // A flow of this session by its tuple; null when there is none.
    virtual flow::Flow* find_flow(tunnel::Session& session, const packet::FiveTuple& tuple) = 0;
    // One restored segment, with the node's address in place.
    virtual void deliver(tunnel::Session& session,
                         flow::Flow& flow,
                         const packet::HeaderFields& fields,
                         base::ByteView payload,
                         base::TimePoint now) = 0;
    // A packet that was carried whole, with the node's address in place. The daemon finds its flow
    // by the tuple and returns it for the counters (null: none).
    virtual flow::Flow* deliver_whole(tunnel::Session& session,
                                      base::TrafficClass traffic_class,
                                      base::MutableByteView packet,
                                      base::TimePoint now) = 0;
    // The other end says that the flow has ended. Before the packets of the same datagram, as a new
    // flow may need the place; may end the flow.
    virtual void
    on_flows_closed(tunnel::Session& session, flow::Flow& flow, base::TimePoint now) = 0;
    // The path answered a challenge (node), or the return path moved there (SNAPT).
    virtual void on_path_changed(tunnel::Session& session, uint8_t path, base::TimePoint now) = 0;
    // Node: nothing comes back on the path; it has become doubtful or dead. on_path_changed reports
    // when a dead one works again. SNAPT: a sign of life is missing.
    virtual void on_path_silent(tunnel::Session& session, uint8_t path, base::TimePoint now) = 0;
    // Node: the SNAPT sees a new address on the path, at which it has not heard the node before.
    virtual void
    on_path_challenged(tunnel::Session& /*session*/, uint8_t /*path*/, base::TimePoint /*now*/) {}
    virtual void on_peer_closed(tunnel::Session& session, base::TimePoint now) = 0;
    // From on_timeout: held packets were delivered.
    virtual void on_held_delivered(tunnel::Session& /*session*/) {}
};

// A datagram as it came from the socket; opened in place.
struct ReceivedDatagram {
    base::MutableByteView bytes;
    base::Endpoint from;
    base::Endpoint to;
    // The path that it arrived on; SNAPT sets it for TCP only. If it differs from the header's,
    // SNAPT sent the datagram again.
    std::optional<uint8_t> arrived_on = std::nullopt;
};

// A datagram that was received over UDP, and its source.
struct Latest {
    wire::Quote quote;
    base::Endpoint from;
    base::Endpoint to;
};

// Bytes of the IP and UDP headers in front of every datagram.
inline uint32_t outer_overhead(const base::IpAddress& peer) {
    return peer.is_v4() ? 28 : 48;
}

// Outer bytes of a datagram on that path: its IP packet; over TCP its record and its share of the
// headers of full segments (docs/PROTOCOL.md section 3.7). Both ends count with the same MSS,
// whatever the connection's own.
inline uint32_t outer_bytes(uint8_t path, const base::IpAddress& peer, size_t datagram_bytes) {
    const auto datagram = static_cast<uint32_t>(datagram_bytes);
    if (path != wire::kTcpPath) {
        return datagram + outer_overhead(peer);
    }
    constexpr uint32_t kPacket = 1500;
    const uint32_t headers = peer.is_v4() ? 40 : 60;
    const uint32_t segment = kPacket - headers;
    const uint32_t record = datagram + static_cast<uint32_t>(wire::kRecordLengthBytes);
    return record + (record * headers + segment - 1) / segment;
}
// Outer bytes of a run of datagrams of `segment` bytes each, the last perhaps shorter; 0: one
// datagram.
inline uint64_t
outer_bytes_of_run(uint8_t path, const base::IpAddress& peer, size_t run, size_t segment) {
    if (segment == 0 || run <= segment) {
        return outer_bytes(path, peer, run);
    }
    const size_t whole = (run - 1) / segment;
    return uint64_t{outer_bytes(path, peer, segment)} * whole +
           outer_bytes(path, peer, run - whole * segment);
}

// The MSS for which a segment fits one datagram in its widest form (docs/PROTOCOL.md section 6.3).
inline uint16_t largest_segment(const path::Destination& destination,
                                base::PathMode mode = base::PathMode::Handover) {
    constexpr uint16_t kBeside = 33;  // header, section head, entry and tag
    constexpr uint16_t kSmallest = 536;
    const uint32_t order = mode == base::PathMode::Packet ? wire::Order::kMaxSingleBytes : 0;
    const uint32_t beside = outer_overhead(destination.to.address) + kBeside + order;
    return static_cast<uint16_t>(destination.mtu > beside + kSmallest ? destination.mtu - beside
                                                                      : kSmallest);
}

}  // namespace continuo::session
