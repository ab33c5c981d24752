// Internet checksum (RFC 1071) and its incremental update (RFC 1624, equation 3). Sums are kept in
// host order of 16-bit big-endian words, not folded and not inverted.
#pragma once

#include "common/base/ip_address.hpp"

namespace continuo::packet {

uint64_t sum_words(base::ByteView bytes, uint64_t initial = 0);
uint16_t fold(uint64_t sum);
// Pseudo-header of TCP, UDP (RFC 9293, RFC 768) and of ICMPv6 (RFC 8200 section 8.1).
uint64_t pseudo_header_sum(const base::IpAddress& source,
                           const base::IpAddress& destination,
                           uint8_t protocol,
                           size_t transport_bytes);
// New value of a checksum field after `from` in the covered bytes became `to` (same even length).
uint16_t update_checksum(uint16_t field, base::ByteView from, base::ByteView to);

}  // namespace continuo::packet
