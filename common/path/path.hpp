// Path: all that one end knows of one path of a session (docs/PROTOCOL.md section 5), and what it
// sends there by itself. An object lasts until the path ends. Pure: announcements, challenges and
// responses to send come out of next_probe().
//
// Its state follows from two facts:
//
//   validation   None --first datagram or start()--> Pending --RESPONSE--> Done
//                A new address makes it Pending again. Failed, until a RESPONSE: the path was
//                removed, given up, or health was Dead.
//   health       Liveness: what is owed is acknowledged in time. At SNAPT it changes no state:
//                the node moves, and SNAPT asks for a sign of life over control.
//
//   state        None: Unknown. Failed: Dead. Pending: Challenged. Done: Usable. The last two are
//                Doubtful where health is not Usable.
//
// SNAPT sends at most three times the bytes received to a tuple that has not answered a challenge.
#pragma once

#include "common/base/memory_budget.hpp"
#include "common/path/announcer.hpp"
#include "common/path/class_ways.hpp"
#include "common/path/copy_request.hpp"
#include "common/path/keepalive_learner.hpp"
#include "common/path/life_requests.hpp"
#include "common/path/probe.hpp"
#include "common/path/tuple.hpp"
#include "common/recovery/delivery.hpp"

#include <array>
#include <memory>
#include <optional>
#include <string_view>

namespace continuo::path {

enum class Role : uint8_t { Node, Snapt };

enum class PathState : uint8_t { Unknown, Challenged, Usable, Doubtful, Dead };
// Whether the address of a path is known to work (RFC 9000 section 8.2). Failed: nothing but an
// answer to a challenge makes the path usable again.
enum class Validation : uint8_t { None, Pending, Done, Failed };
std::string_view to_string(PathState state);
PathState state_of(Validation validation, recovery::Health health);

// Share of a path's room reserved for the low-delay classes, so that they do not wait behind
// others.
inline constexpr uint64_t kReservedRoomBytes = uint64_t{16} * 1024;

// A set of traffic classes.
using ClassMask = uint8_t;
inline constexpr ClassMask kAllClasses = (1U << base::kTrafficClasses) - 1;
constexpr ClassMask mask_of(base::TrafficClass traffic_class) {
    return static_cast<ClassMask>(1U << base::index_of(traffic_class));
}

// What the paths of a session share.
struct PathContext {
    Role role;
    base::Random& random;
    base::MemoryBudget* memory;  // for the logs of datagrams under way; null: no limit
};

struct PathCounters {
    uint64_t received_datagrams = 0;
    uint64_t received_bytes = 0;       // outer IP packets
    uint64_t sent_bytes = 0;           // the same, of datagrams with packets
    uint64_t duplicate_datagrams = 0;  // arrived twice, in the direction that this end receives
    uint64_t answers = 0;              // to challenges
    base::Duration last_round_trip{};  // the latest answer's
};

// In the direction that this end sends, from acknowledgements (Delivery).
struct Measured {
    uint64_t bytes_per_s = 0;    // outer IP packets; 0: unknown
    bool is_full = false;        // a queue stands in it
    bool was_full = false;       // at the last measurement; else it may deliver far more
    std::optional<double> loss;  // fraction of datagrams; nothing: unknown
    uint64_t lost_datagrams = 0;
    uint64_t late_datagrams = 0;  // arrived after they had been declared lost
};

class Path {
  public:
    using Tuples = std::array<Tuple, base::kTrafficClasses>;
    // Asks::Question: a path that is validated stays so.
    enum class Asks : uint8_t { Validation, Question };
    // What a RESPONSE has changed.
    struct Answered {
        bool is_news = false;         // the path has become usable
        bool is_by_lt_ld = false;     // which speaks for the path
        bool was_announcing = false;  // its announcements had not been answered
        ClassMask remapped = 0;       // SNAPT: classes whose former mappings are gone
    };

    // `context` must outlive the path.
    Path(const PathContext& context, uint8_t index) : context_(context), index_(index) {}
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    ~Path() = default;

    // --- What is known
    PathState state() const {
        return state_of(validation_, is_node() ? liveness_.health() : recovery::Health::Usable);
    }
    bool is_failing() const { return state() == PathState::Doubtful || state() == PathState::Dead; }
    bool is_live() const { return state() != PathState::Unknown && state() != PathState::Dead; }
    Validation validation() const { return validation_; }
    // Answered a challenge since it was added or was last dead.
    bool has_answered() const { return has_answered_; }
    // A RESPONSE of lt-ld, or an ACK that came back by this path.
    base::TimePoint answered_at() const { return answered_at_; }
    base::TimePoint heard_at() const { return heard_at_; }
    base::TimePoint packets_sent_at() const { return packets_sent_at_; }
    // Of an outer IP packet, in the direction that this end sends.
    uint16_t mtu() const { return mtu_; }
    const recovery::MtuSearch& search() const { return search_; }
    const Tuples& tuples() const { return tuples_; }
    const Tuple& lt_ld() const { return tuples_[kLtLd]; }
    // In any class.
    bool is_known_at(const base::Endpoint& remote) const;
    const Announcer& announcer() const { return announcer_; }
    const recovery::Liveness& liveness() const { return liveness_; }
    const recovery::RttEstimator& rtt() const { return rtt_; }
    // Zero: no sample.
    base::Duration smoothed_rtt() const {
        return rtt_.has_sample() ? rtt_.smoothed() : base::Duration{};
    }
    base::Duration rtt_variation() const {
        return rtt_.has_sample() ? rtt_.variation() : base::Duration{};
    }
    base::Duration probe_timeout() const;
    const PathCounters& counters() const { return counters_; }
    const Measured& measured() const { return measured_; }
    const LifeRequests& life_requests() const { return life_requests_; }
    // Null for a path that carries no packets.
    const recovery::Delivery* delivery() const { return delivery_.get(); }
    recovery::Delivery* delivery() { return delivery_.get(); }
    // The ways that the classes take; null: each its own.
    const ClassWays* class_ways() const { return class_ways_.get(); }
    ClassWay way_of(base::TrafficClass traffic_class) const {
        return class_ways_ == nullptr ? ClassWay::Own : class_ways_->way(traffic_class);
    }
    // Node: datagrams of that class have taken another socket, so that the SNAPT sees them at
    // another address although nothing has moved.
    bool has_changed_socket(base::TrafficClass traffic_class, base::TimePoint now) const {
        return class_ways_ != nullptr &&
               class_ways_->has_taken_detour(traffic_class, kChallengeLifetime, now);
    }
    // Something that could have been acknowledged is not.
    bool has_unconfirmed_class(base::TimePoint now) const;
    // SNAPT: datagrams sent on the return path have been unanswered for long and may be lost.
    bool is_overdue(base::TimePoint now) const;
    // SNAPT: it was silent when the node announced another path, and has not been heard since.
    bool was_left_silent() const { return was_left_silent_; }
    // Node.
    KeepaliveLearner& keepalive() { return keepalive_; }
    const KeepaliveLearner& keepalive() const { return keepalive_; }
    // SNAPT.
    CopyRequest& copy_request() { return copy_request_; }
    const CopyRequest& copy_request() const { return copy_request_; }

    // --- Node
    void start(const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    // The path carries nothing until retry() is answered.
    void give_up();
    void retry(const base::Endpoint& remote, base::TimePoint now);
    // Dead; asks at growing intervals, like one that fell silent.
    void bury(base::TimePoint now);
    void announce(Asks asks, base::TimePoint now);
    void redirect(const base::Endpoint& remote);
    // Asks whether it works, unless a question is open.
    void probe(base::TimePoint now);
    void ask_again(base::TimePoint at);
    void ask(base::TimePoint now);
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    void on_keepalive(base::TimePoint idle_since, base::TimePoint now) {
        keepalive_.on_keepalive(now - idle_since, patience(), now);
    }
    void on_pause(bool is_active, base::TimePoint now);
    void expect_more(base::TimePoint now);

    // --- SNAPT
    // The node has announced another path, or this one.
    void on_left(base::TimePoint now);
    void on_chosen(base::TimePoint now);
    // A move has been announced here for the first time: the classes may have other mappings.
    void forget_other_tuples();
    void forget_remapping() { tuples_[kLtLd].forget_remapping(); }
    // That class is proven by other means: TCP proves an address by itself.
    void trust(base::TrafficClass traffic_class) { of(traffic_class).trust(); }

    // --- Both: datagrams
    // False if the datagram may not move the session's first path here.
    bool on_authenticated(base::TrafficClass traffic_class,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    void on_received(uint64_t outer_bytes) { counters_.received_bytes += outer_bytes; }
    void on_duplicate() { ++counters_.duplicate_datagrams; }
    Answered on_response(base::TrafficClass traffic_class,
                         const wire::ChallengeToken& token,
                         bool is_active,
                         base::TimePoint now);
    void
    on_sent(base::TrafficClass tuple_class, uint64_t bytes, bool wants_answer, base::TimePoint now);
    void on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now);
    void on_numbered(base::TrafficClass traffic_class,
                     const recovery::SentRun& run,
                     base::TimePoint now);
    // False if it is the same.
    bool set_limit(uint16_t mtu);
    // Bytes that may be sent before the sender has room again, kReservedRoomBytes of it only for
    // low-delay classes. Set for TCP, and for UDP while a socket is full.
    void set_room(uint64_t bytes) { room_bytes_ = bytes; }
    bool has_room(base::TrafficClass traffic_class) const {
        return room_for(traffic_class) >= mtu_;
    }
    std::optional<Destination>
    destination(base::TrafficClass traffic_class, ClassWay way, base::TimePoint now) const;

    // --- Both: acknowledgements
    // The log of what has left; made on demand.
    recovery::Delivery& log();
    // A run is repeated by another path. True if it was in the log.
    bool take_out(const recovery::SentRun& run);
    // After all ranges of a datagram. `came_back`: it came by this path; `has_answered`: and names
    // something for the first time. True if a doubt has ended (node).
    bool on_acks_read(bool came_back, bool has_answered, base::TimePoint now);
    // Nothing that has left by a class's way is missed.
    void forget_class_sendings();
    // Forgets acknowledgements that are too old, and frees memory.
    void tidy(base::TimePoint now);

    // --- Both: what it sends by itself
    // True when it just became doubtful or dead, or SNAPT misses a sign of life.
    bool on_time(bool is_active, base::TimePoint now);
    std::optional<Probe> next_probe(bool is_active, base::TimePoint now);
    std::optional<Probe> response_probe(const DueResponse& due, base::TimePoint now);
    // The challenge exceeds the tuple's limit; it is sent when more bytes were received.
    void on_withheld(const Probe& probe);
    base::TimePoint next_deadline(bool is_active) const;

  private:
    bool is_node() const { return context_.role == Role::Node; }
    bool is_tcp() const { return index_ == wire::kTcpPath; }
    Tuple& of(base::TrafficClass traffic_class) { return tuples_[base::index_of(traffic_class)]; }
    const Tuple& current_tuple() const;
    Probe probe_to(base::TrafficClass traffic_class) const;
    uint64_t room_for(base::TrafficClass traffic_class) const;
    base::Duration patience() const;
    void start_challenge(Tuple& tuple, Asks asks, base::TimePoint now);
    void question(bool is_active, base::TimePoint now);
    void hasten(base::TimePoint now);
    void move_tuple(base::TrafficClass traffic_class,
                    const base::Endpoint& from,
                    const base::Endpoint& local,
                    base::TimePoint now);
    ClassMask silent_classes(base::TimePoint now) const;
    void forget_delivery();
    // path_health.cpp
    uint64_t unacknowledged_bytes() const {
        return delivery_ != nullptr ? delivery_->unacknowledged_bytes() : 0;
    }
    bool is_judged() const;
    base::TimePoint health_deadline(bool is_active) const;
    base::TimePoint ping_deadline(bool is_active) const;
    base::TimePoint request_deadline(bool is_active) const;
    void on_health_due(bool is_active, base::TimePoint now);
    bool follow_health(bool was_doubtful, bool is_active, base::TimePoint now);
    void expect_answer(base::TimePoint now);
    void note_asked(base::TimePoint now);
    void confirm(base::TimePoint now);
    // path_probes.cpp
    std::optional<Probe> announcement(bool is_active, base::TimePoint now);
    std::optional<Probe> challenge_probe(base::TimePoint now);
    std::optional<Probe> class_probe(base::TimePoint now);
    std::optional<Probe> ping_probe();
    std::optional<Probe> mtu_probe(base::TimePoint now);
    bool asks_by_class() const;
    ClassWays::Times class_times() const;
    void note_class_sent(base::TrafficClass traffic_class,
                         const recovery::SentRun& run,
                         base::TimePoint now);
    void note_class_arrived(bool came_back, base::TimePoint now);

    const PathContext& context_;
    const uint8_t index_;
    Validation validation_ = Validation::None;
    bool has_answered_ = false;
    bool is_redirected_ = false;    // node: asked at another port, and not answered there yet
    bool was_asked_again_ = false;  // node: after its first answer
    bool is_ping_due_ = false;
    bool was_left_silent_ = false;
    uint16_t mtu_ = recovery::MtuSearch::kLargest;
    uint64_t room_bytes_ = UINT64_MAX;
    base::TimePoint packets_sent_at_{};
    base::TimePoint heard_at_{};
    base::TimePoint answered_at_{};
    Tuples tuples_;
    Announcer announcer_;
    LifeRequests life_requests_;
    CopyRequest copy_request_;
    KeepaliveLearner keepalive_;
    recovery::Liveness liveness_;
    recovery::RttEstimator rtt_;
    recovery::MtuSearch search_;
    PathCounters counters_;
    Measured measured_;
    // Null for a path that carries no packets.
    std::unique_ptr<recovery::Delivery> delivery_;
    // Null likewise, and for TCP; kept while the path is in the same network.
    std::unique_ptr<ClassWays> class_ways_;
};

}  // namespace continuo::path
