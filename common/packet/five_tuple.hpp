// The identity of an inner flow, always in up orientation: `local` is the node's side, `remote` its
// correspondent.
#pragma once

#include "common/base/ip_address.hpp"

namespace continuo::packet {

// IANA protocol numbers of what Continuo carries as flows.
enum class Protocol : uint8_t { Icmp = 1, Tcp = 6, Udp = 17, IcmpV6 = 58 };

struct FiveTuple {
    base::IpAddress local;
    base::IpAddress remote;
    uint16_t local_port = 0;   // ICMP: the echo identifier
    uint16_t remote_port = 0;  // ICMP: 0
    Protocol protocol = Protocol::Tcp;

    bool operator==(const FiveTuple&) const = default;
};

size_t hash_value(const FiveTuple& tuple);

}  // namespace continuo::packet

template <>
struct std::hash<continuo::packet::FiveTuple> {
    size_t operator()(const continuo::packet::FiveTuple& t) const noexcept {
        return continuo::packet::hash_value(t);
    }
};
