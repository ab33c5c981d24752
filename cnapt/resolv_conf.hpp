// The text of resolv.conf (resolv.conf(5)): what name servers it names, and the one that takes its
// place while names are looked up through the tunnel. Pure.
#pragma once

#include "common/base/ip_address.hpp"

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

inline constexpr std::string_view kResolvConf = "/etc/resolv.conf";
// More are not asked by the C library.
inline constexpr size_t kMaxNameServers = 3;
inline constexpr size_t kMaxResolvConfBytes = size_t{64} << 10;

// Addresses of `nameserver` lines; what is none (a zone such as %eth0 too) is passed over.
std::vector<base::IpAddress> name_servers(std::string_view text);

// The file that replaces `original` (any bytes): `servers`, and the original's search list and
// options, but for trust-ad, which was said of other servers. `saved`: where the original is.
std::string resolv_conf_through(std::span<const base::IpAddress> servers,
                                std::string_view original,
                                std::string_view saved);

// Made by the function above, also by another run.
bool is_resolv_conf_of_tunnel(std::string_view text);
// `saved` of such a text; empty when there is none.
std::string_view kept_place(std::string_view text);

// systemd-resolved's stub is the only server.
bool is_stub_of_resolved(std::string_view text);

}  // namespace continuo::cnapt
