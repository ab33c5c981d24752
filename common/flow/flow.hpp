// Flow: one inner conversation (5-tuple, or ICMP echo identifier) as both daemons keep it. Owned by
// a FlowTable; the address is stable for its life. Touched by the data loop only, but for the
// counters, which are relaxed atomics with one writer.
#pragma once

#include "common/base/path_mode.hpp"
#include "common/base/strong_id.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/flow/live_slot.hpp"
#include "common/packet/five_tuple.hpp"
#include "common/packet/packet.hpp"

namespace continuo::flow {

using FlowId = base::StrongId<struct FlowTag, uint64_t>;

// Life-cycle (RFC 9293 for TCP, RFC 4787/5382/5508 for the timeouts):
//
//   Opening --first answer--> Open --FIN both ways or RST--> Closing --linger--> Closed (freed)
//      |                        `--idle timeout------------------------------------^
//      `--policy says no--> Refused --linger--> Closed
//
// Opening: no packet from the other side than the first yet. Closing: late segments may still come;
// the tuple is not reusable except by a new SYN. Refused: kept only to be shown and to answer
// repeated attempts.
enum class FlowState : uint8_t { Opening, Open, Closing, Closed, Refused };

// The way of a packet: Up is from the node to the Internet.
enum class Direction : uint8_t { Up, Down };

// State by which TCP tracking sees the end of a connection.
struct TcpTracking {
    bool fin_up = false;
    bool fin_down = false;
    bool reset = false;
    bool established = false;
};

// Queue of one flow inside its class queue; managed by queueing::ClassQueue alone.
struct FlowQueue {
    packet::Packet* head = nullptr;
    packet::Packet* tail = nullptr;
    uint32_t bytes = 0;
    uint32_t packets = 0;
    int32_t deficit_bytes = 0;
    struct Flow* next_in_round = nullptr;
    bool in_round = false;
};

// How a flow uses the paths of its session; changed by tunnel::Session alone.
struct FlowPaths {
    static constexpr uint8_t kNone = UINT8_MAX;
    base::PathMode mode = base::PathMode::Handover;
    uint8_t pinned = kNone;    // mode Flow
    uint16_t next_number = 0;  // mode Packet: of its next datagram
    // Moves of its session that it has counted; kNotSeen: it has not carried anything yet.
    static constexpr uint32_t kNotSeen = UINT32_MAX;
    uint32_t moves_seen = kNotSeen;
    base::TimePoint queued_at{};  // its newest packet
    base::Duration gap{};         // between that and the one before
};

// Base of shares: limits that a flow counts for, its owner's, which the daemon knows, and its
// table's.
enum class ShareLevel : uint8_t { Owner, Table };
inline constexpr size_t kShareLevels = 2;
class FlowShare;
struct FlowLinks {
    struct Flow* next = nullptr;
    struct Flow* previous = nullptr;
};

// Bytes of a flow sent down that are not known to have arrived; changed only by session::Unheard.
struct UnheardBytes {
    uint64_t packets = 0;
    uint64_t inner = 0;
    uint64_t payload = 0;
    uint64_t outer = 0;
    uint32_t place = 0;  // in the list of flows with such bytes

    bool is_empty() const { return packets == 0 && outer == 0; }
    void add(const UnheardBytes& more) {
        packets += more.packets;
        inner += more.inner;
        payload += more.payload;
        outer += more.outer;
    }
};

// Base of flow owners; only compared.
struct FlowOwner {};

// Base of a daemon's data for a flow; only the daemon knows the type.
struct FlowDetails {};

struct Flow {
    FlowId id;
    packet::FiveTuple tuple;  // local address: cnapt0's on the node, the lease at SNAPT
    base::TrafficClass traffic_class = base::TrafficClass::LtHd;
    FlowState state = FlowState::Opening;
    TcpTracking tcp;
    bool may_compress = true;   // policy
    bool is_opened = false;     // announced to the other end
    bool was_answered = false;  // a packet came down
    // Direction of the first packet. Down: NAT knew it, whether or not the node still does.
    Direction begun = Direction::Up;
    bool is_favoured = false;   // may have the reserve of a limit (FlowShare)
    bool gives_way = false;     // in the lists of its shares: never answered, or closed
    uint8_t class_changes = 0;  // counted in its slots' ids (FlowTable)
    uint16_t app = 0;           // application tag; the names are in the session's table; 0: none
    uint32_t index = 0;         // flow index on the wire, unique at its owner
    const FlowOwner* owner = nullptr;  // null: it has no index
    FlowDetails* details = nullptr;
    LiveSlot* counters = nullptr;  // never null while the flow is in a table
    FlowQueue queue;
    FlowPaths paths;
    UnheardBytes unheard;
    base::TimePoint created_at{};
    base::TimePoint last_packet_at{};
    base::TimePoint class_changed_at{};  // the daemon's own
    base::TimePoint expires_at = base::kNever;
    Flow* next_in_bucket = nullptr;  // FlowTable's own links
    Flow* wheel_next = nullptr;
    Flow* wheel_previous = nullptr;
    uint32_t wheel_slot = 0;
    uint32_t received_place = 0;  // reception::ReceivedMembers' own
    FlowShare* share = nullptr;   // its owner's; null: none
    FlowLinks share_links[kShareLevels];
};

// The data as the daemon's type; null while the flow has none.
template <typename Details>
Details* details_as(const Flow& flow) {
    return static_cast<Details*>(
        flow.details);  // NOLINT(*-static-cast-downcast): one type a daemon
}

}  // namespace continuo::flow
