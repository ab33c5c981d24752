// Types by which a session speaks of its paths.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/path/announcements.hpp"
#include "common/path/copy_wish.hpp"
#include "common/path/keepalive_search.hpp"
#include "common/path/mtu_search.hpp"
#include "common/path/path_state.hpp"
#include "common/path/rtt_estimator.hpp"
#include "common/path/sign_of_life.hpp"
#include "common/path/silence.hpp"
#include "common/path/validation.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <optional>

namespace continuo::session {

enum class Role : uint8_t { Node, Snapt };

using path::PathState;
using path::to_string;

// Of what a path takes: for the low-delay classes, so that they do not wait behind the others.
inline constexpr uint64_t kReservedRoomBytes = uint64_t{16} * 1024;

// Address and port of the other end as one class of a path sees it: NAT may map each socket apart.
struct Tuple {
    base::Endpoint remote;
    base::Endpoint local;  // own address and port that the peer uses; unspecified on the node
    bool is_known = false;
    base::TimePoint heard_at{};
    path::Validation validation;

    bool operator==(const Tuple&) const = default;
};

// Fate of the datagrams that this end sent by a path.
struct DeliveryTotals {
    uint64_t delivered_bytes = 0;  // outer IP packets with packets in them
    uint64_t delivered_datagrams = 0;
    uint64_t lost_datagrams = 0;
    uint64_t late_datagrams = 0;  // came after they had been given up
};

struct PathCounters {
    uint64_t answers = 0;              // to challenges, since it began
    base::Duration last_round_trip{};  // of the latest answer, from what it answers
    uint64_t received_datagrams = 0;
    uint64_t received_bytes = 0;       // outer IP packets
    uint64_t sent_bytes = 0;           // the same, of datagrams with packets
    uint64_t duplicate_datagrams = 0;  // that came twice
};

// How much of what this end sends a path delivers, as acknowledgements tell (path::Delivery).
struct Delivered {
    uint64_t bytes_per_s = 0;    // of outer IP packets; 0: unknown
    bool is_full = false;        // a queue stands in it
    bool was_full = false;       // when it was measured; else it may deliver far more
    std::optional<double> loss;  // fraction of datagrams; nothing: unknown
};

// A set of paths: bit n is the path with index n.
using PathMask = uint16_t;
inline constexpr PathMask kAllPaths = UINT16_MAX;
constexpr PathMask mask_of(uint8_t path) {
    return static_cast<PathMask>(1U << path);
}

// One datagram without packets that the session shall send.
struct Probe {
    uint8_t path = 0;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    std::optional<wire::Announce> announce{};
    std::optional<wire::Announce> copies{};  // where copies are wanted meanwhile
    std::optional<wire::Challenge> challenge{};
    std::optional<wire::Response> response{};
    bool has_ping = false;     // a probe of path::Liveness
    bool is_padded = false;    // to kAnnounceBodyBytes
    uint16_t outer_bytes = 0;  // to this size of the outer packet; 0: as it is
};

struct Destination {
    uint8_t path = 0;
    base::TrafficClass tuple_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    uint16_t mtu = 1500;
    uint64_t budget_bytes = UINT64_MAX;  // what an unproven tuple, or TCP, may still be sent
};

}  // namespace continuo::session
