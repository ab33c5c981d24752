// Path: all that one end knows of one path of a session (docs/PROTOCOL.md section 5), and what it
// sends there by itself. An object lasts until the path ends. Pure: announcements, challenges and
// responses to send come out of next_probe().
//
// The state follows from PathValidation and from Liveness, which says whether what is owed is
// acknowledged in time. At SNAPT Liveness changes no state: the node moves, and SNAPT asks for a
// sign of life over control.
//
//   state        None: Unknown. Failed: Dead. Pending: Challenged. Done: Usable. The last two are
//                Doubtful where health is not Usable.
//
// SNAPT sends at most three times the bytes received to a tuple that has not answered a challenge.
#pragma once

#include "common/path/node_path.hpp"
#include "common/path/path_parts.hpp"
#include "common/path/snapt_path.hpp"

#include <optional>
#include <variant>

namespace continuo::path {

class Path {
  public:
    // The changes that a RESPONSE has made.
    struct Answered {
        bool is_news = false;         // the path has become usable
        bool is_by_lt_ld = false;     // which speaks for the path
        bool was_announcing = false;  // its announcements had not been answered
        ClassMask remapped = 0;       // SNAPT: classes whose former mappings are gone
    };

    // `context` must outlive the path.
    Path(const PathContext& context, uint8_t index);
    Path(const Path&) = delete;
    Path& operator=(const Path&) = delete;
    ~Path() = default;

    // --- What is known
    PathState state() const { return parts_.state(); }
    // The size of outer IP packets, in the direction that this end sends.
    uint16_t mtu() const { return parts_.search.size(); }
    const recovery::MtuSearch& mtu_search() const { return parts_.search; }
    const PathValidation& validation() const { return parts_.validation; }
    const recovery::Liveness& liveness() const { return parts_.liveness; }
    const PathTraffic& traffic() const { return parts_.traffic; }
    const PathFeedback& feedback() const { return parts_.feedback; }
    // For numbers that leave, and acknowledgements (routing::PathLogs).
    PathFeedback& feedback() { return parts_.feedback; }

    // --- What only one end does. The other must not call it.
    NodePath& node();
    const NodePath& node() const;
    SnaptPath& snapt();
    const SnaptPath& snapt() const;

    // --- Datagrams
    // False if the datagram may not move the session's first path here.
    bool on_authenticated(base::TrafficClass traffic_class,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    void on_received(uint64_t outer_bytes) { parts_.traffic.on_received(outer_bytes); }
    void on_duplicate() { parts_.traffic.on_duplicate(); }
    Answered on_response(base::TrafficClass traffic_class,
                         const wire::ChallengeToken& token,
                         bool is_active,
                         base::TimePoint now);
    void
    on_sent(base::TrafficClass tuple_class, uint64_t bytes, bool wants_answer, base::TimePoint now);
    void on_data_sent(uint32_t outer_bytes, uint64_t total_bytes, base::TimePoint now);
    // Sets the largest MTU. False if it is the same.
    bool set_limit(uint16_t mtu);
    // Bytes that may be sent before the sender has room again, kReservedRoomBytes of it only for
    // low-delay classes. Set for TCP, and for UDP while a socket is full.
    void set_room(uint64_t bytes) { parts_.traffic.set_room(bytes); }
    // Where traffic of that class goes; nothing when no tuple of the path is known.
    std::optional<Destination> destination(base::TrafficClass traffic_class,
                                           base::TimePoint now) const;

    // --- Acknowledgements
    // After all ranges of a datagram. `came_back`: it came by this path; `has_answered`: and names
    // something for the first time. True if a doubt has ended (node).
    bool on_acks_read(bool came_back, bool has_answered, base::TimePoint now);
    // Forgets acknowledgements that are too old, and frees memory.
    void tidy(base::TimePoint now);

    // --- What it sends by itself
    // True when it just became doubtful or dead, or SNAPT misses a sign of life.
    bool on_time(bool is_active, base::TimePoint now);
    std::optional<Probe> next_probe(bool is_active, base::TimePoint now);
    std::optional<Probe> response_probe(const DueResponse& due, base::TimePoint now);
    // The challenge exceeds the tuple's limit; it is sent when more bytes were received.
    void on_withheld(const Probe& probe);
    base::TimePoint next_deadline(bool is_active) const;

  private:
    using RolePath = std::variant<NodePath, SnaptPath>;
    static RolePath make_role(PathParts& parts);

    // Null at the other end.
    NodePath* as_node() { return std::get_if<NodePath>(&role_); }
    const NodePath* as_node() const { return std::get_if<NodePath>(&role_); }
    SnaptPath* as_snapt() { return std::get_if<SnaptPath>(&role_); }
    const SnaptPath* as_snapt() const { return std::get_if<SnaptPath>(&role_); }
    bool is_announcing() const { return as_node() != nullptr && node().announcer().is_running(); }
    std::optional<Destination>
    destination_by(base::TrafficClass traffic_class, ClassWay way, base::TimePoint now) const;
    // path_health.cpp
    bool is_judged() const;
    base::TimePoint health_deadline(bool is_active) const;
    base::TimePoint ping_deadline(bool is_active) const;
    void on_health_due(bool is_active, base::TimePoint now);
    void expect_answer(base::TimePoint now);
    void confirm(base::TimePoint now);
    // path_probes.cpp
    std::optional<Probe> challenge_probe(base::TimePoint now);
    std::optional<Probe> class_probe(base::TimePoint now);
    std::optional<Probe> ping_probe();
    std::optional<Probe> mtu_probe(base::TimePoint now);
    bool asks_by_class() const;

    PathParts parts_;
    RolePath role_;
};

}  // namespace continuo::path
