// IpLayout: positions in an IP packet, found with bounds checks. Internal to this layer: shared by
// rewrite and summary. A quoted packet (in an ICMP error) may be truncated, but its IP header must
// be whole.
#pragma once

#include "common/packet/rewrite.hpp"

namespace continuo::packet {

inline constexpr size_t kIpv4HeaderBytes = 20;  // without options
inline constexpr size_t kIpv6HeaderBytes = 40;
inline constexpr size_t kTcpHeaderBytes = 20;  // without options
inline constexpr size_t kUdpHeaderBytes = 8;
inline constexpr size_t kIcmpHeaderBytes = 8;  // echo and errors alike
inline constexpr size_t kMaxIpBytes = 65535;
// A longer chain of IPv6 extension headers is malformed here.
inline constexpr size_t kMaxExtensionHeaders = 8;

enum class Extent : uint8_t { Whole, Quote };

struct IpLayout {
    bool is_v4 = true;
    uint8_t tos = 0;
    uint8_t protocol = 0;           // the first that is no extension header walked here
    bool is_fragment = false;       // not an IPv6 atomic fragment (RFC 6946)
    bool is_first = true;           // fragment offset 0
    bool is_source_routed = false;  // IPv6 routing header with segments left
    bool is_cut = false;            // a quote that ends before the transport header
    uint32_t fragment_id = 0;
    size_t fragment_offset = 0;  // bytes
    size_t transport_offset = 0;
    size_t declared_bytes = 0;  // packet length in the IP header
};

struct LayoutResult {
    std::optional<IpLayout> layout;
    SummaryError error = SummaryError::NotIp;  // when there is none
};
LayoutResult find_layout(base::ByteView packet, Extent extent);

// Offset of the checksum field in the transport header when it covers a pseudo-header; none for
// others.
std::optional<size_t> pseudo_checksum_offset(const IpLayout& layout);
size_t address_offset(const IpLayout& layout, NodeSide side);
base::IpAddress address_at(base::ByteView packet, const IpLayout& layout, NodeSide side);
// Destination unreachable, time exceeded, parameter problem; ICMPv6 also packet too big. (Source
// quench is obsolete, RFC 6633; redirects mean nothing beyond a link.)
bool is_icmp_error(const IpLayout& layout, uint8_t type);
bool is_icmp(const IpLayout& layout);

inline NodeSide other(NodeSide side) {
    return side == NodeSide::Source ? NodeSide::Destination : NodeSide::Source;
}

}  // namespace continuo::packet
