// PathSet: the paths of one session and what is known of them (docs/PROTOCOL.md section 5). The
// node adds paths and says which one is active; SNAPT learns them from authenticated datagrams and
// follows announcements. Pure: what has to be sent for it (announcements, challenges, responses)
// comes out of next_probe().
//
//   Unknown --first datagram or add()--> Challenged --RESPONSE--> Usable --silence--> Doubtful
//                                         |  ^ ^                     ^--- any datagram ---'| ^
//                                         |  | `-any datagram, if it has not answered yet--'| |
//                                         |  RESPONSE or add()                  more silence| |
//                                         |  |            Dead <----remove()----------------' |
//                                         |  `-------------'                                  |
//                                         `---------------------silence-----------------------'
//
// Silence is counted from the first datagram that should have had an answer. At SNAPT it changes no
// state; it asks for a sign of life over control.
//
// SNAPT sends at most three times what it received to a tuple that has not answered a challenge.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/session/mtu_search.hpp"
#include "common/wire/frame.hpp"

#include <array>
#include <bit>
#include <optional>
#include <vector>

namespace continuo::session {

enum class Role : uint8_t { Node, Snapt };

enum class PathState : uint8_t { Unknown, Challenged, Usable, Doubtful, Dead };
std::string_view to_string(PathState state);

// Of what TCP takes: for the low-delay classes, so that they do not wait behind the others.
inline constexpr uint64_t kReservedRoomBytes = uint64_t{16} * 1024;

// Address and port of the other end as one class of a path sees it: NAT may map each socket apart.
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
    uint32_t repetitions = 0;  // of the challenge; an answer after one tells no RTT
    bool was_sent = false;
};

struct Path {
    PathState state = PathState::Unknown;
    bool is_failing() const { return state == PathState::Doubtful || state == PathState::Dead; }
    uint16_t mtu = 1500;  // of the outer IP packet, in the direction that this end sends
    MtuSearch search;
    std::array<Tuple, base::kTrafficClasses> tuples;
    base::Duration smoothed_rtt{};  // RFC 6298; zero: no sample
    base::Duration rtt_variation{};
    base::TimePoint heard_at{};
    uint8_t announcements_due = 0;
    base::TimePoint announce_again_at = base::kNever;
    base::Duration announce_interval{};
    uint64_t received_datagrams = 0;
    bool has_answered = false;  // a challenge, since it was added or last dead
    // What may be sent there before its sender has room again, kReservedRoomBytes of it by the
    // low-delay classes only; TCP only.
    uint64_t room_bytes = UINT64_MAX;
    // Since when something that should have had an answer is without one.
    base::TimePoint unanswered_since = base::kNever;
    // Node: that came without a pause.
    uint32_t burst_datagrams = 0;
    // Node: how often a datagram is sent while there is nothing else, as learned; zero: as SNAPT
    // said.
    base::Duration keepalive{};
    base::TimePoint keepalive_learned_at{};
    base::Duration idle_when_asked{};  // before the latest request
    base::TimePoint lost_known_by{};   // packets until then had been lost
    base::Duration idle_when_lost{};   // before the first such loss; zero: none is known
    // SNAPT: between requests for a sign of life over control; one is open; when it was answered.
    base::Duration request_interval{};
    bool is_requested = false;
    base::TimePoint request_answered_at{};
};

// One datagram without packets that the session shall send.
struct Probe {
    uint8_t path = 0;
    base::TrafficClass traffic_class = base::TrafficClass::LtLd;
    base::Endpoint to;
    base::Endpoint from;
    std::optional<wire::Announce> announce;
    std::optional<wire::Challenge> challenge;
    std::optional<wire::Response> response;
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

class PathSet {
  public:
    PathSet(Role role, base::Random& random) : role_(role), random_(random) {}

    // --- Node
    void add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    void remove(uint8_t index);
    // Moves the session to this path: announcements go out at once, whatever there is to send.
    void activate(uint8_t index, base::TimePoint now);
    // Of the uplink, the most that may pass; tells SNAPT when it changed.
    void set_mtu(uint8_t index, uint16_t mtu, base::TimePoint now);
    // Asks a path that is not active whether it works, unless that question is open.
    void probe(uint8_t index, base::TimePoint now);
    // Asks a dead path at once and more often again, since something has happened to the network.
    void ask_again(uint8_t index, base::TimePoint now);
    // SNAPT misses a sign of life while the node, since `idle_since`, had nothing to send: when
    // nothing comes in either, the mapping at a NAT may be gone. Announces the node; when packets
    // follow at once, they had been lost. False: the path works or is being asked already.
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    // Packets came on the path while the node had nothing to send since `idle_since`. The second
    // loss after an idle time makes the keepalive interval of this path shorter (one may be
    // chance), and then each.
    void on_packets(uint8_t index,
                    base::TimePoint idle_since,
                    base::Duration longest,
                    base::TimePoint now);
    // Interval of keepalives on the active path, at most `longest`.
    base::Duration keepalive(base::Duration longest) const;
    // A learned interval is tried twice as long after some time without a request.
    void try_longer_keepalive(base::Duration longest, base::TimePoint now);
    // The path is dead from now on: it carries nothing until an answer to retry() comes.
    void give_up(uint8_t index);
    // Asks a path that was given up once, at this address: its port may be another one than before.
    void retry(uint8_t index, const base::Endpoint& remote, base::TimePoint now);
    // The active path goes to another port of the SNAPT and is announced there.
    void redirect(const base::Endpoint& remote, base::TimePoint now);
    // Announces the active path once more, for instance after a route appeared.
    void announce_again(base::TimePoint now);

    // --- SNAPT
    // An authenticated datagram of `bytes` outer bytes. `is_highest`: it has the highest number of
    // its space so far; only then may it move the tuple. Sends a challenge to a tuple that is new.
    // True when it ends a doubt (node).
    bool on_authenticated(const wire::Space& space,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    // What was sent on the path is unanswered for long: datagrams may be lost.
    bool is_overdue(uint8_t index, base::TimePoint now) const;
    // True when the return path moved.
    bool on_announce(uint8_t path, const wire::Announce& announce, base::TimePoint now);

    // The tuple of that class has answered by another way: TCP proves an address by itself.
    void trust(const wire::Space& space);

    // --- Both
    // What the path takes before it has to be asked again: TCP, whose sender tells.
    void set_room(uint8_t index, uint64_t bytes) { paths_[index].room_bytes = bytes; }
    void on_challenge(const wire::Space& space, const wire::Challenge& challenge, bool was_padded);
    // True when the path became usable with it.
    bool on_response(const wire::Space& space, const wire::Response& response, base::TimePoint now);
    // `wants_answer`: it carries packets, so that something should come back, be it an answer to a
    // challenge.
    void
    on_sent(const Destination& destination, uint64_t bytes, bool wants_answer, base::TimePoint now);
    // Datagrams with packets left, each of `outer_bytes`: what the MTU search goes by, which TCP
    // does not need.
    void
    on_data_sent(uint8_t index, uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now) {
        if (index != wire::kTcpPath) {
            paths_[index].search.on_sent(outer_bytes, total_bytes, now);
        }
    }
    // The own host refuses datagrams of so many outer bytes: the path takes the next smaller usual
    // size.
    void on_too_big(uint8_t index, uint32_t outer_bytes, base::TimePoint now);
    // Looks at the silence of paths. Gives one that has just become doubtful or dead, or on which
    // SNAPT misses a sign of life, at most one a call.
    std::optional<uint8_t> on_time(base::TimePoint now);

    // Where traffic of that class goes now; nothing when there is no path.
    std::optional<Destination> destination(base::TrafficClass traffic_class,
                                           base::TimePoint now) const;
    std::optional<Probe> next_probe(base::TimePoint now);
    base::TimePoint next_deadline() const;

    std::optional<uint8_t> active() const { return active_; }
    const Path& path(uint8_t index) const { return paths_[index]; }
    // Largest smoothed RTT of the paths in use.
    base::Duration largest_rtt() const;
    uint16_t announcement_number() const { return announcement_number_; }

  private:
    void start_challenge(Path& path, Tuple& tuple, base::TimePoint now);
    static void forget_other_tuples(Path& path);
    void expect_answer(Path& path, base::TimePoint now);
    static void note_sign_of_life(Path& path, base::TimePoint now);
    void ask_active_or_other(uint8_t index, base::TimePoint now);
    base::TimePoint silence_deadline(const Path& path) const;
    // The deadline has passed. True when that is to be told.
    bool on_silence(uint8_t index, base::TimePoint now);
    void take_rtt_sample(Path& path, base::Duration sample);
    std::optional<Probe> announce_probe(uint8_t index, base::TimePoint now);
    std::optional<Probe> challenge_probe(uint8_t index, base::TimePoint now);
    std::optional<Probe> mtu_probe(uint8_t index, base::TimePoint now);
    static void set_limit(Path& path, uint16_t mtu);
    bool is_live(const Path& path) const;
    void use(uint8_t index) { used_ = static_cast<uint16_t>(used_ | 1U << index); }
    // In the order of their indexes, those that may have something to do. True as soon as `visit`
    // says so.
    template <typename Visit>
    bool any_used(const Visit& visit) const {
        for (unsigned left = used_; left != 0; left &= left - 1) {
            if (visit(static_cast<uint8_t>(std::countr_zero(left)))) {
                return true;
            }
        }
        return false;
    }
    static uint64_t room_for(const Path& path, base::TrafficClass traffic_class);

    Role role_;
    base::Random& random_;
    std::array<Path, wire::kMaxPaths> paths_;
    uint16_t used_ = 0;  // a bit each, so that nothing looks at all of them for each packet
    std::optional<uint8_t> active_;
    uint16_t announcement_number_ = 0;
    bool has_announcement_ = false;
    std::optional<uint16_t> activation_number_;  // SNAPT: of the latest announcement of a move

    static constexpr size_t kMaxResponses = 16;  // the oldest challenge waits for its repetition
    struct DueResponse {
        wire::Space space;
        wire::Response response;
        bool is_padded = false;
    };
    std::array<DueResponse, kMaxResponses> responses_{};
    size_t response_count_ = 0;
};

}  // namespace continuo::session
