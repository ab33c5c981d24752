// cnapt as a daemon: wiring of the node's data path, control links, capture and commands.
// docs/OPERATIONS.md.
#pragma once

#include <string>

namespace continuo::cnapt {

struct RunOptions {
    std::string config;
    std::string policy;  // empty: as the configuration says
    std::string socket;
    std::string state;
    bool verbose = false;
};

// Runs until SIGTERM or SIGINT. Gives the exit code: 0, 1 (cannot start), 78 (bad configuration).
// What is wrong is said on stderr in one sentence.
int run_daemon(const RunOptions& options);

}  // namespace continuo::cnapt
