// SessionUpkeep: what is stored while sessions are here, and at their end: renewed leases, and when
// keys were last in use.
#pragma once

#include "snapt/relay/relay.hpp"
#include "snapt/users/admission_parts.hpp"

namespace continuo::snapt::users {

// Offset of the wall clock from `now`: changes when the clock is set.
int64_t wall_clock_offset_us(base::TimePoint now);

class SessionUpkeep {
  public:
    // `parts` must outlive it.
    explicit SessionUpkeep(const AdmissionParts& parts);
    void on_tick(const relay::Relay& relay);
    void on_session_closed(const relay::NodeSession& session);
    // For the last time; waits for the disk. Sessions that close afterwards renew nothing.
    void finish(const relay::Relay& relay);
    // In the user store, for the keys of all sessions.
    void note_seen(const relay::Relay& relay);

  private:
    // At intervals: a node that only continues requests no lease, and would lose its own after a
    // crash of the SNAPT.
    void renew_leases();
    void release_lease(const relay::SessionGrant& grant);
    void note_seen(const relay::NodeSession& session);
    void write_seen(const relay::Relay& relay);

    const AdmissionParts& parts_;
    base::TimePoint leases_renewed_at_;
    base::TimePoint seen_written_at_;
    int64_t clock_offset_us_;  // the wall clock's, at the last renewal of leases
    bool has_finished_ = false;
};

}  // namespace continuo::snapt::users
