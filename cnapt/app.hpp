// cnapt as a daemon: wiring of the node's data path, control links, capture and commands.
// docs/OPERATIONS.md.
#pragma once

#include "common/daemon/startup.hpp"

namespace continuo::cnapt {

struct RunOptions : daemon::RunOptions {
    std::string policy;  // empty: as the configuration says
};

// Runs until SIGTERM or SIGINT. Gives the exit code: 0, 1 (cannot start), 78 (bad configuration).
// An error is reported on stderr in one sentence.
int run_daemon(const RunOptions& options);

}  // namespace continuo::cnapt
