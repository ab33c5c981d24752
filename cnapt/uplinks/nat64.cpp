#include "cnapt/uplinks/nat64.hpp"

#include <algorithm>
#include <array>

namespace continuo::cnapt::uplinks {

namespace {

using base::IpAddress;
using base::IpPrefix;

// RFC 6052, section 2.2, and of RFC 7050, section 2.2, the addresses of the name.
constexpr std::array<uint8_t, 6> kLengths = {96, 64, 56, 48, 40, 32};
constexpr std::array<uint32_t, 2> kKnown = {0xC00000AAU, 0xC00000ABU};
constexpr size_t kReservedOctet = 8;  // zero where the prefix does not reach it

// The octets that hold the IPv4 address, one after the other.
std::array<size_t, 4> places_of(uint8_t length) {
    std::array<size_t, 4> places{};
    size_t at = length / 8;
    for (size_t& place : places) {
        at += at == kReservedOctet && length <= 64 ? 1 : 0;
        place = at++;
    }
    return places;
}

std::optional<IpPrefix> prefix_by(const IpAddress& address, uint8_t length, uint32_t known) {
    if (address.is_v4() || (length <= 64 && address.octets[kReservedOctet] != 0)) {
        return std::nullopt;
    }
    uint32_t held = 0;
    for (const size_t place : places_of(length)) {
        held = held << 8 | address.octets[place];
    }
    if (held != known) {
        return std::nullopt;
    }
    IpPrefix prefix{address, length};
    std::fill(prefix.address.octets.begin() + length / 8, prefix.address.octets.end(), uint8_t{0});
    return prefix;
}

}  // namespace

std::optional<IpPrefix> nat64_prefix(std::span<const IpAddress> addresses) {
    std::optional<IpPrefix> found;
    for (const uint8_t length : kLengths) {
        std::array<std::optional<IpPrefix>, kKnown.size()> by_known;
        for (const IpAddress& address : addresses) {
            for (size_t i = 0; i < kKnown.size(); ++i) {
                if (const auto prefix = prefix_by(address, length, kKnown[i])) {
                    by_known[i] = prefix;
                }
            }
        }
        if (by_known[0] && by_known[0] == by_known[1]) {
            return by_known[0];
        }
        for (const auto& prefix : by_known) {
            if (!found) {
                found = prefix;
            }
        }
    }
    return found;
}

std::optional<IpPrefix> choose_nat64(const std::optional<netlink::KnownPref64>& told,
                                     const std::optional<IpPrefix>& asked,
                                     const std::optional<IpPrefix>& working) {
    if (told && told->standing == netlink::Pref64Standing::Told) {
        return told->prefix;
    }
    if (told && told->standing == netlink::Pref64Standing::ToldAgain) {
        return working ? *working : told->prefix;
    }
    if (asked || working) {
        return asked ? asked : working;
    }
    return told ? std::optional(told->prefix) : std::nullopt;
}

IpAddress to_nat64(const IpPrefix& prefix, const IpAddress& v4) {
    IpAddress address = prefix.address;
    const auto places = places_of(prefix.length);
    for (size_t i = 0; i < places.size(); ++i) {
        address.octets[places[i]] = v4.octets[i];
    }
    return address;
}

}  // namespace continuo::cnapt::uplinks
