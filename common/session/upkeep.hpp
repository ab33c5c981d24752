// Upkeep: whether packets use a session, a node's keepalives while none do, and its questions to
// the paths held in reserve while some do. Pure.
#pragma once

#include "common/session/path_set.hpp"
#include "common/session/session_flows.hpp"
#include "common/session/session_types.hpp"

namespace continuo::session {

class Upkeep {
  public:
    // All arguments must outlive this object.
    Upkeep(const SessionSettings& settings, PathSet& paths, SessionFlows& flows)
        : settings_(settings), paths_(paths), flows_(flows) {}

    // Packets were sent or received.
    void note_use(base::TimePoint now);
    // A datagram of lt-ld left on the active path.
    void on_lt_ld_sent(base::TimePoint now) { kept_alive_at_ = now; }
    // The last such datagram.
    base::TimePoint idle_since() const { return kept_alive_at_; }

    // --- Keepalives
    // None while there is no flow. The next packet creates a new NAT mapping.
    void keep_alive_for_flows_only() { keeps_idle_alive_ = false; }
    // A datagram of lt-ld leaves as soon as the active path has room.
    void send_keepalive() { is_keepalive_due_ = true; }
    // The other end asks, over control, for a datagram at once.
    void request_keepalive(base::TimePoint now);
    bool is_keepalive_due() const { return is_keepalive_due_; }
    // It is about to leave.
    void on_keepalive(base::TimePoint now);
    // When the next one is due; kNever: none, or it is due already.
    base::TimePoint keepalive_at() const;

    // --- Paths
    // Call before datagrams leave: asks paths in reserve when their first flow begins to use them.
    void on_poll(base::TimePoint now);
    void on_timeout(base::TimePoint now);
    // Call once a second.
    void tend_paths(base::TimePoint now);

  private:
    bool is_used(base::TimePoint now) const;
    void keep_paths_ready(base::TimePoint now);

    const SessionSettings& settings_;
    PathSet& paths_;
    SessionFlows& flows_;
    base::TimePoint packets_at_{};     // in either direction
    base::TimePoint kept_alive_at_{};  // last datagram of lt-ld on the active path
    bool is_keepalive_due_ = false;
    bool keeps_idle_alive_ = true;
    bool is_newly_used_ = false;
};

}  // namespace continuo::session
