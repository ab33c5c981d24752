// The node's side of a packet is not on the wire (docs/PROTOCOL.md section 6.4): the sender
// replaces it by the unspecified address, the receiver inserts the address to use from there on.
// Checksums are updated incrementally (RFC 1624); a UDP checksum of 0 stays 0; a partial checksum
// (pseudo-header sum) is updated as such. ICMP errors are rewritten outside and inside.
#pragma once

#include "common/packet/five_tuple.hpp"
#include "common/packet/packet.hpp"

#include <optional>

namespace continuo::packet {

enum class NodeSide : uint8_t {
    Source,       // packet travels up: the node's address is the source
    Destination,  // packet travels down
};

// Replaces the node's address by `address` (same IP version as the packet). False when the packet
// is not IP or too short: nothing was changed. In an ICMP error the quoted packet travels the other
// way and is rewritten on its other side.
bool rewrite_node_address(base::MutableByteView packet,
                          NodeSide side,
                          const base::IpAddress& address,
                          bool partial_checksum);

// Lowers the MSS option of a SYN to `mss` where it is larger; true when something changed.
bool clamp_mss(base::MutableByteView packet, uint16_t mss, bool partial_checksum);

// The fields that the flow table needs of any inner packet, regular or not.
struct PacketSummary {
    FiveTuple tuple;  // up orientation, by `side`; ports 0 for a fragment that is not the first
    uint8_t tcp_flags = 0;
    uint8_t tos = 0;
    bool is_fragment = false;        // any fragment
    bool is_first_fragment = false;  // offset 0 (also for a packet that is not fragmented)
    uint32_t fragment_id = 0;
    bool is_icmp_error = false;  // `tuple` is then that of the quoted packet's flow
    uint16_t transport_offset = 0;
    uint16_t payload_offset = 0;  // behind the transport header
    uint32_t tcp_sequence = 0;
    uint32_t tcp_acknowledgement = 0;
};
enum class SummaryError : uint8_t { NotIp, Malformed, UnsupportedProtocol };
struct SummaryResult {
    std::optional<PacketSummary> summary;
    SummaryError error = SummaryError::NotIp;  // when there is none
};
SummaryResult summarize(base::ByteView packet, NodeSide side);

}  // namespace continuo::packet
