// The text of resolv.conf (resolv.conf(5)): its name servers, and the text that replaces it while
// names are looked up through the tunnel. Pure.
#pragma once

#include "common/base/ip_address.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::names {

inline constexpr std::string_view kResolvConf = "/etc/resolv.conf";
inline constexpr size_t kMaxResolvConfBytes = size_t{64} << 10;

// Addresses in `nameserver` lines; other values, also with a zone such as %eth0, are skipped.
std::vector<base::IpAddress> name_servers(std::string_view text);

// The text that replaces `original` (any bytes): `servers`, and the original's search list and
// options except trust-ad, which applied to other servers. `saved`: path of the original.
std::string resolv_conf_through(std::span<const base::IpAddress> servers,
                                std::string_view original,
                                std::string_view saved);

// True for a text from the function above, also from another run.
bool is_resolv_conf_of_tunnel(std::string_view text);
// `saved` of such a text; empty if there is none.
std::string_view kept_place(std::string_view text);

// systemd-resolved's stub is the only server.
bool is_stub_of_resolved(std::string_view text);

}  // namespace continuo::cnapt::names
