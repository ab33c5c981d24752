// The state of one path, and the types in which PathSet reports on paths to the session.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/path/class_ways.hpp"
#include "common/path/keepalive_learner.hpp"
#include "common/path/liveness.hpp"
#include "common/path/mtu_search.hpp"
#include "common/path/rtt_estimator.hpp"
#include "common/wire/frame.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace continuo::session {

enum class Role : uint8_t { Node, Snapt };

enum class PathState : uint8_t { Unknown, Challenged, Usable, Doubtful, Dead };
// Whether the address of a path is known to work (RFC 9000 section 8.2). Failed: nothing but an
// answer to a challenge, or a new validation, makes the path usable again.
enum class Validation : uint8_t { None, Pending, Done, Failed };
std::string_view to_string(PathState state);

// Share of a path's room reserved for the low-delay classes, so that they do not wait behind
// others.
inline constexpr uint64_t kReservedRoomBytes = uint64_t{16} * 1024;

// Interval between repetitions of unanswered announcements and challenges: first, then growing.
inline constexpr base::Duration kFirstProbeInterval = base::milliseconds(40);
inline constexpr base::Duration kLongestProbeInterval = base::seconds(1);
inline base::Duration longer_interval(base::Duration interval) {
    return std::min<base::Duration>(interval * 2, kLongestProbeInterval);
}
// An unanswered challenge is given up after this, until the tuple is heard again.
inline constexpr base::Duration kChallengeLifetime = base::seconds(30);

// Largest size of a datagram with nothing but CHALLENGE or RESPONSE.
inline constexpr uint32_t kShortProbeBytes = 64;
// Part of an unproven tuple's limit kept free for repetitions of the challenge.
inline constexpr uint64_t kChallengeRoomBytes = uint64_t{4} * kShortProbeBytes;

// Address and port of the other end as one class of a path sees it: a NAT may map each socket
// differently.
struct Tuple {
    base::Endpoint remote;
    base::Endpoint local;  // own address and port that the peer uses; unspecified on the node
    bool is_known = false;
    bool is_proven = false;  // answered a challenge, or configured
    base::TimePoint heard_at{};
    uint64_t unproven_received_bytes = 0;
    uint64_t unproven_sent_bytes = 0;
    wire::ChallengeToken token{};
    base::TimePoint challenged_at = base::kNever;
    base::TimePoint challenge_again_at = base::kNever;
    base::Duration challenge_interval{};
    base::TimePoint asked_at{};  // when the challenge was last sent
    uint32_t repetitions = 0;
    bool was_sent = false;
    bool is_withheld = false;  // a due challenge that was not sent: too few bytes were received
    bool is_remapped = false;  // SNAPT: replaced a proven tuple, and is not proven yet
    base::TimePoint answered_at = base::kNever;  // when the latest RESPONSE left
};

struct Path {
    PathState state = PathState::Unknown;  // settle() alone sets it
    Validation validation = Validation::None;
    path::Health health = path::Health::Usable;
    void settle();
    bool is_failing() const { return state == PathState::Doubtful || state == PathState::Dead; }
    bool has_answered = false;  // answered a challenge since it was added or was last dead
    bool is_suspect = false;    // node: a lower layer says that it may soon carry nothing
    uint8_t announcements_due = 0;
    bool was_asked_again = false;  // node: after its first answer
    uint16_t mtu = 1500;           // an outer IP packet's, in the direction that this end sends
    path::MtuSearch search;
    std::array<Tuple, base::kTrafficClasses> tuples;
    path::RttEstimator rtt;
    // Zero: no sample.
    base::Duration smoothed_rtt() const {
        return rtt.has_sample() ? rtt.smoothed() : base::Duration{};
    }
    base::Duration rtt_variation() const {
        return rtt.has_sample() ? rtt.variation() : base::Duration{};
    }
    base::Duration rtt_at_most{};      // bound by an answer without a sample; zero: none
    uint64_t answers = 0;              // to challenges, since it was added
    base::Duration last_round_trip{};  // the latest answer's
    base::TimePoint packets_sent_at{};
    base::TimePoint heard_at{};
    base::TimePoint answered_at{};  // a RESPONSE of lt-ld, or an ACK that came back by this path
    base::TimePoint announce_again_at = base::kNever;
    base::Duration announce_interval{};
    uint64_t received_datagrams = 0;
    uint64_t received_bytes = 0;  // outer IP packets
    uint64_t sent_bytes = 0;      // the same, of datagrams with packets
    // Bytes that may be sent before the sender has room again, kReservedRoomBytes of it only for
    // low-delay classes. Set for TCP, and for UDP while a socket is full.
    uint64_t room_bytes = UINT64_MAX;
    // When the oldest unanswered datagram that expects an answer was sent.
    base::TimePoint unanswered_since = base::kNever;
    // Node: datagrams that came without a pause.
    uint32_t burst_datagrams = 0;
    path::KeepaliveLearner keepalive;  // node
    // SNAPT: requests for a sign of life over control: interval, time of the latest, whether it is
    // open, when it was answered.
    base::Duration request_interval{};
    base::TimePoint requested_at{};
    bool is_requested = false;
    // SNAPT: it was silent when the node announced another path, and has not been heard since.
    bool was_left_silent = false;
    base::TimePoint request_answered_at{};
    // SNAPT: the node wants copies of low-delay classes on this path until then.
    base::TimePoint copies_until{};
    base::TimePoint copies_since{};  // since when announcements of this number have come

    // In the direction that this end sends, from acknowledgements (path::Delivery).
    uint64_t delivery_bytes_per_s = 0;  // outer IP packets; 0: unknown
    bool is_full = false;               // a queue stands in it
    bool was_full = false;              // at the last measurement; else it may deliver far more
    std::optional<double> loss;         // fraction of datagrams; nothing: unknown
    uint64_t lost_datagrams = 0;
    uint64_t late_datagrams = 0;       // arrived after they had been declared lost
    uint64_t duplicate_datagrams = 0;  // arrived twice, in the direction that this end receives

    // Datagrams with packets whose arrival is not confirmed, and since when there are any
    // (path_proof.cpp).
    uint64_t unconfirmed_datagrams = 0;
    base::TimePoint unconfirmed_since{};
    // Only proof of arrival ends the silence; incoming datagrams do not.
    bool needs_proof = false;
    base::TimePoint proof_wanted_from{};
    base::Duration proof_patience{};
};

// A set of paths: bit n is the path with index n.
using PathMask = uint16_t;
constexpr PathMask mask_of(uint8_t path) {
    return static_cast<PathMask>(1U << path);
}

// A set of traffic classes.
using ClassMask = uint8_t;
inline constexpr ClassMask kAllClasses = (1U << base::kTrafficClasses) - 1;
constexpr ClassMask mask_of(base::TrafficClass traffic_class) {
    return static_cast<ClassMask>(1U << base::index_of(traffic_class));
}

// One datagram without packets that the session shall send.
struct Probe {
    uint8_t path = 0;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    std::optional<wire::Announce> announce{};
    std::optional<wire::Announce> copies{};  // the path that is to carry copies meanwhile
    std::optional<wire::Challenge> challenge{};
    std::optional<wire::Response> response{};
    bool has_ping = false;     // a probe of path::Liveness
    bool wants_ack = false;    // a PING as well; it is repeated with the question, not by a timer
    bool is_padded = false;    // to kAnnounceBodyBytes
    uint16_t outer_bytes = 0;  // pad the outer packet to this size; 0: no
    // The tuple that the datagram takes, where it is another class's.
    std::optional<base::TrafficClass> tuple_class{};
    std::optional<path::ClassWay> way{};  // nothing: the one that its class takes
    bool is_class_question = false;       // asked by path::ClassWays: its answer proves no tuple

    // Announcements, question and answer.
    void serialize(base::ByteWriter& body) const;
};

struct Destination {
    uint8_t path = 0;
    base::TrafficClass tuple_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    uint16_t mtu = 1500;
    uint64_t budget_bytes = UINT64_MAX;  // an unproven tuple, or TCP, may still be sent this much
    bool is_unmarked = false;            // DSCP 0 in place of that of the class
};

}  // namespace continuo::session
