// Checks of files for both programs' `doctor`: who may read keys, who may write files that a daemon
// trusts, and whether the daemon's user can work with them.
#pragma once

#include "common/report/findings.hpp"

#include <string>
#include <vector>

namespace continuo::daemon {

struct CheckedFiles {
    // Files that the daemon reads; missing ones are passed over.
    std::vector<std::string> secrets;  // with keys
    std::vector<std::string> read;     // without
    std::vector<std::string> kept;     // with keys, in its state folder
    std::string state;                 // folder
    std::string socket;                // the command socket
    const char* user = "";             // whom the daemon becomes
};

// Findings "files": one for each fault, or one that there is none.
void check_files(const CheckedFiles& files, report::Findings& findings);

}  // namespace continuo::daemon
