#include "common/packet/pcapng.hpp"

#include "common/packet/checksum.hpp"

#include <algorithm>

namespace continuo::packet {

using base::ByteWriter;
using base::MutableByteView;

namespace {

constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kInterfaceStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint64_t kUnknownLength = UINT64_MAX;
constexpr uint16_t kLinkTypeRaw = 101;
constexpr uint32_t kNoSnapLength = 0;
// Options, by block.
constexpr uint16_t kEndOfOptions = 0;
constexpr uint16_t kSectionApplication = 4;
constexpr uint16_t kInterfaceName = 2;
constexpr uint16_t kInterfaceText = 3;
constexpr uint16_t kInterfaceResolution = 9;
constexpr uint16_t kPacketFlags = 2;
constexpr uint16_t kReceivedPackets = 4;
constexpr uint16_t kDroppedPackets = 5;
constexpr uint8_t kNanoseconds = 9;

// Block header, fixed part, epb_flags, end of options, length again.
constexpr size_t kPacketBlockHead = 28;
constexpr size_t kPacketBlockTail = 16;
// Sections and descriptions are short.
constexpr size_t kMaxBeginning = 1024;
constexpr size_t kMaxText = 128;

constexpr uint8_t kTtl = 64;
constexpr uint8_t kUdp = 17;
constexpr size_t kIpv4Bytes = 20;
constexpr size_t kIpv6Bytes = 40;
constexpr size_t kUdpBytes = 8;

constexpr size_t padding_of(size_t bytes) {
    return (4 - bytes % 4) % 4;
}

void write_option(ByteWriter& writer, uint16_t code, base::ByteView value) {
    writer.u16(code);
    writer.u16(static_cast<uint16_t>(value.size()));
    writer.bytes(value);
    writer.zeros(padding_of(value.size()));
}

void write_text(ByteWriter& writer, uint16_t code, std::string_view text) {
    text = text.substr(0, kMaxText);
    write_option(writer, code, {reinterpret_cast<const uint8_t*>(text.data()), text.size()});
}

// `write_content` writes what is between the lengths.
template <typename Content>
void write_block(ByteWriter& writer, uint32_t type, const Content& write_content) {
    const size_t begin = writer.size();
    writer.u32(type);
    writer.u32(0);
    write_content();
    writer.u16(kEndOfOptions);
    writer.u16(0);
    const auto length = static_cast<uint32_t>(writer.size() - begin + sizeof(uint32_t));
    writer.u32(length);
    CTN_ASSERT(writer.ok());
    base::store_big_endian(writer.written().data() + begin + sizeof(uint32_t), length);
}

void write_interface(ByteWriter& writer, std::string_view name, std::string_view text) {
    write_block(writer, kInterfaceDescription, [&] {
        writer.u16(kLinkTypeRaw);
        writer.u16(0);
        writer.u32(kNoSnapLength);
        write_text(writer, kInterfaceName, name);
        write_text(writer, kInterfaceText, text);
        write_option(writer, kInterfaceResolution, base::ByteView(&kNanoseconds, 1));
    });
}

void write_time(ByteWriter& writer, uint64_t utc_ns) {
    writer.u32(static_cast<uint32_t>(utc_ns >> 32U));
    writer.u32(static_cast<uint32_t>(utc_ns));
}

}  // namespace

std::vector<uint8_t> pcapng_beginning(std::string_view application, std::string_view inner_name) {
    std::vector<uint8_t> bytes(kMaxBeginning);
    ByteWriter writer(bytes);
    write_block(writer, kSectionHeader, [&] {
        writer.u32(kByteOrderMagic);
        writer.u16(1);
        writer.u16(0);
        writer.u64(kUnknownLength);
        write_text(writer, kSectionApplication, application);
    });
    write_interface(writer, inner_name, "inner packets");
    write_interface(writer, "outer", "datagrams of the tunnel, below made IP and UDP headers");
    write_interface(
        writer, "tcp",
        "datagrams that go over TCP, below made IP and UDP headers that they never had");
    bytes.resize(writer.size());
    return bytes;
}

size_t packet_block_bytes(size_t packet_bytes) {
    return kPacketBlockHead + packet_bytes + padding_of(packet_bytes) + kPacketBlockTail;
}

MutableByteView write_packet_block(const PacketBlock& block, MutableByteView to) {
    const auto total = static_cast<uint32_t>(packet_block_bytes(block.length));
    CTN_ASSERT(to.size() == total);
    ByteWriter writer(to);
    writer.u32(kEnhancedPacket);
    writer.u32(total);
    writer.u32(static_cast<uint32_t>(block.interface));
    write_time(writer, block.utc_ns);
    writer.u32(block.length);
    writer.u32(block.length);
    const MutableByteView packet = writer.reserve(block.length);
    writer.zeros(padding_of(block.length));
    writer.u16(kPacketFlags);
    writer.u16(sizeof(uint32_t));
    writer.u32(static_cast<uint32_t>(block.direction));
    writer.u16(kEndOfOptions);
    writer.u16(0);
    writer.u32(total);
    return packet;
}

void write_statistics_block(CaptureInterface interface,
                            const CaptureCounts& counts,
                            uint64_t utc_ns,
                            MutableByteView to) {
    CTN_ASSERT(to.size() == kStatisticsBlockBytes);
    ByteWriter writer(to);
    write_block(writer, kInterfaceStatistics, [&] {
        writer.u32(static_cast<uint32_t>(interface));
        write_time(writer, utc_ns);
        for (const auto& [code, value] :
             {std::pair{kReceivedPackets, counts.written + counts.dropped},
              std::pair{kDroppedPackets, counts.dropped}}) {
            writer.u16(code);
            writer.u16(sizeof(uint64_t));
            writer.u64(value);
        }
    });
}

size_t datagram_header_bytes(const DatagramHeader& header) {
    return (header.to.address.is_v4() ? kIpv4Bytes : kIpv6Bytes) + kUdpBytes;
}

void write_datagram_header(const DatagramHeader& header,
                           base::ByteView payload,
                           MutableByteView to) {
    const bool is_v4 = header.to.address.is_v4();
    const size_t ip_bytes = is_v4 ? kIpv4Bytes : kIpv6Bytes;
    const size_t udp_bytes = kUdpBytes + payload.size();
    const auto from = header.from.address.version == header.to.address.version
                          ? header.from.address
                          : base::IpAddress::any(header.to.address.version);
    CTN_ASSERT(to.size() == ip_bytes + kUdpBytes);
    // A run that came over TCP may be longer than any datagram.
    const auto length = [](size_t bytes) {
        return static_cast<uint16_t>(std::min<size_t>(bytes, UINT16_MAX));
    };
    ByteWriter writer(to);
    if (is_v4) {
        constexpr uint8_t kVersionAndLength = 0x45;
        constexpr uint16_t kDontFragment = 0x4000;
        writer.u8(kVersionAndLength);
        writer.u8(header.tos);
        writer.u16(length(ip_bytes + udp_bytes));
        writer.u16(0);
        writer.u16(kDontFragment);
        writer.u8(kTtl);
        writer.u8(kUdp);
        writer.u16(0);
    } else {
        constexpr uint32_t kVersion = 6U << 28U;
        writer.u32(kVersion | static_cast<uint32_t>(header.tos) << 20U);
        writer.u16(length(udp_bytes));
        writer.u8(kUdp);
        writer.u8(kTtl);
    }
    writer.bytes(from.bytes());
    writer.bytes(header.to.address.bytes());
    writer.u16(header.from.port);
    writer.u16(header.to.port);
    writer.u16(length(udp_bytes));
    writer.u16(0);
    if (is_v4) {
        constexpr size_t kChecksumOffset = 10;
        const uint16_t sum = fold(sum_words(to.first(ip_bytes)));
        base::store_big_endian(to.data() + kChecksumOffset, static_cast<uint16_t>(~sum));
        return;
    }
    uint64_t sum = pseudo_header_sum(from, header.to.address, kUdp, udp_bytes);
    sum = sum_words(payload, sum_words(to.subspan(ip_bytes), sum));
    const auto checksum = static_cast<uint16_t>(~fold(sum));
    base::store_big_endian(to.data() + to.size() - 2, checksum == 0 ? uint16_t{0xFFFF} : checksum);
}

void complete_checksum(MutableByteView packet, size_t start, size_t field_offset) {
    if (start > packet.size() || packet.size() - start < sizeof(uint16_t) ||
        field_offset > packet.size() - start - sizeof(uint16_t)) {
        return;
    }
    constexpr size_t kUdpChecksumOffset = 6;
    const auto checksum = static_cast<uint16_t>(~fold(sum_words(packet.subspan(start))));
    const bool is_udp_none = checksum == 0 && field_offset == kUdpChecksumOffset;
    base::store_big_endian(packet.data() + start + field_offset,
                           is_udp_none ? uint16_t{0xFFFF} : checksum);
}

}  // namespace continuo::packet
