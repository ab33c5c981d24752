// The SNAPT as a daemon: wiring of control, relay, accounting and commands. docs/OPERATIONS.md.
#pragma once

#include "common/daemon/startup.hpp"

namespace continuo::snapt {

// Runs until SIGTERM or SIGINT. Gives the exit code: 0, 1 (cannot start), 78 (bad configuration).
// An error is reported on stderr in one sentence.
// `may_begin_anew`: a damaged database is moved aside and replaced by an empty one.
int run_daemon(const daemon::RunOptions& options, bool may_begin_anew = false);

}  // namespace continuo::snapt
