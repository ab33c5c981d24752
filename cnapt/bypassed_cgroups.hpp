// BypassedCgroups: the cgroups whose sockets are marked, so that a routing rule leaves them out of
// the tunnel (classifier::Ruleset::bypassed_cgroups, bypass_mark). They are what the policy named
// at the start, since what marking takes is given up then; a reload can only let some go.
#pragma once

#include "common/io/socket_marker.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace continuo::cnapt {

class BypassedCgroups {
  public:
    // At the start, with its rights. One that cannot be marked is a warning.
    void mark(const std::vector<std::string>& cgroups, uint32_t mark);
    // Lets those go that are not in `wanted`, which is sorted. True when there are others in it,
    // for which a restart is needed.
    bool keep_only(const std::vector<std::string>& wanted);

  private:
    std::map<std::string, std::optional<io::SocketMarker>> markers_;  // empty: it was not possible
};

}  // namespace continuo::cnapt
