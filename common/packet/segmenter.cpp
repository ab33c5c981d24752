#include "common/packet/segmenter.hpp"

#include "common/packet/checksum.hpp"
#include "common/packet/five_tuple.hpp"
#include "common/packet/header_fields.hpp"

#include <algorithm>
#include <cstring>

namespace continuo::packet {

using base::ByteView;
using base::load_big_endian;
using base::MutableByteView;
using base::store_big_endian;

namespace {

constexpr size_t kIpv4HeaderBytes = 20;
constexpr size_t kIpv6HeaderBytes = 40;
constexpr size_t kTcpFlagsOffset = 13;

struct Layout {
    bool is_v4 = true;
    bool is_tcp = true;
    size_t transport = 0;  // offset of the transport header
    size_t headers = 0;    // bytes of all headers
    size_t payload = 0;
    uint32_t segments = 0;
};

bool has_transport_header(ByteView super, const Offload& offload, const Layout& layout) {
    const size_t smallest = layout.is_tcp ? 20 : 8;
    const size_t least = layout.is_v4 ? kIpv4HeaderBytes : kIpv6HeaderBytes;
    return layout.transport >= least && layout.transport + smallest <= super.size() &&
           offload.segment_bytes > 0;
}

// Layout with 0 segments when the packet contradicts its offload information.
Layout layout_of(ByteView super, const Offload& offload) {
    Layout layout;
    if (super.size() < kIpv4HeaderBytes) {
        return layout;
    }
    layout.is_v4 = super[0] >> 4 == 4;
    layout.is_tcp = offload.gso != GsoType::Udp;
    layout.transport = offload.checksum_start;
    if (!has_transport_header(super, offload, layout)) {
        return layout;
    }
    const size_t transport_bytes =
        layout.is_tcp ? size_t{super[layout.transport + 12]} / 16 * 4 : 8;
    layout.headers = layout.transport + transport_bytes;
    if (transport_bytes < (layout.is_tcp ? 20U : 8U) || layout.headers > super.size()) {
        return layout;
    }
    layout.payload = super.size() - layout.headers;
    const size_t count =
        std::max<size_t>(1, (layout.payload + offload.segment_bytes - 1) / offload.segment_bytes);
    layout.segments = static_cast<uint32_t>(count);
    return layout;
}

base::IpAddress address_at(ByteView packet, bool is_v4, bool source) {
    return is_v4 ? base::IpAddress::v4(packet.subspan(source ? 12 : 16, 4))
                 : base::IpAddress::v6(packet.subspan(source ? 8 : 24, 16));
}

void write_lengths(MutableByteView packet, const Layout& layout, uint32_t index) {
    if (layout.is_v4) {
        store_big_endian(packet.data() + 2, static_cast<uint16_t>(packet.size()));
        const auto id = load_big_endian<uint16_t>(packet.data() + 4);
        store_big_endian(packet.data() + 4, static_cast<uint16_t>(id + index));
        store_big_endian(packet.data() + 10, uint16_t{0});
        const uint16_t sum = fold(sum_words(packet.first(layout.transport)));
        store_big_endian(packet.data() + 10, static_cast<uint16_t>(~sum));
    } else {
        store_big_endian(packet.data() + 4,
                         static_cast<uint16_t>(packet.size() - kIpv6HeaderBytes));
    }
    if (!layout.is_tcp) {
        store_big_endian(packet.data() + layout.transport + 4,
                         static_cast<uint16_t>(packet.size() - layout.transport));
    }
}

void write_tcp(MutableByteView packet,
               const Layout& layout,
               uint32_t index,
               uint16_t segment_bytes) {
    uint8_t* tcp = packet.data() + layout.transport;
    store_big_endian(tcp + 4, load_big_endian<uint32_t>(tcp + 4) + index * segment_bytes);
    if (index + 1 < layout.segments) {
        tcp[kTcpFlagsOffset] &= static_cast<uint8_t>(~(tcp_flag::kFin | tcp_flag::kPsh));
    }
    if (index > 0) {
        tcp[kTcpFlagsOffset] &= static_cast<uint8_t>(~tcp_flag::kCwr);
    }
}

void write_transport_checksum(MutableByteView packet, const Layout& layout) {
    const size_t field = layout.transport + (layout.is_tcp ? 16 : 6);
    store_big_endian(packet.data() + field, uint16_t{0});
    const ByteView transport = packet.subspan(layout.transport);
    const auto protocol = static_cast<uint8_t>(layout.is_tcp ? Protocol::Tcp : Protocol::Udp);
    const uint64_t pseudo =
        pseudo_header_sum(address_at(packet, layout.is_v4, true),
                          address_at(packet, layout.is_v4, false), protocol, transport.size());
    auto sum = static_cast<uint16_t>(~fold(sum_words(transport, pseudo)));
    if (sum == 0 && !layout.is_tcp) {
        sum = 0xFFFF;
    }
    store_big_endian(packet.data() + field, sum);
}

}  // namespace

uint32_t segment_count(ByteView super, const Offload& offload) {
    return offload.gso == GsoType::None ? 1 : layout_of(super, offload).segments;
}

ByteView super_payload(ByteView super, const Offload& offload) {
    const Layout layout = layout_of(super, offload);
    return layout.segments == 0 ? ByteView{} : super.subspan(layout.headers);
}

size_t write_segment(ByteView super, const Offload& offload, uint32_t index, MutableByteView to) {
    const Layout layout = layout_of(super, offload);
    if (index >= layout.segments) {
        return 0;
    }
    const size_t offset = size_t{index} * offload.segment_bytes;
    const size_t payload = std::min<size_t>(offload.segment_bytes, layout.payload - offset);
    const size_t total = layout.headers + payload;
    if (total > to.size()) {
        return 0;
    }
    const MutableByteView packet = to.first(total);
    std::memcpy(packet.data(), super.data(), layout.headers);
    std::memcpy(packet.data() + layout.headers, super.data() + layout.headers + offset, payload);
    write_lengths(packet, layout, index);
    if (layout.is_tcp) {
        write_tcp(packet, layout, index, offload.segment_bytes);
    }
    write_transport_checksum(packet, layout);
    return total;
}

bool complete_checksum(MutableByteView packet, const Offload& offload) {
    const size_t field = size_t{offload.checksum_start} + offload.checksum_offset;
    if (field + 2 > packet.size()) {
        return false;
    }
    // The field holds the folded pseudo-header sum, so it takes part in the sum as it is.
    auto sum = static_cast<uint16_t>(~fold(sum_words(packet.subspan(offload.checksum_start))));
    constexpr uint16_t kUdpChecksumOffset = 6;
    if (sum == 0 && offload.checksum_offset == kUdpChecksumOffset) {
        sum = 0xFFFF;
    }
    store_big_endian(packet.data() + field, sum);
    return true;
}

}  // namespace continuo::packet
