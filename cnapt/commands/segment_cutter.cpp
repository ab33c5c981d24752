#include "cnapt/commands/segment_cutter.hpp"

#include "common/packet/rewrite.hpp"

#include <algorithm>
#include <utility>

namespace continuo::cnapt::commands {
namespace {

constexpr uint16_t kCapturedMtu = 1500;
constexpr size_t kLargestPacket = 65535;
constexpr uint16_t kTcpChecksumAt = 16;
constexpr uint16_t kUdpChecksumAt = 6;
constexpr size_t kTcpHeaderBytes = 20;
// Bytes behind which the sender has nothing more to say for now.
constexpr uint8_t kEndings = packet::tcp_flag::kPsh | packet::tcp_flag::kFin |
                             packet::tcp_flag::kSyn | packet::tcp_flag::kRst;

// Has the checksum of a TCP or UDP packet without options of IP ignored.
packet::Offload unchecked_of(base::ByteView captured) {
    const bool is_v4 = captured[0] >> 4 == 4;
    const auto protocol = static_cast<packet::Protocol>(captured[is_v4 ? 9 : 6]);
    packet::Offload offload;
    offload.partial_checksum =
        protocol == packet::Protocol::Tcp || protocol == packet::Protocol::Udp;
    offload.checksum_start = is_v4 ? 20 : 40;
    offload.checksum_offset = protocol == packet::Protocol::Tcp ? kTcpChecksumAt : kUdpChecksumAt;
    return offload;
}

// Several segments of `segment` bytes of payload in one packet, if there is more.
PreparedPacket
packet_of(const packet::HeaderFields& fields, base::ByteView payload, size_t segment) {
    PreparedPacket made;
    const size_t header = fields.header_bytes();
    made.bytes.resize(header + payload.size());
    std::copy(payload.begin(), payload.end(),
              made.bytes.begin() + static_cast<std::ptrdiff_t>(header));
    const bool is_super = payload.size() > segment;
    static_cast<void>(packet::write_headers(fields, payload, is_super, made.bytes));
    if (is_super) {
        const bool is_v4 = fields.source.is_v4();
        made.offload.gso = is_v4 ? packet::GsoType::Tcp4 : packet::GsoType::Tcp6;
        made.offload.segment_bytes = static_cast<uint16_t>(segment);
        made.offload.header_bytes = static_cast<uint16_t>(header);
        made.offload.partial_checksum = true;
        made.offload.checksum_start = is_v4 ? 20 : 40;
        made.offload.checksum_offset = kTcpChecksumAt;
    }
    return made;
}

}  // namespace

bool SegmentCutter::add(const Place& place,
                        base::ByteView captured,
                        std::vector<PreparedPacket>& to) {
    auto regular = packet::parse_regular(captured, unchecked_of(captured));
    if (!regular) {
        flush(place.key, to);
        PreparedPacket whole;
        whole.bytes.assign(captured.begin(), captured.end());
        const auto side = place.is_up ? packet::NodeSide::Source : packet::NodeSide::Destination;
        if (captured.size() > kCapturedMtu ||
            !packet::rewrite_node_address(whole.bytes, side, place.inner, false)) {
            return false;
        }
        to.push_back(std::move(whole));
        return true;
    }
    packet::HeaderFields& fields = regular->fields;
    (place.is_up ? fields.source : fields.destination) = place.inner;
    if (fields.protocol != packet::Protocol::Tcp) {
        if (captured.size() <= kCapturedMtu) {
            to.push_back(packet_of(fields, regular->payload, kLargestPacket));
        }
        return captured.size() <= kCapturedMtu;
    }
    std::vector<uint8_t> payload;
    if (const auto found = waiting_.find(place.key); found != waiting_.end()) {
        const Waiting& before = found->second;
        const auto next = static_cast<uint32_t>(before.fields.sequence + before.payload.size());
        if (!regular->payload.empty() && fields.sequence == next) {
            payload = std::move(found->second.payload);
            fields.sequence = before.fields.sequence;
            waiting_.erase(found);
        } else if (!regular->payload.empty() || (fields.flags & kEndings) != 0) {
            flush(place.key, to);
        }
    }
    payload.insert(payload.end(), regular->payload.begin(), regular->payload.end());
    cut(place, fields, std::move(payload), to);
    return true;
}

void SegmentCutter::cut(const Place& place,
                        packet::HeaderFields fields,
                        std::vector<uint8_t> payload,
                        std::vector<PreparedPacket>& to) {
    const size_t header = fields.header_bytes();
    const size_t ip_header = fields.source.is_v4() ? 20 : 40;
    // The MSS is without options (RFC 6691).
    const size_t segment = place.mss - (header - ip_header - kTcpHeaderBytes);
    const bool is_end = (fields.flags & kEndings) != 0;
    base::ByteView rest(payload);
    const bool fits = rest.size() <= segment;
    const size_t whole = fits || is_end ? rest.size() : rest.size() - rest.size() % segment;
    const size_t most = (kLargestPacket - header) / segment * segment;
    for (size_t at = 0; at < whole || (at == 0 && rest.empty());) {
        const size_t length = std::min(most, whole - at);
        packet::HeaderFields some = fields;
        some.sequence += static_cast<uint32_t>(at);
        if (at + length < payload.size()) {
            some.flags &= static_cast<uint8_t>(~kEndings);
        }
        to.push_back(packet_of(some, rest.subspan(at, length), segment));
        at += std::max<size_t>(length, 1);
    }
    if (whole < rest.size()) {
        fields.sequence += static_cast<uint32_t>(whole);
        payload.erase(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(whole));
        waiting_[place.key] = {fields, std::move(payload)};
    }
}

void SegmentCutter::flush(Key key, std::vector<PreparedPacket>& to) {
    const auto found = waiting_.find(key);
    if (found != waiting_.end()) {
        to.push_back(packet_of(found->second.fields, found->second.payload, kLargestPacket));
        waiting_.erase(found);
    }
}

std::vector<SegmentCutter::Key> SegmentCutter::waiting() const {
    std::vector<Key> keys;
    for (const auto& [key, waiting] : waiting_) {
        keys.push_back(key);
    }
    return keys;
}

}  // namespace continuo::cnapt::commands
