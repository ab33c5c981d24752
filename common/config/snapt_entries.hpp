// [[snapt]] tables: SNAPTs by name and addresses, those that a node begins with, and those that a
// SNAPT tells its nodes of.
#pragma once

#include "common/config/keys.hpp"
#include "common/config/section.hpp"
#include "common/config/values.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace continuo::config {

struct SnaptEntry {
    std::string name;
    std::vector<HostPort> addresses;
    // The key with which that SNAPT reads the identity; none: the identity is in clear.
    std::optional<Key> identity_key{};

    bool operator==(const SnaptEntry&) const = default;
};

// Each name once. `read_more` reads keys that only one of the programs knows.
std::vector<SnaptEntry>
read_snapt_entries(Section& root,
                   const std::function<void(Section& section, SnaptEntry& entry)>& read_more);

}  // namespace continuo::config
