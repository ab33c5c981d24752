// Packets that answer an inner packet in the name of its destination: TCP RST, ICMP destination
// unreachable. Pure.
#pragma once

#include "common/packet/packet.hpp"

namespace continuo::packet {

// Room that any reply fits in.
inline constexpr size_t kMaxReplyBytes = 576 + 64;

// A RST that makes the sender of `packet` give up at once (RFC 9293 section 3.10.7.1). Gives its
// length; 0 when `packet` is not TCP or carries RST itself.
size_t write_tcp_reset(base::ByteView packet, base::MutableByteView to);

// ICMP "communication administratively prohibited" (type 3 code 13, RFC 1812; ICMPv6 type 1 code 1,
// RFC 4443). 0 when `packet` is itself an ICMP error or no IP packet.
size_t write_icmp_prohibited(base::ByteView packet, base::MutableByteView to);

}  // namespace continuo::packet
