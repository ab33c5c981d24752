// Looks up the name of a SNAPT, beside the tunnel. First the host's own table of names, then the
// name servers that the host has without the tunnel: sockets with the tunnel's mark are never
// captured. Last comes whatever the C library knows, which may go through the tunnel. Blocking, for
// seconds: on a helper thread. docs/DECISIONS.md.
#pragma once

#include "common/base/ip_address.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

struct LookupPlaces {
    std::vector<base::IpAddress> original;  // from the helper, for when resolv.conf is ours
    std::vector<base::IpAddress> servers;   // those of the configuration
    uint32_t fwmark = 0;
    std::string resolv_conf = "/etc/resolv.conf";
    std::string resolved_conf = "/run/systemd/resolve/resolv.conf";
    std::string hosts = "/etc/hosts";
    uint16_t port = 53;
};

// Addresses of both versions; none when there are none.
std::vector<base::IpAddress> look_up(const std::string& name, const LookupPlaces& places);

// The NAT64 prefix of the network that the host is in, as its name servers tell it (RFC 7050);
// none: there is none, or nobody answers. Blocking, as look_up().
std::optional<base::IpPrefix> find_nat64_prefix(const LookupPlaces& places);

// Whether that server answers questions for names: not when it refuses or is silent. Whether there
// is such a name does not matter. Blocking, for a second or two.
bool answers_names(const base::Endpoint& server,
                   uint32_t fwmark,
                   const std::string& name = "example.org");

// The parts of it.
std::vector<base::IpAddress> find_in_hosts(std::string_view text, std::string_view name);
// The name servers to ask, in this order.
std::vector<base::IpAddress> servers_beside_tunnel(const LookupPlaces& places);

}  // namespace continuo::cnapt
