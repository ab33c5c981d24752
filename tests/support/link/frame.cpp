#include "tests/support/link/frame.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace continuo::tests {

using base::ByteView;

namespace {

// struct virtio_net_hdr; its linux/ header does not compile as C++.
struct VnetHeader {
    uint8_t flags = 0;
    uint8_t segmentation = 0;
    uint16_t header_bytes = 0;
    uint16_t segment_payload_bytes = 0;
    uint16_t checksum_start = 0;
    uint16_t checksum_offset = 0;
};
static_assert(sizeof(VnetHeader) == kFrameVnetBytes);
constexpr uint8_t kNeedsChecksum = 1;
constexpr uint8_t kSegmentationUdp = 5;       // VIRTIO_NET_HDR_GSO_UDP_L4
constexpr uint8_t kSegmentationFlags = 0x80;  // VIRTIO_NET_HDR_GSO_ECN

constexpr uint16_t kEthernetIpv4 = 0x0800;
constexpr uint16_t kEthernetArp = 0x0806;
constexpr uint16_t kEthernetIpv6 = 0x86DD;
constexpr uint8_t kTcp = 6;
constexpr uint8_t kUdp = 17;
constexpr uint8_t kIcmp = 1;
constexpr uint8_t kIcmpv6 = 58;
constexpr size_t kUdpHeaderBytes = 8;
constexpr size_t kIpv4MinBytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr int kMaxExtensionHeaders = 8;

VnetHeader vnet_header(ByteView frame) {
    VnetHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    return header;
}

struct Upper {
    size_t at = 0;  // from the beginning of the packet
    uint8_t protocol = 0;
    bool is_first = true;  // else a later fragment: no header of the protocol is in it
};

Upper upper_of_ipv4(ByteView packet) {
    if (packet.size() < kIpv4MinBytes) {
        return {packet.size(), 0, false};
    }
    const uint16_t fragment = base::load_big_endian<uint16_t>(packet.data() + 6);
    return {size_t{packet[0] & 0x0FU} * 4, packet[9], (fragment & 0x1FFFU) == 0};
}

Upper upper_of_ipv6(ByteView packet) {
    if (packet.size() < kIpv6Bytes) {
        return {packet.size(), 0, false};
    }
    constexpr std::array<uint8_t, 3> kSkipped{0, 43, 60};  // hop-by-hop, routing, destination
    constexpr uint8_t kFragment = 44;
    Upper upper{kIpv6Bytes, packet[6], true};
    for (int i = 0; i < kMaxExtensionHeaders && upper.at + 8 <= packet.size(); ++i) {
        const uint8_t* const header = packet.data() + upper.at;
        if (std::find(kSkipped.begin(), kSkipped.end(), upper.protocol) != kSkipped.end()) {
            upper.at += (size_t{header[1]} + 1) * 8;
        } else if (upper.protocol == kFragment) {
            upper.is_first = (base::load_big_endian<uint16_t>(header + 2) & 0xFFF8U) == 0;
            upper.at += 8;
        } else {
            break;
        }
        upper.protocol = header[0];
    }
    return upper;
}

LinkProtocol protocol_of(const Upper& upper, ByteView packet) {
    switch (upper.protocol) {
    case kTcp:
        return LinkProtocol::Tcp;
    case kUdp:
        return LinkProtocol::Udp;
    case kIcmp:
        return LinkProtocol::Icmp;
    case kIcmpv6: {
        // RFC 4861: router and neighbour solicitation and advertisement, redirect.
        const bool is_neighbour = upper.is_first && upper.at < packet.size() &&
                                  packet[upper.at] >= 133 && packet[upper.at] <= 137;
        return is_neighbour ? LinkProtocol::Neighbour : LinkProtocol::Icmp;
    }
    default:
        return LinkProtocol::Other;
    }
}

// A super-packet counts as the packets it is cut into: the headers are in each.
void count_segments(LinkPacket& packet, const VnetHeader& vnet, const Upper& upper, ByteView ip) {
    size_t header_bytes = upper.at + kUdpHeaderBytes;
    if ((vnet.segmentation & ~kSegmentationFlags) != kSegmentationUdp) {
        constexpr size_t kTcpOffsetAt = 12;
        if (upper.at + kTcpOffsetAt >= ip.size()) {
            return;
        }
        header_bytes = upper.at + size_t{ip[upper.at + kTcpOffsetAt]} / 16 * 4;
    }
    if (header_bytes >= ip.size()) {
        return;
    }
    const size_t payload = ip.size() - header_bytes;
    const size_t step = vnet.segment_payload_bytes;
    packet.segments = static_cast<uint32_t>((payload + step - 1) / step);
    packet.wire_bytes = static_cast<uint32_t>(payload + packet.segments * header_bytes);
    packet.segment_bytes = static_cast<uint32_t>(header_bytes + std::min(payload, step));
    packet.corruptible_at = static_cast<uint32_t>(packet.bytes.size());
}

}  // namespace

bool describe_frame(LinkPacket& packet) {
    const ByteView frame(packet.bytes);
    if (frame.size() < kFrameHeaderBytes) {
        return false;
    }
    const ByteView ip = frame.subspan(kFrameHeaderBytes);
    packet.wire_bytes = packet.segment_bytes = static_cast<uint32_t>(ip.size());
    packet.segments = 1;
    packet.protocol = LinkProtocol::Other;
    packet.corruptible_at = kFrameHeaderBytes;
    const auto type = base::load_big_endian<uint16_t>(ip.data() - 2);
    if (type == kEthernetArp) {
        packet.protocol = LinkProtocol::Neighbour;
    }
    if (type != kEthernetIpv4 && type != kEthernetIpv6) {
        return true;
    }
    const Upper upper = type == kEthernetIpv4 ? upper_of_ipv4(ip) : upper_of_ipv6(ip);
    packet.protocol = protocol_of(upper, ip);
    packet.corruptible_at =
        static_cast<uint32_t>(kFrameHeaderBytes + std::min(upper.at, ip.size()));
    const VnetHeader vnet = vnet_header(frame);
    if (vnet.segmentation != 0 && vnet.segment_payload_bytes != 0) {
        count_segments(packet, vnet, upper, ip);
    }
    return true;
}

bool complete_checksum(base::MutableByteView frame) {
    if (frame.size() < kFrameHeaderBytes) {
        return false;
    }
    VnetHeader vnet = vnet_header(frame);
    const base::MutableByteView ethernet = frame.subspan(kFrameVnetBytes);
    const size_t field_at = size_t{vnet.checksum_start} + vnet.checksum_offset;
    if ((vnet.flags & kNeedsChecksum) == 0 || vnet.segmentation != 0 ||
        field_at + 2 > ethernet.size()) {
        return false;
    }
    // RFC 1071; the field holds the sum of the pseudo header.
    uint64_t sum = 0;
    for (size_t i = vnet.checksum_start; i < ethernet.size(); i += 2) {
        sum += uint64_t{ethernet[i]} << 8;
        sum += i + 1 < ethernet.size() ? ethernet[i + 1] : 0U;
    }
    while (sum > 0xFFFF) {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    auto checksum = static_cast<uint16_t>(~sum);
    constexpr uint16_t kUdpChecksumAt = 6;
    if (checksum == 0 && vnet.checksum_offset == kUdpChecksumAt) {
        checksum = 0xFFFF;  // RFC 768: 0 means none
    }
    base::store_big_endian(ethernet.data() + field_at, checksum);
    vnet.flags = static_cast<uint8_t>(vnet.flags & ~kNeedsChecksum);
    vnet.checksum_start = vnet.checksum_offset = 0;
    std::memcpy(frame.data(), &vnet, sizeof vnet);
    return true;
}

}  // namespace continuo::tests
