// [debug], which both daemons have: recordings for people who look into the tunnel.
#pragma once

#include "common/config/section.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::config {

inline constexpr uint64_t kDefaultCaptureBytes = uint64_t{256} << 20;

struct DebugConfig {
    std::string capture_file;  // empty: none
    uint64_t capture_limit_bytes = kDefaultCaptureBytes;
    std::string capture_keys_file;  // empty: none
    // Position in the configuration file, for errors found only when the files are opened.
    Place capture_file_place;
    Place capture_keys_file_place;

    // Applies to every recording, wherever it is written.
    bool operator==(const DebugConfig& other) const {
        return capture_file == other.capture_file &&
               capture_limit_bytes == other.capture_limit_bytes &&
               capture_keys_file == other.capture_keys_file;
    }
};

// Reads [debug] of `root`.
DebugConfig read_debug(Section& root);
// Keys such as "debug.capture_file" whose values differ.
std::vector<std::string> changed_debug_keys(const DebugConfig& from, const DebugConfig& to);

}  // namespace continuo::config
