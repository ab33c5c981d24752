// The paths of a session as policy::PathManager is told of them, and its questions asked there
// (docs/PATHS.md, One model of the choice).
#pragma once

#include "common/tunnel/session.hpp"
#include "policy/path_views.hpp"

namespace continuo::cnapt::node {

// Index of the path that the candidate stands for.
constexpr uint8_t path_of(const policy::Candidate& candidate) {
    return candidate.transport == policy::Transport::Tcp ? wire::kTcpPath : candidate.uplink;
}

// The session has a path by that uplink.
bool is_added(const path::Path& path);

// The path by the uplink in `slot`, over UDP. Bytes and losses downward are the session's, since
// only the path in use is judged by them.
policy::PathView view_of_udp(const tunnel::Session& session, uint8_t slot);
// The open connection by that uplink; it has answered when it was made. `is_stuck`: TCP gets
// nothing through (io::TcpStall), so it is doubtful before the session can know.
policy::PathView
view_of_tcp(const tunnel::Session& session, uint8_t slot, base::TimePoint opened_at, bool is_stuck);

// One question, by UDP, at that address.
void ask_path(routing::PathSet& paths, const policy::Candidate& candidate, base::TimePoint now);
// Moves the session there.
void move_to(routing::PathSet& paths, const policy::Candidate& candidate, base::TimePoint now);

}  // namespace continuo::cnapt::node
