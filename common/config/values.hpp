// Forms of values that both daemons' files use: HOST:PORT, names, interface names and globs, port
// ranges.
#pragma once

#include "common/base/ip_address.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace continuo::config {

inline constexpr uint16_t kDefaultPort = 9347;
inline constexpr size_t kMaxNameBytes = 64;       // user, node, SNAPT, realm; HOST_NAME_MAX
inline constexpr size_t kMaxInterfaceBytes = 15;  // IFNAMSIZ without the zero

// "203.0.113.9:9347", "[2001:db8::9]:9347", "snapt.example.org:9347"; without a port the default
// one.
struct HostPort {
    std::string host;  // an address in its canonical form, without brackets, or a name
    uint16_t port = kDefaultPort;

    static std::optional<HostPort> parse(std::string_view text);
    // The endpoint, when `host` is an address.
    std::optional<base::Endpoint> endpoint() const;
    std::string to_string() const;
    bool operator==(const HostPort&) const = default;
};

// "1024-65535", or one port; never port 0, which no service has.
struct PortRange {
    uint16_t first = 0;
    uint16_t last = 0;

    static std::optional<PortRange> parse(std::string_view text);
    std::string to_string() const;
    bool operator==(const PortRange&) const = default;
};

// Checks for Section::text: nothing when good, else what was expected.
std::optional<std::string_view> check_name(std::string_view text);
std::optional<std::string_view> check_interface(std::string_view text);
std::optional<std::string_view> check_interface_glob(std::string_view text);
std::optional<std::string_view> check_not_empty(std::string_view text);

// An address that one host may have: neither unspecified, multicast nor broadcast.
bool is_unicast(const base::IpAddress& address);

// A line of a rendered file: `text`, and `comment`, if any, from `column` on.
std::string commented_line(std::string text, std::string_view comment, size_t column);

inline constexpr std::string_view kHostPortForm =
    "ADDRESS:PORT, [ADDRESS]:PORT or NAME:PORT, port 1 to 65535";
inline constexpr std::string_view kEndpointForm = "ADDRESS:PORT or [ADDRESS]:PORT, port 1 to 65535";
inline constexpr std::string_view kPrefixForm =
    "an IP prefix such as \"192.0.2.0/24\", host bits zero";

}  // namespace continuo::config
