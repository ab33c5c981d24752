// Input and output of PathManager: uplinks and paths of one session, and a plan. Plain structs: the
// owner fills them from the host's state and the session's paths.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"
#include "common/recovery/liveness.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace continuo::policy {

enum class Transport : uint8_t { Udp, Tcp };
inline constexpr size_t kTransports = 2;

// One way to the SNAPT.
struct Candidate {
    uint8_t uplink = 0;  // slot
    base::Endpoint to;
    Transport transport = Transport::Udp;
    auto operator<=>(const Candidate&) const = default;
};

// A local address of an interface, by the host's state.
struct UplinkFacts {
    uint8_t slot = 0;
    base::IpAddress local;
    uint32_t network = 0;    // interface: its addresses share their fate
    base::IpAddress remote;  // the SNAPT's, in the uplink's IP version
    uint64_t cost = 0;       // order of the host's routes to there; the smallest is preferred
    bool has_route = true;
    bool can_carry = true;  // carrier, and Wi-Fi joined
    // Only an answer makes it carry: a tunnel may be carried by this very session.
    bool must_answer_first = false;
    bool is_weak = false;  // the signal
};

// One direction since the path began. Datagrams that came late are not lost.
struct PathTraffic {
    uint64_t arrived = 0;
    uint64_t lost = 0;
    uint64_t delivered_bytes = 0;  // with packets: acknowledgements alone deliver nothing
};

// The path of an uplink, by UDP or TCP, as the session sees it. TCP has one while a connection by
// that uplink is open.
struct PathView {
    uint8_t uplink = 0;  // slot
    Transport transport = Transport::Udp;
    uint16_t port = 0;  // the SNAPT's port that was asked last; what is answered, answered there
    recovery::Health health = recovery::Health::Usable;  // TCP's: also by io::TcpStall
    bool is_validated = false;       // has answered, and the tuple has not changed since
    base::TimePoint opened_at{};     // TCP: when the connection was made
    base::TimePoint answered_at{};   // something that left there was answered; zero: never
    base::Duration smoothed_rtt{};   // zero: not measured
    base::Duration probe_timeout{};  // PTO
    bool has_full_queue = false;     // up: the sender has filled the link
    PathTraffic up;
    PathTraffic down;
    uint64_t delivered_bytes() const { return up.delivered_bytes + down.delivered_bytes; }
};

struct PathSituation {
    std::span<const UplinkFacts> uplinks;
    std::span<const PathView> paths;
    std::span<const uint16_t> udp_ports;  // the SNAPT's; not empty
    uint16_t tcp_port = 0;                // 0: none
    std::span<const uint8_t> hints;       // slots of uplinks of which there is news
    bool is_busy = false;                 // packets were queued within the last second
    bool is_spread = false;               // flows were carried by other paths, too, lately
    uint16_t known_port = 0;              // that got through; a new way begins there, if it is one
};

struct PathPlan {
    // A change. It is a question, too: the session announces it.
    std::optional<Candidate> activate;
    // Attempts to connect that are under way end: nobody waits for them any more, and one that
    // succeeded late would take the place of the connection in use.
    bool ends_attempts = false;
    // To be asked now. TCP without a connection by that uplink, or with a dead one, is connected.
    std::vector<Candidate> probe;
    base::TimePoint next_at = base::kNever;  // unless something changes before
};

}  // namespace continuo::policy
