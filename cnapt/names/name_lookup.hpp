// Looks up the name of a SNAPT outside the tunnel. Sources in order: the host's own table of names;
// its name servers without the tunnel, by sockets with the tunnel's mark, which are never captured;
// finally the C library, which may use the tunnel. Blocks for seconds: use a helper thread.
// docs/DECISIONS.md.
#pragma once

#include "common/base/ip_address.hpp"
#include "common/base/time.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::names {

// Longest wait for a name server's answer to one question. A choice, not measured.
inline constexpr base::Duration kNameAnswerTime = base::milliseconds(1500);

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

// The NAT64 prefix of the host's network, from its name servers (RFC 7050); none: there is none, or
// nobody answers. Blocks like look_up().
std::optional<base::IpPrefix> find_nat64_prefix(const LookupPlaces& places);

// Whether that server answers questions for names: not if it refuses or is silent. Whether the name
// exists does not matter. Blocks for a second or two.
bool answers_names(const base::Endpoint& server,
                   uint32_t fwmark,
                   const std::string& name = "example.org");

// The parts of look_up().
std::vector<base::IpAddress> find_in_hosts(std::string_view text, std::string_view name);
// The name servers to ask, in this order.
std::vector<base::IpAddress> servers_beside_tunnel(const LookupPlaces& places);

}  // namespace continuo::cnapt::names
