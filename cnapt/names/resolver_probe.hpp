// Asks name servers both ways at once: through the tunnel and outside it. Blocks for at most
// kProbeTime: on a helper thread. Silence in the tunnel counts only if the tunnel works meanwhile,
// which the caller knows.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"

#include <string>
#include <vector>

namespace continuo::cnapt::names {

// A server that answers outside the tunnel has this long to answer through it; the question is sent
// three times. Equal to a look-up's wait for an answer (name_lookup.hpp).
inline constexpr base::Duration kProbeTime = base::milliseconds(1500);
// Limit of the first wait for a server that is silent both ways: capture waits for it. A choice,
// not measured.
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
    Beside,  // only outside; where that is not asked: not through the tunnel
};

// One result per server. A refusal or failure is no answer.
std::vector<ResolverWay> probe_resolvers(const ResolverProbe& probe);

}  // namespace continuo::cnapt::names
