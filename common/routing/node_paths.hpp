// NodePaths: what only a node does with the paths of a session: it adds and removes them, moves the
// session, asks SNAPT for copies and withdraws what has ended (docs/PROTOCOL.md sections 5.3 and
// 5.4). What concerns one path alone is path::NodePath's. Pure.
#pragma once

#include "common/routing/path_selector.hpp"
#include "common/routing/path_table.hpp"
#include "common/routing/withdrawals.hpp"

#include <optional>

namespace continuo::routing {

class NodePaths {
  public:
    // `table` must outlive this object.
    explicit NodePaths(PathTable& table) : table_(table) {}

    void add(uint8_t index, const base::Endpoint& remote, uint16_t mtu, base::TimePoint now);
    void remove(uint8_t index);
    // Moves the session to this path: announcements leave at once, whether or not there is data.
    void activate(uint8_t index, base::TimePoint now);
    // A hint that the path may not work: asks it, by a PING if it is the active one.
    void ask(uint8_t index, base::TimePoint now);
    // SNAPT misses a sign of life; the node has had nothing to send since `idle_since`. If nothing
    // comes in either, the NAT mapping may be gone: announces the node. Packets that follow at once
    // show that they had been lost. False: the path works or is being asked already.
    bool on_request(base::TimePoint idle_since, base::TimePoint now);
    // Moves the active path to another port of the SNAPT and announces it there.
    void redirect(const base::Endpoint& remote, base::TimePoint now);
    // Announces the active path once more, for instance after a route appeared.
    void announce_again(base::TimePoint now);
    // Paths that are not active are used as well: asks those that have not answered yet, and each
    // that was not heard for `longest`. This keeps mappings alive and detects dead paths.
    void keep_ready(base::Duration longest, base::TimePoint now);
    // This end was suspended: unanswered datagrams were not waited for, and mappings may be gone.
    // Announces the active path and asks the others, except dead ones.
    void on_pause(base::TimePoint now);
    // How often a TCP connection was activated. What was in the one before is lost.
    uint32_t connections() const { return connections_; }

    // --- By PathSet
    // True when this made the path usable, or when the active path fails and this one may take its
    // place.
    bool on_answered(uint8_t index, const Path::Answered& answered);
    // Datagrams with packets left on the path.
    void on_sent(uint8_t index, base::TimePoint now);
    // The active path is in doubt: asks those that may have to replace it or take its copies.
    void ask_others(base::TimePoint now);
    // Adds to the probe what concerns the session beside its own path.
    void complete(Probe& probe, const PathSelector& selector, base::TimePoint now) const;
    // Whether withdrawals may be sent: the active path has answered, so SNAPT has left the old one.
    bool has_withdrawals() const;
    std::optional<Probe> withdrawal();

  private:
    bool has_failing_active(uint8_t index) const;
    wire::Announce copies_frame(uint8_t path) const;

    PathTable& table_;
    uint32_t connections_ = 0;
    Withdrawals withdrawals_;
    bool tells_withdrawals_ = false;  // SNAPT may use paths that are not active
};

}  // namespace continuo::routing
