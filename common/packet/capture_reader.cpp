#include "common/packet/capture_reader.hpp"

#include <algorithm>
#include <limits>

namespace continuo::packet {

using base::ByteView;
using base::Errc;
using base::Error;
using base::load_big_endian;

namespace {

constexpr uint32_t kMagicUs = 0xA1B2C3D4;
constexpr uint32_t kMagicNs = 0xA1B23C4D;
constexpr uint32_t kSectionBlock = 0x0A0D0D0A;  // the same in both byte orders
constexpr uint32_t kByteOrder = 0x1A2B3C4D;
constexpr uint32_t kInterfaceBlock = 1;
constexpr uint32_t kOldPacketBlock = 2;  // obsolete
constexpr uint32_t kSimplePacketBlock = 3;
constexpr uint32_t kEnhancedPacketBlock = 6;
constexpr uint16_t kResolutionOption = 9;

constexpr size_t kPcapHeaderBytes = 24;
constexpr size_t kRecordHeaderBytes = 16;
constexpr size_t kBlockHeaderBytes = 8;
constexpr size_t kBlockFrameBytes = 12;  // header, and the length again at the end
constexpr uint64_t kNsPerS = 1'000'000'000;
constexpr unsigned kMaxPowerOfTen = 27;  // a second in 64 bits of finer units is 0 ns

constexpr std::string_view kNoCapture = "is no capture file (neither pcap nor pcapng)";
constexpr std::string_view kEndsWithin = "ends within a packet: the file is cut off";
constexpr std::string_view kTooLong = "has a packet longer than 512 KiB: is the file damaged?";
constexpr std::string_view kDamaged = "is damaged: a block has a wrong length";

// Link types (draft-ietf-opsawg-pcaplinktype).
constexpr uint16_t kNull = 0;
constexpr uint16_t kEthernet = 1;
constexpr uint16_t kRawBsd = 12;
constexpr uint16_t kRawOpenBsd = 14;
constexpr uint16_t kRaw = 101;
constexpr uint16_t kLoop = 108;
constexpr uint16_t kLinuxCooked = 113;
constexpr uint16_t kIpv4 = 228;
constexpr uint16_t kIpv6 = 229;
constexpr uint16_t kLinuxCooked2 = 276;

constexpr uint16_t kEtherIpv4 = 0x0800;
constexpr uint16_t kEtherIpv6 = 0x86DD;
constexpr uint16_t kEtherPppoe = 0x8864;

bool is_vlan(uint16_t ether_type) {
    return ether_type == 0x8100 || ether_type == 0x88A8 || ether_type == 0x9100;
}

// The packet behind an EtherType at `at`; empty: no IP.
ByteView behind_ether_type(ByteView frame, size_t at) {
    while (frame.size() >= at + 2) {
        const auto type = load_big_endian<uint16_t>(&frame[at]);
        if (type == kEtherIpv4 || type == kEtherIpv6) {
            return frame.subspan(at + 2);
        }
        constexpr size_t kPppoeBytes = 8;  // header, and the protocol of PPP
        if (type == kEtherPppoe && frame.size() >= at + 2 + kPppoeBytes) {
            const auto ppp = load_big_endian<uint16_t>(&frame[at + kPppoeBytes]);
            return ppp == 0x0021 || ppp == 0x0057 ? frame.subspan(at + 2 + kPppoeBytes)
                                                  : ByteView();
        }
        if (!is_vlan(type)) {
            return {};
        }
        at += 4;
    }
    return {};
}

ByteView behind_header(ByteView frame, size_t bytes) {
    return frame.subspan(std::min(bytes, frame.size()));
}

// Nothing for a link type that is not known; empty: no IP.
std::optional<ByteView> behind_link(uint16_t link, ByteView frame) {
    switch (link) {
    case kNull:
    case kLoop:
        return behind_header(frame, 4);
    case kEthernet:
        return behind_ether_type(frame, 12);
    case kLinuxCooked:
        return behind_ether_type(frame, 14);
    case kLinuxCooked2: {
        const bool is_ip =
            frame.size() > 20 && (load_big_endian<uint16_t>(frame.data()) == kEtherIpv4 ||
                                  load_big_endian<uint16_t>(frame.data()) == kEtherIpv6);
        return is_ip ? frame.subspan(20) : ByteView();
    }
    case kRaw:
    case kRawBsd:
    case kRawOpenBsd:
    case kIpv4:
    case kIpv6:
        return frame;
    default:
        return std::nullopt;
    }
}

// Length in the IP header; 0 where it is not said (segmentation offload), or this is no IP.
size_t declared_bytes(ByteView packet) {
    if (packet.size() >= 20 && packet[0] >> 4 == 4) {
        return load_big_endian<uint16_t>(&packet[2]);
    }
    if (packet.size() >= 40 && packet[0] >> 4 == 6) {
        const auto payload = load_big_endian<uint16_t>(&packet[4]);
        return payload == 0 ? 0 : payload + size_t{40};
    }
    return 0;
}

bool is_ip(ByteView packet) {
    return (packet.size() >= 20 && packet[0] >> 4 == 4) ||
           (packet.size() >= 40 && packet[0] >> 4 == 6);
}

__extension__ using Wide = unsigned __int128;

uint64_t saturated(Wide value) {
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    return value > kMost ? kMost : static_cast<uint64_t>(value);
}

// `resolution` as in if_tsresol: a power of ten, or of two where the highest bit is set.
uint64_t to_ns(uint64_t units, uint8_t resolution) {
    const unsigned power = resolution & 0x7FU;
    Wide ns = static_cast<Wide>(units) * kNsPerS;
    if ((resolution & 0x80U) != 0) {
        return saturated(ns >> power);
    }
    if (power > kMaxPowerOfTen) {
        return 0;
    }
    for (unsigned i = 0; i < power; ++i) {
        ns /= 10;
    }
    return saturated(ns);
}

}  // namespace

uint16_t CaptureReader::u16(const uint8_t* from) const {
    const auto value = load_big_endian<uint16_t>(from);
    return is_little_endian_ ? __builtin_bswap16(value) : value;
}

uint32_t CaptureReader::u32(const uint8_t* from) const {
    const auto value = load_big_endian<uint32_t>(from);
    return is_little_endian_ ? __builtin_bswap32(value) : value;
}

ByteView CaptureReader::take(size_t bytes) {
    buffer_.resize(std::max(buffer_.size(), bytes));
    const size_t read = read_(base::MutableByteView(buffer_).first(bytes));
    return ByteView(buffer_).first(std::min(read, bytes));
}

bool CaptureReader::skip(size_t bytes) {
    constexpr size_t kAtOnce = size_t{64} * 1024;
    while (bytes > 0) {
        const size_t part = std::min(bytes, kAtOnce);
        if (take(part).size() < part) {
            return false;
        }
        bytes -= part;
    }
    return true;
}

base::Result<std::optional<CapturedPacket>> CaptureReader::next() {
    while (!is_over_) {
        auto frame = next_frame();
        if (!frame) {
            is_over_ = true;
            return frame.error();
        }
        if (!*frame) {
            is_over_ = true;
            break;
        }
        ++frames_;
        if (const auto packet = packet_in(**frame)) {
            return packet;
        }
        ++not_ip_;
    }
    return std::optional<CapturedPacket>();
}

std::optional<CapturedPacket> CaptureReader::packet_in(const Frame& frame) {
    const auto behind = behind_link(frame.link, frame.bytes);
    if (!behind) {
        unknown_link_ = frame.link;
        return std::nullopt;
    }
    if (!is_ip(*behind)) {
        return std::nullopt;
    }
    const size_t sent = frame.length - (frame.bytes.size() - behind->size());
    const size_t declared = declared_bytes(*behind);
    CapturedPacket packet;
    packet.at_ns = frame.at_ns;
    packet.length = declared == 0 ? sent : declared;
    packet.bytes = behind->first(std::min(behind->size(), packet.length));
    return packet;
}

base::Result<CaptureReader::MaybeFrame> CaptureReader::next_frame() {
    if (format_ == Format::Unknown) {
        CTN_TRY(begin());
    }
    if (format_ == Format::Pcap) {
        return next_record();
    }
    while (true) {
        bool is_end = false;
        MaybeFrame frame = CTN_TRY(next_block(is_end));
        if (frame || is_end) {
            return frame;
        }
    }
}

base::Result<void> CaptureReader::begin() {
    const ByteView magic = take(4);
    if (magic.size() < 4) {
        return Error{Errc::Malformed, magic.empty() ? "is empty" : kNoCapture};
    }
    const auto big = load_big_endian<uint32_t>(magic.data());
    if (big == kSectionBlock) {
        format_ = Format::PcapNg;
        return begin_section({});
    }
    is_little_endian_ = big == __builtin_bswap32(kMagicUs) || big == __builtin_bswap32(kMagicNs);
    const uint32_t value = u32(magic.data());
    if (value != kMagicUs && value != kMagicNs) {
        return Error{Errc::Malformed, kNoCapture};
    }
    has_ns_ = value == kMagicNs;
    constexpr size_t kRest = kPcapHeaderBytes - 4;
    const ByteView rest = take(kRest);
    if (rest.size() < kRest) {
        return Error{Errc::Truncated, "ends within its header"};
    }
    constexpr uint16_t kMajor = 2;
    if (u16(rest.data()) != kMajor) {
        return Error{Errc::Malformed, kNoCapture};
    }
    format_ = Format::Pcap;
    Interface only;
    only.link = static_cast<uint16_t>(u32(&rest[16]));  // above it the length of a check sum
    interfaces_.push_back(only);
    return {};
}

base::Result<CaptureReader::MaybeFrame> CaptureReader::next_record() {
    const ByteView header = take(kRecordHeaderBytes);
    if (header.empty()) {
        return MaybeFrame();
    }
    if (header.size() < kRecordHeaderBytes) {
        return Error{Errc::Truncated, kEndsWithin};
    }
    Frame frame;
    frame.link = interfaces_.front().link;
    const uint64_t fraction = u32(&header[4]);
    frame.at_ns = u32(header.data()) * kNsPerS + (has_ns_ ? fraction : fraction * 1000);
    const size_t bytes = u32(&header[8]);
    frame.length = std::max<size_t>(u32(&header[12]), bytes);
    if (bytes > kMaxCaptureBlock) {
        return Error{Errc::LimitReached, kTooLong};
    }
    frame.bytes = take(bytes);
    if (frame.bytes.size() < bytes) {
        return Error{Errc::Truncated, kEndsWithin};
    }
    return MaybeFrame(frame);
}

// `beginning`: the rest of the block's header, unless it is read here.
base::Result<void> CaptureReader::begin_section(ByteView beginning) {
    constexpr size_t kRead = 8;  // length and byte order
    const ByteView head = beginning.empty() ? take(kRead) : beginning;
    if (head.size() < kRead) {
        return Error{Errc::Truncated, "ends within its header"};
    }
    const auto order = load_big_endian<uint32_t>(&head[4]);
    is_little_endian_ = order == __builtin_bswap32(kByteOrder);
    if (!is_little_endian_ && order != kByteOrder) {
        return Error{Errc::Malformed, kNoCapture};
    }
    const size_t length = u32(head.data());
    constexpr size_t kLeast = 28;
    if (length < kLeast || length % 4 != 0) {
        return Error{Errc::Malformed, kDamaged};
    }
    interfaces_.clear();
    if (!skip(length - kBlockHeaderBytes - 4)) {
        return Error{Errc::Truncated, "ends within its header"};
    }
    return {};
}

base::Result<CaptureReader::MaybeFrame> CaptureReader::next_block(bool& is_end) {
    const ByteView header = take(kBlockHeaderBytes);
    is_end = header.empty();
    if (is_end) {
        return MaybeFrame();
    }
    if (header.size() < kBlockHeaderBytes) {
        return Error{Errc::Truncated, kEndsWithin};
    }
    const uint32_t type = u32(header.data());
    if (type == kSectionBlock) {
        uint8_t beginning[8];
        std::copy_n(&header[4], 4, beginning);
        const ByteView order = take(4);
        if (order.size() < 4) {
            return Error{Errc::Truncated, kEndsWithin};
        }
        std::copy_n(order.data(), 4, beginning + 4);
        CTN_TRY(begin_section(beginning));
        return MaybeFrame();
    }
    const size_t length = u32(&header[4]);
    if (length < kBlockFrameBytes || length % 4 != 0) {
        return Error{Errc::Malformed, kDamaged};
    }
    const size_t rest = length - kBlockHeaderBytes;
    const bool is_packet =
        type == kSimplePacketBlock || type == kEnhancedPacketBlock || type == kOldPacketBlock;
    if (!is_packet && type != kInterfaceBlock) {
        return skip(rest) ? base::Result<MaybeFrame>(MaybeFrame())
                          : Error{Errc::Truncated, kEndsWithin};
    }
    if (rest > kMaxCaptureBlock) {
        return Error{Errc::LimitReached, kTooLong};
    }
    const ByteView whole = take(rest);
    if (whole.size() < rest) {
        return Error{Errc::Truncated, kEndsWithin};
    }
    if (u32(&whole[rest - 4]) != length) {
        return Error{Errc::Malformed, kDamaged};
    }
    const ByteView body = whole.first(rest - 4);
    if (type == kInterfaceBlock) {
        CTN_TRY(add_interface(body));
        return MaybeFrame();
    }
    return packet_of(type, body);
}

base::Result<void> CaptureReader::add_interface(ByteView body) {
    constexpr size_t kFixed = 8;
    if (body.size() < kFixed) {
        return Error{Errc::Malformed, kDamaged};
    }
    if (interfaces_.size() >= kMaxCaptureInterfaces) {
        return Error{Errc::LimitReached, "has more than 1024 interfaces"};
    }
    Interface added;
    added.link = u16(body.data());
    added.snap_bytes = u32(&body[4]);
    for (size_t at = kFixed; body.size() >= at + 4;) {
        const uint16_t code = u16(&body[at]);
        const size_t bytes = u16(&body[at + 2]);
        if (code == 0 || body.size() < at + 4 + bytes) {
            break;
        }
        if (code == kResolutionOption && bytes == 1) {
            added.resolution = body[at + 4];
        }
        at += 4 + (bytes + 3) / 4 * 4;
    }
    interfaces_.push_back(added);
    return {};
}

base::Result<CaptureReader::MaybeFrame> CaptureReader::packet_of(uint32_t type, ByteView body) {
    const bool is_simple = type == kSimplePacketBlock;
    const size_t fixed = is_simple ? 4 : 20;
    if (body.size() < fixed) {
        return Error{Errc::Malformed, kDamaged};
    }
    size_t interface = 0;
    if (type == kEnhancedPacketBlock) {
        interface = u32(body.data());
    } else if (type == kOldPacketBlock) {
        interface = u16(body.data());
    }
    if (interface >= interfaces_.size()) {
        return Error{Errc::Malformed, "is damaged: a packet of an interface that it does not name"};
    }
    const Interface& of = interfaces_[interface];
    Frame frame;
    frame.link = of.link;
    size_t bytes = body.size() - fixed;
    if (is_simple) {
        frame.length = u32(body.data());
        bytes = std::min(bytes, frame.length);
        bytes = of.snap_bytes == 0 ? bytes : std::min<size_t>(bytes, of.snap_bytes);
    } else {
        const size_t captured = u32(&body[12]);
        if (captured > bytes) {
            return Error{Errc::Malformed, kDamaged};
        }
        bytes = captured;
        frame.length = std::max<size_t>(u32(&body[16]), bytes);
        at_ns_ = to_ns(uint64_t{u32(&body[4])} << 32 | u32(&body[8]), of.resolution);
    }
    frame.at_ns = at_ns_;
    frame.bytes = body.subspan(fixed, bytes);
    return MaybeFrame(frame);
}

}  // namespace continuo::packet
