#include "common/packet/coalescer.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::packet {
namespace {

// virtio_net_hdr as a TUN device without IFF_VNET_LE has it: native byte order.
struct VnetHeader {
    uint8_t flags = 0;
    uint8_t gso_type = 0;
    uint16_t header_bytes = 0;
    uint16_t gso_bytes = 0;
    uint16_t checksum_start = 0;
    uint16_t checksum_offset = 0;
};
static_assert(sizeof(VnetHeader) == kVnetHeaderBytes);

constexpr uint8_t kNeedsChecksum = 1;
constexpr uint8_t kGsoNone = 0;
constexpr uint8_t kGsoTcp4 = 1;
constexpr uint8_t kGsoTcp6 = 4;
constexpr uint8_t kGsoUdpL4 = 5;
constexpr uint8_t kGsoEcn = 0x80;  // a bit beside the type: the first segment has CWR

std::optional<GsoType> gso_type(uint8_t code) {
    switch (code & ~kGsoEcn) {
    case kGsoNone:
        return GsoType::None;
    case kGsoTcp4:
        return GsoType::Tcp4;
    case kGsoTcp6:
        return GsoType::Tcp6;
    case kGsoUdpL4:
        return GsoType::Udp;
    default:
        return std::nullopt;
    }
}

uint8_t gso_code(GsoType type) {
    switch (type) {
    case GsoType::Tcp4:
        return kGsoTcp4;
    case GsoType::Tcp6:
        return kGsoTcp6;
    case GsoType::Udp:
        return kGsoUdpL4;
    case GsoType::None:
        break;
    }
    return kGsoNone;
}

}  // namespace

bool parse_vnet_header(base::ByteView frame, Offload& offload) {
    if (frame.size() < kVnetHeaderBytes) {
        return false;
    }
    VnetHeader header;
    std::memcpy(&header, frame.data(), sizeof header);
    const std::optional<GsoType> type = gso_type(header.gso_type);
    if (!type || (*type != GsoType::None && header.gso_bytes == 0)) {
        return false;
    }
    offload = Offload{};
    offload.gso = *type;
    if (*type != GsoType::None) {
        offload.segment_bytes = header.gso_bytes;
        offload.header_bytes = header.header_bytes;
    }
    if ((header.flags & kNeedsChecksum) != 0) {
        offload.partial_checksum = true;
        offload.checksum_start = header.checksum_start;
        offload.checksum_offset = header.checksum_offset;
    }
    return true;
}

void write_vnet_header(const Offload& offload, base::MutableByteView to) {
    CTN_ASSERT(to.size() >= kVnetHeaderBytes);
    VnetHeader header;
    header.flags = offload.partial_checksum ? kNeedsChecksum : 0;
    header.gso_type = gso_code(offload.gso);
    header.header_bytes = offload.header_bytes;
    header.gso_bytes = offload.gso == GsoType::None ? uint16_t{0} : offload.segment_bytes;
    header.checksum_start = offload.checksum_start;
    header.checksum_offset = offload.checksum_offset;
    std::memcpy(to.data(), &header, sizeof header);
}

}  // namespace continuo::packet
