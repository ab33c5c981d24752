// Everything of common/packet that reads untrusted bytes. Claims checked: nothing is read or
// written outside the packet; a regular packet is written again byte for byte; what rewrite refuses
// it leaves alone; what summarize accepts rewrite accepts, and there and back is the identity but
// for the two forms of a zero checksum.
#include "common/packet/coalescer.hpp"
#include "common/packet/rewrite.hpp"
#include "common/packet/segmenter.hpp"

#include <algorithm>
#include <vector>

namespace {

using continuo::base::ByteView;
using continuo::base::IpAddress;
using continuo::packet::NodeSide;
using continuo::packet::Offload;
using Bytes = std::vector<uint8_t>;

constexpr size_t kMaxInputBytes = 65536;

void check_regular(const Bytes& packet, const Offload& offload) {
    const auto regular = continuo::packet::parse_regular(packet, offload);
    if (!regular) {
        return;
    }
    Bytes header(regular->fields.header_bytes());
    const size_t written =
        continuo::packet::write_headers(regular->fields, regular->payload, false, header);
    CTN_ASSERT(written == header.size());
    CTN_ASSERT(written + regular->payload.size() == packet.size());
    if (!offload.partial_checksum && offload.gso == continuo::packet::GsoType::None) {
        CTN_ASSERT(std::equal(header.begin(), header.end(), packet.begin()));
    }
}

void check_rewrite(const Bytes& packet, NodeSide side, bool partial) {
    const auto found = continuo::packet::summarize(packet, side);
    const bool is_v4 = packet.empty() || packet[0] >> 4 == 4;
    const IpAddress lease = *IpAddress::parse(is_v4 ? "203.0.113.7" : "2001:db8::7");
    Bytes rewritten = packet;
    const bool done = continuo::packet::rewrite_node_address(rewritten, side, lease, partial);
    CTN_ASSERT(done || rewritten == packet);
    if (!found.summary) {
        return;
    }
    CTN_ASSERT(done && found.summary->payload_offset <= packet.size());
    const auto after = continuo::packet::summarize(rewritten, side);
    CTN_ASSERT(after.summary && after.summary->tuple.local == lease);
    CTN_ASSERT(after.summary->tuple.remote == found.summary->tuple.remote);
    CTN_ASSERT(after.summary->tuple.local_port == found.summary->tuple.local_port);
}

void check_segments(const Bytes& packet, const Offload& offload) {
    Bytes segment(kMaxInputBytes);
    const uint32_t count = continuo::packet::segment_count(packet, offload);
    for (const uint32_t index : {0U, 1U, count - 1U, count}) {
        CTN_ASSERT(continuo::packet::write_segment(packet, offload, index, segment) <=
                   packet.size());
    }
    Bytes completed = packet;
    continuo::packet::complete_checksum(completed, offload);
}

}  // namespace

// Input: virtio_net_hdr, then the packet. The header's checksum_start serves as MSS too.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    const ByteView frame(data, std::min(size, kMaxInputBytes));
    Offload offload;
    if (!continuo::packet::parse_vnet_header(frame, offload)) {
        return 0;
    }
    const ByteView view = frame.subspan(continuo::packet::kVnetHeaderBytes);
    const Bytes packet(view.begin(), view.end());
    check_regular(packet, Offload{});
    check_regular(packet, offload);
    check_rewrite(packet, NodeSide::Source, offload.partial_checksum);
    check_rewrite(packet, NodeSide::Destination, offload.partial_checksum);
    check_segments(packet, offload);
    Bytes clamped = packet;
    const uint16_t mss = offload.checksum_start;
    if (!continuo::packet::clamp_mss(clamped, mss, offload.partial_checksum)) {
        CTN_ASSERT(clamped == packet);
    }
    return 0;
}
