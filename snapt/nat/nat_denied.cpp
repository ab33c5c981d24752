#include "snapt/nat/nat_denied.hpp"

#include <algorithm>
#include <vector>

namespace continuo::snapt::nat {

namespace {

using base::IpAddress;
using base::IpPrefix;
using base::IpVersion;

// As addresses: "10.0.0.0, 127.0.0.0". Empty: nothing is denied.
std::string first_octets(IpVersion version, std::span<const IpPrefix> denied) {
    constexpr size_t kOctets = 256;
    constexpr size_t kOctetBits = 8;
    std::vector<bool> is_first(kOctets);
    for (const IpPrefix& prefix : denied) {
        if (prefix.address.version == version) {
            const size_t bits = std::min<size_t>(prefix.length, kOctetBits);
            const size_t count = size_t{1} << (kOctetBits - bits);
            const size_t first = prefix.address.octets[0] / count * count;
            std::fill_n(is_first.begin() + static_cast<ptrdiff_t>(first), count, true);
        }
    }
    std::string text;
    for (size_t octet = 0; octet < kOctets; ++octet) {
        if (is_first[octet]) {
            IpAddress address = IpAddress::any(version);
            address.octets[0] = static_cast<uint8_t>(octet);
            text += (text.empty() ? "" : ", ") + address.to_string();
        }
    }
    return text;
}

}  // namespace

std::string deny_set(IpVersion version, std::span<const IpPrefix> denied) {
    const std::string digit = version == IpVersion::V4 ? "4" : "6";
    std::string elements;
    for (const IpPrefix& prefix : denied) {
        if (prefix.address.version == version) {
            elements += (elements.empty() ? "" : ", ") + prefix.to_string();
        }
    }
    return "  set denied" + digit + " {\n    type ipv" + digit +
           "_addr; flags constant, interval; auto-merge;\n" +
           (elements.empty() ? "" : "    elements = { " + elements + " }\n") + "  }\n";
}

std::string
denied_rule(IpVersion version, std::span<const IpPrefix> denied, const std::string& verdict) {
    const bool is_v4 = version == IpVersion::V4;
    const std::string daddr = is_v4 ? "ip daddr " : "ip6 daddr ";
    const std::string near = first_octets(version, denied);
    const std::string is_near =
        near.empty() ? "" : daddr + (is_v4 ? "& 255.0.0.0" : "& ff00::") + " { " + near + " } ";
    return "    " + is_near + daddr + (is_v4 ? "@denied4" : "@denied6") + " counter name denied" +
           verdict;
}

}  // namespace continuo::snapt::nat
