// IP addresses, endpoints and prefixes as values, without the socket interface. IPv4 lies in the
// first four bytes.
#pragma once

#include "common/base/bytes.hpp"

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace continuo::base {

enum class IpVersion : uint8_t { V4 = 4, V6 = 6 };

struct IpAddress {
    IpVersion version = IpVersion::V4;
    std::array<uint8_t, 16> octets{};  // IPv4: the first four; the rest zero

    static IpAddress v4(ByteView four);
    static IpAddress v4(uint32_t host_order);
    static IpAddress v6(ByteView sixteen);
    // Unspecified address of that version.
    static IpAddress any(IpVersion version);
    static std::optional<IpAddress> parse(std::string_view text);

    ByteView bytes() const { return ByteView(octets).first(version == IpVersion::V4 ? 4 : 16); }
    uint32_t to_v4() const { return load_big_endian<uint32_t>(octets.data()); }
    bool is_v4() const { return version == IpVersion::V4; }
    bool is_unspecified() const;
    bool is_loopback() const;
    bool is_link_local() const;
    std::string to_string() const;
    auto operator<=>(const IpAddress&) const = default;
};

struct Endpoint {
    IpAddress address;
    uint16_t port = 0;

    // "192.0.2.1:9347", "[2001:db8::1]:9347"
    static std::optional<Endpoint> parse(std::string_view text);
    std::string to_string() const;
    auto operator<=>(const Endpoint&) const = default;
};

struct IpPrefix {
    IpAddress address;  // host bits are zero
    uint8_t length = 0;

    // "198.51.100.0/24", or an address (full length). Host bits set are an error.
    static std::optional<IpPrefix> parse(std::string_view text);
    bool contains(const IpAddress& candidate) const;
    std::string to_string() const;
    auto operator<=>(const IpPrefix&) const = default;
};

size_t hash_value(const IpAddress& address);
size_t hash_value(const Endpoint& endpoint);

}  // namespace continuo::base

template <>
struct std::hash<continuo::base::IpAddress> {
    size_t operator()(const continuo::base::IpAddress& a) const noexcept {
        return continuo::base::hash_value(a);
    }
};
template <>
struct std::hash<continuo::base::Endpoint> {
    size_t operator()(const continuo::base::Endpoint& e) const noexcept {
        return continuo::base::hash_value(e);
    }
};
