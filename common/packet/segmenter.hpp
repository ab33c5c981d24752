// Software segmentation: cuts a super-packet into the packets that the kernel would have cut (TSO,
// USO), for the rare super-packet that has no fixed-length form on the wire. Pure.
#pragma once

#include "common/packet/packet.hpp"

namespace continuo::packet {

// How many packets `super` stands for; 1 for a packet that is none, 0 when headers and offload
// contradict each other.
uint32_t segment_count(base::ByteView super, const Offload& offload);

// Payload of `super` behind its headers; nothing when headers and offload contradict each other.
base::ByteView super_payload(base::ByteView super, const Offload& offload);

// Writes packet number `index` of `super` with complete checksums. Gives its length; 0 when it does
// not fit `to` or the super-packet contradicts itself. TCP: sequence advances, FIN and PSH only on
// the last, CWR only on the first; IPv4 identification counts up.
size_t write_segment(base::ByteView super,
                     const Offload& offload,
                     uint32_t index,
                     base::MutableByteView to);

// Computes the transport checksum of a packet with a partial one. False when it is too short for
// that.
bool complete_checksum(base::MutableByteView packet, const Offload& offload);

}  // namespace continuo::packet
