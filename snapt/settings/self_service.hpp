// SelfService: a service of the SNAPT's own host that nodes may use, from `relay.allow_self` of
// snapt.toml. Pure.
#pragma once

#include "common/config/section.hpp"
#include "common/config/values.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::snapt::settings {

// Most entries of `allow_self`. A choice, not measured.
inline constexpr size_t kMaxSelfServices = 64;

struct SelfService {
    enum class Kind : uint8_t { Tcp, Udp, Ping };

    Kind kind = Kind::Tcp;
    config::PortRange ports;  // not for Ping

    // "tcp/22", "udp/5000-5010" or "ping", which is the echo of ICMP and ICMPv6.
    static std::optional<SelfService> parse(std::string_view text);
    std::string to_string() const;
    bool operator==(const SelfService&) const = default;
};

// The list of key "allow_self". Errors go to the section's sink.
std::vector<SelfService> read_self_services(config::Section& section);

// nftables rules, one per line, that accept packets to these services.
std::string self_service_rules(const std::vector<SelfService>& services);

}  // namespace continuo::snapt::settings
