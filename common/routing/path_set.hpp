// PathSet: the paths of one session, and what both ends do with several of them (docs/PROTOCOL.md
// section 5). What concerns one alone is path::Path's. The node adds paths and chooses the active
// one (NodePaths); SNAPT learns them from authenticated datagrams and follows announcements
// (SnaptPaths). PathSelector says which path a datagram takes, PathLogs reads acknowledgements.
// Pure: announcements, challenges and responses to send come out of next_probe().
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/random.hpp"
#include "common/base/time.hpp"
#include "common/base/traffic_class.hpp"
#include "common/routing/due_responses.hpp"
#include "common/routing/node_paths.hpp"
#include "common/routing/path_logs.hpp"
#include "common/routing/path_selector.hpp"
#include "common/routing/path_table.hpp"
#include "common/routing/snapt_paths.hpp"
#include "common/wire/frame.hpp"

#include <optional>
#include <utility>
#include <variant>

namespace continuo::routing {

class PathSet {
  public:
    // `memory`: budget for the logs of datagrams under way (recovery::SentLog); null: no limit.
    PathSet(Role role, base::Random& random, base::MemoryBudget* memory = nullptr);

    std::optional<uint8_t> active() const { return table_.active; }
    const Path& path(uint8_t index) const { return table_.paths[index]; }
    Path& path(uint8_t index) { return table_.paths[index]; }
    // Null: none.
    const Path* active_path() const {
        return table_.active ? &table_.paths[*table_.active] : nullptr;
    }
    Path* active_path() { return table_.active ? &table_.paths[*table_.active] : nullptr; }
    uint16_t announcement_number() const { return table_.announcement_number; }
    // Whether the peer is at `from`, judged by its latest authenticated datagrams.
    bool is_known(const base::Endpoint& from) const;
    // Largest smoothed RTT of the paths in use.
    base::Duration largest_rtt() const;
    // Node: how often a TCP connection was activated. What was in the one before is lost.
    uint32_t connections() const;

    // --- Parts
    const PathSelector& selector() const { return selector_; }
    PathLogs& logs() { return logs_; }
    const PathLogs& logs() const { return logs_; }
    // The other end must not call it.
    NodePaths& node();
    SnaptPaths& snapt();

    // --- Datagrams
    // An authenticated datagram of `bytes` outer bytes arrived. `is_highest`: it has the highest
    // number of its space so far; only then may it move the tuple. Sends a challenge to a new
    // tuple.
    void on_authenticated(const wire::Space& space,
                          const base::Endpoint& from,
                          const base::Endpoint& local,
                          uint64_t bytes,
                          bool is_highest,
                          base::TimePoint now);
    // `is_doubted`: it asks for a size or a way, or repeats, so that its answer leaves without
    // DSCP. `is_mere_question`: it asks for a size or a way; such are answered in their order, and
    // after all others, of which the newest is the best sample.
    void on_challenge(const wire::Space& space,
                      const wire::Challenge& challenge,
                      bool was_padded,
                      bool is_doubted,
                      bool is_mere_question = false) {
        responses_.push({space, {challenge.token}, was_padded, is_doubted}, is_mere_question);
    }
    // True when this made the path usable, or (node) when the active path fails and this one may
    // take its place.
    bool on_response(const wire::Space& space, const wire::Response& response, base::TimePoint now);
    // `wants_answer`: the datagram carries packets, so an answer should come, if only to a
    // challenge.
    void
    on_sent(const Destination& destination, uint64_t bytes, bool wants_answer, base::TimePoint now);
    // A run of datagrams of one space left.
    void on_numbered(const recovery::SentRun& run, base::TimePoint now);
    // The sender's queues are empty.
    void on_app_limited();
    // Sets the MTU of the path's uplink. A node tells SNAPT when it changes.
    void set_mtu(uint8_t index, uint16_t mtu, base::TimePoint now);
    // The own host refuses datagrams of this size: the path takes the next smaller usual size.
    void on_too_big(uint8_t index, uint32_t outer_bytes, base::TimePoint now);
    // A black hole was found on a path since the last call.
    bool take_narrowed() { return std::exchange(has_narrowed_, false); }

    // --- What the paths send by themselves
    // Checks the paths for silence. Returns one that just became doubtful or dead, or on which
    // SNAPT misses a sign of life; at most one per call.
    std::optional<uint8_t> on_time(base::TimePoint now);
    std::optional<Probe> next_probe(base::TimePoint now);
    base::TimePoint next_deadline() const;

  private:
    using RolePaths = std::variant<NodePaths, SnaptPaths>;
    static RolePaths make_role(PathTable& table);

    // Null at the other end.
    NodePaths* as_node() { return std::get_if<NodePaths>(&role_); }
    const NodePaths* as_node() const { return std::get_if<NodePaths>(&role_); }

    PathTable table_;
    PathLogs logs_{table_.paths};
    PathSelector selector_{table_};
    RolePaths role_;
    DueResponses responses_;
    bool has_narrowed_ = false;
};

}  // namespace continuo::routing
