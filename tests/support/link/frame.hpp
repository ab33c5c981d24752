// The properties of a frame that the relay needs: its layer-3 size, the segments of a super-packet,
// the protocol, the start of the payload. A frame here is a virtio_net_hdr (kVnetBytes, native byte
// order) and an Ethernet frame, as AF_PACKET gives with PACKET_VNET_HDR. Pure; the bytes are
// untrusted.
#pragma once

#include "common/base/bytes.hpp"
#include "tests/support/link/link_model.hpp"

namespace continuo::tests {

inline constexpr size_t kFrameVnetBytes = 10;
inline constexpr size_t kFrameEthernetBytes = 14;
inline constexpr size_t kFrameHeaderBytes = kFrameVnetBytes + kFrameEthernetBytes;
inline constexpr size_t kMaxFrameBytes = kFrameHeaderBytes + 4 + 65'535;

// Fills all of `packet` but its bytes, from packet.bytes. False: too short to be a frame.
bool describe_frame(LinkPacket& packet);

// Completes a checksum that was left to the device, so that the receiver can find out that a bit
// was flipped. False: nothing to do, or a super-packet, of which the receiver completes it.
bool complete_checksum(base::MutableByteView frame);

}  // namespace continuo::tests
