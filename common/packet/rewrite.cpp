#include "common/packet/rewrite.hpp"

#include "common/packet/checksum.hpp"
#include "common/packet/ip_layout.hpp"

#include <algorithm>

namespace continuo::packet {
namespace {

using base::load_big_endian;
using base::store_big_endian;

constexpr size_t kIpv4ChecksumOffset = 10;
constexpr size_t kIcmpChecksumOffset = 2;

uint8_t* field_at(base::MutableByteView packet, size_t offset) {
    return packet.subspan(offset, 2).data();
}

// A partial field is a plain sum, not inverted.
uint16_t update_sum(uint16_t field, base::ByteView from, base::ByteView to) {
    return static_cast<uint16_t>(~update_checksum(static_cast<uint16_t>(~field), from, to));
}

// For a change of the pseudo-header. A UDP field of 0 means "none" and stays (RFC 768); a sum of 0
// is sent as 0xFFFF.
void update_transport(
    uint8_t* field, bool is_udp, bool partial, base::ByteView from, base::ByteView to) {
    const auto old = load_big_endian<uint16_t>(field);
    if (partial) {
        store_big_endian(field, update_sum(old, from, to));
        return;
    }
    if (is_udp && old == 0) {
        return;
    }
    const uint16_t changed = update_checksum(old, from, to);
    store_big_endian(field, is_udp && changed == 0 ? uint16_t{0xFFFF} : changed);
}

// Replaces one address of `packet` and updates the checksums that cover it, as far as they lie in
// the packet.
void replace_address(base::MutableByteView packet,
                     const IpLayout& layout,
                     NodeSide side,
                     const base::IpAddress& address,
                     bool partial) {
    const base::MutableByteView place =
        packet.subspan(address_offset(layout, side), address.bytes().size());
    std::array<uint8_t, 16> old{};
    std::copy(place.begin(), place.end(), old.begin());
    const base::ByteView from = base::ByteView(old).first(place.size());
    const base::ByteView to = address.bytes();
    std::copy(to.begin(), to.end(), place.begin());
    if (layout.is_v4) {
        uint8_t* field = field_at(packet, kIpv4ChecksumOffset);
        store_big_endian(field, update_checksum(load_big_endian<uint16_t>(field), from, to));
    }
    const std::optional<size_t> offset = pseudo_checksum_offset(layout);
    if (offset && layout.transport_offset + *offset + 2 <= packet.size()) {
        const bool is_udp = layout.protocol == static_cast<uint8_t>(Protocol::Udp);
        update_transport(field_at(packet, layout.transport_offset + *offset), is_udp, partial, from,
                         to);
    }
}

// The packet quoted by an ICMP error; empty for every other packet.
base::MutableByteView quote_of(base::MutableByteView packet, const IpLayout& layout) {
    const size_t quote_offset = layout.transport_offset + kIcmpHeaderBytes;
    if (!layout.is_first || packet.size() <= quote_offset ||
        !is_icmp_error(layout, packet[layout.transport_offset])) {
        return {};
    }
    return packet.subspan(quote_offset);
}

// Rewrites the quote and carries the change over to the outer ICMP checksum `field`; null leaves
// that alone.
void rewrite_quote(base::MutableByteView quote,
                   const IpLayout& layout,
                   NodeSide side,
                   const base::IpAddress& address,
                   uint8_t* field) {
    const uint64_t before = sum_words(quote);
    replace_address(quote, layout, side, address, false);
    if (field == nullptr) {
        return;
    }
    std::array<uint8_t, 2> from{};
    std::array<uint8_t, 2> to{};
    store_big_endian(from.data(), fold(before));
    store_big_endian(to.data(), fold(sum_words(quote)));
    store_big_endian(field, update_checksum(load_big_endian<uint16_t>(field), from, to));
}

// Offset of the MSS value in the TCP options, or 0 (RFC 9293 section 3.2).
size_t find_mss(base::ByteView packet, size_t options_begin, size_t options_end) {
    constexpr uint8_t kEnd = 0;
    constexpr uint8_t kNop = 1;
    constexpr uint8_t kMss = 2;
    constexpr size_t kMssOptionBytes = 4;
    size_t at = options_begin;
    while (at < options_end && packet[at] != kEnd) {
        if (packet[at] == kNop) {
            ++at;
            continue;
        }
        if (at + 1 >= options_end || packet[at + 1] < 2 || packet[at + 1] > options_end - at) {
            return 0;
        }
        if (packet[at] == kMss) {
            return packet[at + 1] == kMssOptionBytes ? at + 2 : 0;
        }
        at += packet[at + 1];
    }
    return 0;
}

}  // namespace

bool rewrite_node_address(base::MutableByteView packet,
                          NodeSide side,
                          const base::IpAddress& address,
                          bool partial_checksum) {
    const std::optional<IpLayout> layout = find_layout(packet, Extent::Whole).layout;
    if (!layout || layout->is_v4 != address.is_v4()) {
        return false;
    }
    const std::optional<size_t> offset = pseudo_checksum_offset(*layout);
    if (offset && layout->transport_offset + *offset + 2 > packet.size()) {
        return false;
    }
    const base::MutableByteView quote = quote_of(packet, *layout);
    std::optional<IpLayout> quoted;
    if (!quote.empty()) {
        quoted = find_layout(quote, Extent::Quote).layout;
        if (!quoted || quoted->is_v4 != layout->is_v4) {
            return false;
        }
    }
    replace_address(packet, *layout, side, address, partial_checksum);
    if (quoted) {
        uint8_t* field = field_at(packet, layout->transport_offset + kIcmpChecksumOffset);
        rewrite_quote(quote, *quoted, other(side), address, partial_checksum ? nullptr : field);
    }
    return true;
}

bool clamp_mss(base::MutableByteView packet, uint16_t mss, bool partial_checksum) {
    const std::optional<IpLayout> layout = find_layout(packet, Extent::Whole).layout;
    if (!layout || !layout->is_first || layout->protocol != static_cast<uint8_t>(Protocol::Tcp)) {
        return false;
    }
    const base::MutableByteView segment = packet.subspan(layout->transport_offset);
    if (segment.size() < kTcpHeaderBytes || (segment[13] & 0x02U) == 0) {
        return false;
    }
    const size_t header_bytes = size_t{4} * (segment[12] >> 4);
    if (header_bytes < kTcpHeaderBytes || header_bytes > segment.size()) {
        return false;
    }
    const size_t at = find_mss(segment, kTcpHeaderBytes, header_bytes);
    if (at == 0 || load_big_endian<uint16_t>(segment.data() + at) <= mss) {
        return false;
    }
    // NOPs may put the value at an odd offset: the sum is over the aligned words that hold it.
    // header_bytes is a multiple of four, so they lie in the header.
    const base::MutableByteView words = segment.subspan(at & ~size_t{1}, at % 2 == 0 ? 2 : 4);
    std::array<uint8_t, 4> old{};
    std::copy(words.begin(), words.end(), old.begin());
    store_big_endian(segment.data() + at, mss);
    if (!partial_checksum) {
        uint8_t* field = field_at(segment, 16);
        const base::ByteView from = base::ByteView(old).first(words.size());
        store_big_endian(field, update_checksum(load_big_endian<uint16_t>(field), from, words));
    }
    return true;
}

}  // namespace continuo::packet
