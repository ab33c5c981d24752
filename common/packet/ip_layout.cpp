#include "common/packet/ip_layout.hpp"

namespace continuo::packet {
namespace {

using base::load_big_endian;

// IPv6 next header values that are walked (RFC 8200 section 4).
constexpr uint8_t kHopByHop = 0;
constexpr uint8_t kRouting = 43;
constexpr uint8_t kFragment = 44;
constexpr uint8_t kDestinationOptions = 60;
constexpr size_t kExtensionUnitBytes = 8;

LayoutResult refuse(SummaryError error) {
    return {std::nullopt, error};
}

LayoutResult find_v4(base::ByteView packet) {
    if (packet.size() < kIpv4HeaderBytes) {
        return refuse(SummaryError::Malformed);
    }
    const uint8_t* header = packet.data();
    IpLayout layout;
    layout.transport_offset = size_t{4} * (header[0] & 0x0FU);
    layout.declared_bytes = load_big_endian<uint16_t>(header + 2);
    if (layout.transport_offset < kIpv4HeaderBytes || layout.transport_offset > packet.size() ||
        layout.declared_bytes < layout.transport_offset) {
        return refuse(SummaryError::Malformed);
    }
    const auto fragment = load_big_endian<uint16_t>(header + 6);
    layout.tos = header[1];
    layout.protocol = header[9];
    layout.fragment_id = load_big_endian<uint16_t>(header + 4);
    layout.is_fragment = (fragment & 0x3FFFU) != 0;
    layout.fragment_offset = size_t{8} * (fragment & 0x1FFFU);
    layout.is_first = layout.fragment_offset == 0;
    return {layout, {}};
}

// Takes one extension header at layout.transport_offset into account; false when the packet ends in
// it.
bool walk_extension(base::ByteView packet, IpLayout& layout) {
    const base::ByteView rest = packet.subspan(layout.transport_offset);
    if (rest.size() < kExtensionUnitBytes) {
        return false;
    }
    size_t bytes = kExtensionUnitBytes * (size_t{1} + rest[1]);
    if (layout.protocol == kFragment) {
        bytes = kExtensionUnitBytes;
        const auto field = load_big_endian<uint16_t>(rest.data() + 2);
        layout.fragment_offset = field & 0xFFF8U;
        layout.fragment_id = load_big_endian<uint32_t>(rest.data() + 4);
        layout.is_fragment = (field & 0xFFF9U) != 0;
        layout.is_first = layout.fragment_offset == 0;
    } else if (layout.protocol == kRouting && rest[3] != 0) {
        layout.is_source_routed = true;
    }
    if (bytes > rest.size()) {
        return false;
    }
    layout.protocol = rest[0];
    layout.transport_offset += bytes;
    return true;
}

LayoutResult find_v6(base::ByteView packet, Extent extent) {
    if (packet.size() < kIpv6HeaderBytes) {
        return refuse(SummaryError::Malformed);
    }
    const uint8_t* header = packet.data();
    IpLayout layout;
    layout.is_v4 = false;
    layout.tos = static_cast<uint8_t>(load_big_endian<uint16_t>(header) >> 4);
    layout.protocol = header[6];
    layout.transport_offset = kIpv6HeaderBytes;
    layout.declared_bytes = kIpv6HeaderBytes + load_big_endian<uint16_t>(header + 4);
    for (size_t walked = 0; layout.is_first; ++walked) {
        if (layout.protocol != kHopByHop && layout.protocol != kRouting &&
            layout.protocol != kFragment && layout.protocol != kDestinationOptions) {
            break;
        }
        if (walked == kMaxExtensionHeaders) {
            return refuse(SummaryError::Malformed);
        }
        if (!walk_extension(packet, layout)) {
            if (extent == Extent::Whole) {
                return refuse(SummaryError::Malformed);
            }
            layout.is_cut = true;
            break;
        }
    }
    return {layout, {}};
}

}  // namespace

LayoutResult find_layout(base::ByteView packet, Extent extent) {
    const unsigned version = packet.empty() ? 0 : packet[0] >> 4;
    switch (version) {
    case 4:
        return find_v4(packet);
    case 6:
        return find_v6(packet, extent);
    default:
        return refuse(SummaryError::NotIp);
    }
}

std::optional<size_t> pseudo_checksum_offset(const IpLayout& layout) {
    if (!layout.is_first || layout.is_cut) {
        return std::nullopt;
    }
    switch (static_cast<Protocol>(layout.protocol)) {
    case Protocol::Tcp:
        return 16;
    case Protocol::Udp:
        return 6;
    case Protocol::IcmpV6:
        return layout.is_v4 ? std::nullopt : std::optional<size_t>(2);
    case Protocol::Icmp:
        break;
    }
    return std::nullopt;
}

size_t address_offset(const IpLayout& layout, NodeSide side) {
    if (layout.is_v4) {
        return side == NodeSide::Source ? 12 : 16;
    }
    return side == NodeSide::Source ? 8 : 24;
}

base::IpAddress address_at(base::ByteView packet, const IpLayout& layout, NodeSide side) {
    const size_t offset = address_offset(layout, side);
    return layout.is_v4 ? base::IpAddress::v4(packet.subspan(offset, 4))
                        : base::IpAddress::v6(packet.subspan(offset, 16));
}

bool is_icmp(const IpLayout& layout) {
    return layout.protocol ==
           static_cast<uint8_t>(layout.is_v4 ? Protocol::Icmp : Protocol::IcmpV6);
}

bool is_icmp_error(const IpLayout& layout, uint8_t type) {
    if (!is_icmp(layout)) {
        return false;
    }
    return layout.is_v4 ? type == 3 || type == 11 || type == 12 : type >= 1 && type <= 4;
}

}  // namespace continuo::packet
