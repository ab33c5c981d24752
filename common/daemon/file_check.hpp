// Checks of files beside their text, for `check`: who may read them, and whether the files that the
// configuration names can be written.
#pragma once

#include "common/config/debug_section.hpp"
#include "common/config/diagnostic.hpp"

#include <string>
#include <vector>

namespace continuo::daemon {

// Warnings about the mode of a file: `user`, the daemon's, must be able to read it where there is
// such a user, and with `holds_key` not everybody.
void check_readers(const std::string& path,
                   bool holds_key,
                   const char* user,
                   std::vector<config::Diagnostic>& found);

// Errors for files that `run` could not write; `file` is the configuration.
void check_recordings(const config::DebugConfig& debug,
                      const std::string& file,
                      std::vector<config::Diagnostic>& found);

}  // namespace continuo::daemon
