// Asks name servers both ways at once: through the tunnel and beside it. Blocking, for kProbeTime
// at most: on a helper thread. Silence in the tunnel counts only if the tunnel works meanwhile,
// which the caller knows.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt {

// One that answers beside the tunnel has so long to answer through it; the question is put three
// times. As long as a look-up waits for an answer (name_lookup.hpp).
inline constexpr base::Duration kProbeTime = base::milliseconds(1500);
// The first time one that is silent both ways is waited for no longer: capture waits for that. A
// choice, not measured.
inline constexpr base::Duration kBesideTime = base::milliseconds(300);

struct ResolverProbe {
    std::vector<base::IpAddress> servers;
    std::string device;    // of the tunnel
    base::IpAddress ipv4;  // its addresses
    base::IpAddress ipv6;
    uint32_t fwmark = 0;  // of sockets beside it
    bool asks_beside = true;
    base::Duration beside_time = kProbeTime;  // the longest wait for one that is silent both ways
    uint16_t port = 53;
};

enum class ResolverWay : uint8_t {
    Unknown,  // it answers neither way, or could not be asked through the tunnel
    Tunnel,
    Beside,  // there alone; where that is not asked: not through the tunnel
};

// One for each server. A refusal or failure is no answer.
std::vector<ResolverWay> probe_resolvers(const ResolverProbe& probe);

}  // namespace continuo::cnapt
