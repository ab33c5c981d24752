#include "cnapt/uplinks/node_addresses.hpp"

#include <array>

namespace continuo::cnapt::uplinks {

using base::IpAddress;

IpAddress default_node_ipv4() {
    return IpAddress::v4(0xC0000005U);
}

IpAddress default_node_ipv6() {
    constexpr std::array<uint8_t, 16> kAddress = {0, 0x64, 0xFF, 0x9B, 0,    1, 0, 0,
                                                  0, 0,    0,    0,    0xC0, 0, 0, 5};
    return IpAddress::v6(kAddress);
}

}  // namespace continuo::cnapt::uplinks
