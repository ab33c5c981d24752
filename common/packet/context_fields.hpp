// Fields for a flow context from a packet that is not regular itself (a SYN, a segment with SACK
// blocks) or too long for one datagram. So the flow's next packets need not wait a round trip for a
// context.
#pragma once

#include "common/packet/header_fields.hpp"

#include <optional>

namespace continuo::packet {

// TCP and UDP over IPv4 without options or IPv6 without extension headers. A SYN counts in the
// sequence number; timestamps are read wherever the options hold them. Does not verify the
// checksum.
std::optional<HeaderFields> context_fields(base::ByteView packet);

}  // namespace continuo::packet
