#include "common/base/ip_address.hpp"

#include <algorithm>
#include <charconv>

#include <arpa/inet.h>

namespace continuo::base {
namespace {

template <typename T>
std::optional<T> parse_number(std::string_view text, T maximum) {
    uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size() || text.empty() ||
        value > maximum) {
        return std::nullopt;
    }
    return static_cast<T>(value);
}

uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

}  // namespace

IpAddress IpAddress::v4(ByteView four) {
    CTN_ASSERT(four.size() == 4);
    IpAddress address;
    std::copy(four.begin(), four.end(), address.octets.begin());
    return address;
}

IpAddress IpAddress::v4(uint32_t host_order) {
    IpAddress address;
    store_big_endian(address.octets.data(), host_order);
    return address;
}

IpAddress IpAddress::v6(ByteView sixteen) {
    CTN_ASSERT(sixteen.size() == 16);
    IpAddress address;
    address.version = IpVersion::V6;
    std::copy(sixteen.begin(), sixteen.end(), address.octets.begin());
    return address;
}

IpAddress IpAddress::any(IpVersion version) {
    IpAddress address;
    address.version = version;
    return address;
}

std::optional<IpAddress> IpAddress::parse(std::string_view text) {
    const std::string copy(text);
    IpAddress address;
    if (inet_pton(AF_INET, copy.c_str(), address.octets.data()) == 1) {
        return address;
    }
    address.version = IpVersion::V6;
    if (inet_pton(AF_INET6, copy.c_str(), address.octets.data()) == 1) {
        return address;
    }
    return std::nullopt;
}

bool IpAddress::is_unspecified() const {
    return std::all_of(octets.begin(), octets.end(), [](uint8_t octet) { return octet == 0; });
}

bool IpAddress::is_loopback() const {
    if (is_v4()) {
        return octets[0] == 127;
    }
    return octets[15] == 1 &&
           std::all_of(octets.begin(), octets.end() - 1, [](uint8_t o) { return o == 0; });
}

bool IpAddress::is_link_local() const {
    if (is_v4()) {
        return octets[0] == 169 && octets[1] == 254;
    }
    return octets[0] == 0xFE && (octets[1] & 0xC0U) == 0x80;
}

std::string IpAddress::to_string() const {
    std::array<char, INET6_ADDRSTRLEN> text{};
    inet_ntop(is_v4() ? AF_INET : AF_INET6, octets.data(), text.data(), text.size());
    return text.data();
}

std::optional<Endpoint> Endpoint::parse(std::string_view text) {
    const size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return std::nullopt;
    }
    std::string_view host = text.substr(0, colon);
    const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
    if (bracketed) {
        host = host.substr(1, host.size() - 2);
    }
    const auto address = IpAddress::parse(host);
    const auto port = parse_number<uint16_t>(text.substr(colon + 1), UINT16_MAX);
    if (!address || !port || bracketed == address->is_v4()) {
        return std::nullopt;
    }
    return Endpoint{*address, *port};
}

std::string Endpoint::to_string() const {
    const std::string host =
        address.is_v4() ? address.to_string() : "[" + address.to_string() + "]";
    return host + ":" + std::to_string(port);
}

std::optional<IpPrefix> IpPrefix::parse(std::string_view text) {
    const size_t slash = text.find('/');
    const auto address = IpAddress::parse(text.substr(0, slash));
    if (!address) {
        return std::nullopt;
    }
    const uint8_t full = address->is_v4() ? 32 : 128;
    IpPrefix prefix{*address, full};
    if (slash != std::string_view::npos) {
        const auto length = parse_number<uint8_t>(text.substr(slash + 1), full);
        if (!length) {
            return std::nullopt;
        }
        prefix.length = *length;
    }
    for (size_t bit = prefix.length; bit < full; ++bit) {
        if ((prefix.address.octets[bit / 8] & (0x80U >> (bit % 8))) != 0) {
            return std::nullopt;
        }
    }
    return prefix;
}

bool IpPrefix::contains(const IpAddress& candidate) const {
    if (candidate.version != address.version) {
        return false;
    }
    const size_t whole = length / 8U;
    if (!std::equal(address.octets.begin(), address.octets.begin() + static_cast<ptrdiff_t>(whole),
                    candidate.octets.begin())) {
        return false;
    }
    const unsigned rest = length % 8U;
    return rest == 0 || ((address.octets[whole] ^ candidate.octets[whole]) >> (8 - rest)) == 0;
}

std::string IpPrefix::to_string() const {
    return address.to_string() + "/" + std::to_string(length);
}

size_t hash_value(const IpAddress& address) {
    const auto high = load_big_endian<uint64_t>(address.octets.data());
    const auto low = load_big_endian<uint64_t>(address.octets.data() + 8);
    return mix(high + 0x9E3779B97F4A7C15U * (low + static_cast<uint64_t>(address.version)));
}

size_t hash_value(const Endpoint& endpoint) {
    return mix(hash_value(endpoint.address) + endpoint.port);
}

}  // namespace continuo::base
