// Shared by the tests of this layer: naive reference implementations (checksum, segmentation) that
// take nothing from the code under test, and makers of random regular packets.
#pragma once

#include "common/base/random.hpp"
#include "common/packet/header_fields.hpp"

#include <vector>

namespace continuo::packet::test {

using Bytes = std::vector<uint8_t>;

// RFC 1071 word by word; `bytes` may be of odd length.
uint16_t reference_sum(base::ByteView bytes, uint32_t initial = 0);
// Are the IPv4 header checksum and the transport checksum of an unfragmented packet without
// extension headers right?
bool checksums_are_right(base::ByteView packet);
// Sets them so.
void set_checksums(Bytes& packet);

Bytes random_bytes(base::Random& random, size_t count);
HeaderFields random_fields(base::Random& random, Protocol protocol, bool is_v4);
// TCP data segments, UDP datagrams or echo requests of one flow: nothing random in it.
HeaderFields plain_fields(Protocol protocol, bool is_v4);
Bytes make_packet(const HeaderFields& fields, base::ByteView payload, bool partial = false);

// An ICMP or ICMPv6 destination unreachable, from `from` to `to`, that quotes the first
// `quoted_bytes` of `about`.
Bytes make_icmp_error(const base::IpAddress& from,
                      const base::IpAddress& to,
                      base::ByteView about,
                      size_t quoted_bytes);
// An IPv6 packet with an extension header put before its transport header. `extension` begins with
// the value 0 in the place of its next header field.
Bytes with_extension(const Bytes& packet, uint8_t type, Bytes extension);
// Both halves of a packet; the first holds `first_bytes` (a multiple of 8) behind the IP header.
std::array<Bytes, 2> fragment(const Bytes& packet, size_t first_bytes, uint16_t id);

// The packets that Linux cuts a super-packet into, checksums complete.
std::vector<Bytes> cut(base::ByteView super_packet, const Offload& offload);

base::IpAddress address(const char* text);
Bytes from_hex(std::string_view text);

}  // namespace continuo::packet::test
