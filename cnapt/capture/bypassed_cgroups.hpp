// BypassedCgroups: the cgroups whose sockets are marked, so that a routing rule keeps them out of
// the tunnel (classifier::Ruleset::bypassed_cgroups, bypass_mark). They are those that the policy
// named at the start, since the rights to mark are given up then; a reload can only remove some.
#pragma once

#include "common/process/socket_marker.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace continuo::cnapt::capture {

class BypassedCgroups {
  public:
    // Call at the start, with root's rights. A cgroup that cannot be marked gives a warning.
    void mark(const std::vector<std::string>& cgroups, uint32_t mark);
    // Releases the cgroups that are not in `wanted`, which is sorted. True when `wanted` holds
    // others, for which a restart is needed.
    bool keep_only(const std::vector<std::string>& wanted);

  private:
    std::map<std::string, std::optional<process::SocketMarker>> markers_;  // empty: not possible
};

}  // namespace continuo::cnapt::capture
