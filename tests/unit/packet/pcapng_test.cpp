#include "common/packet/checksum.hpp"
#include "common/packet/pcapng.hpp"

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using base::IpAddress;
using Bytes = std::vector<uint8_t>;

Bytes bytes_of(std::string_view hex) {
    Bytes bytes;
    std::string digits;
    for (const char c : hex) {
        if (c == ' ') {
            continue;
        }
        digits += c;
        if (digits.size() == 2) {
            bytes.push_back(static_cast<uint8_t>(std::stoul(digits, nullptr, 16)));
            digits.clear();
        }
    }
    return bytes;
}

Bytes block_of(const PacketBlock& block, const Bytes& packet) {
    Bytes bytes(packet_block_bytes(packet.size()), 0xEE);
    const base::MutableByteView place = write_packet_block(block, bytes);
    EXPECT_EQ(place.size(), packet.size());
    std::copy(packet.begin(), packet.end(), place.begin());
    return bytes;
}

// The bytes are made by hand from draft-ietf-opsawg-pcapng sections 4.1 and 4.2.
TEST(Pcapng, AFileBeginsWithASectionAndRawInterfacesInNanoseconds) {
    const Bytes expected = bytes_of(
        // section header: magic, 1.0, length unknown; shb_userappl "ab"
        "0A0D0D0A 00000028 1A2B3C4D 00010000 FFFFFFFFFFFFFFFF 0004 0002 61620000 00000000 00000028"
        // interface: link type 101, no snap length; if_name "t0", if_description, if_tsresol 9
        "00000001 0000003C 00650000 00000000 0002 0002 74300000"
        "0003 000D 696E6E6572207061636B657473000000 0009 0001 09000000 00000000 0000003C"
        "00000001 00000068 00650000 00000000 0002 0005 6F75746572000000");
    const Bytes bytes = pcapng_beginning("ab", "t0");
    constexpr size_t kOuterEnd = 0x28 + 0x3C + 0x68;
    constexpr size_t kTcpBytes = 0x7C;
    ASSERT_EQ(bytes.size(), kOuterEnd + kTcpBytes);
    EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + static_cast<long>(expected.size())), expected);
    EXPECT_EQ(base::load_big_endian<uint32_t>(&bytes[kOuterEnd - 4]), 0x68U);
    EXPECT_EQ(Bytes(bytes.begin() + kOuterEnd, bytes.begin() + kOuterEnd + 24),
              bytes_of("00000001 0000007C 00650000 00000000 0002 0003 74637000"));
    EXPECT_EQ(base::load_big_endian<uint32_t>(&bytes[bytes.size() - 4]), kTcpBytes);
}

TEST(Pcapng, APacketBlockHasTimeLengthsDirectionAndPaddingToFourBytes) {
    const PacketBlock block{CaptureInterface::Outer, CaptureDirection::Outbound, 0x1122334455667788,
                            5};
    EXPECT_EQ(block_of(block, bytes_of("0102030405")),
              bytes_of("00000006 00000034 00000001 11223344 55667788 00000005 00000005"
                       "0102030405 000000 0002 0004 00000002 0000 0000 00000034"));
    EXPECT_EQ(packet_block_bytes(0), 44U);
    EXPECT_EQ(packet_block_bytes(1), packet_block_bytes(4));
    EXPECT_EQ(packet_block_bytes(5), packet_block_bytes(4) + 4);
}

TEST(Pcapng, AStatisticsBlockCountsWhatWasLeftOutAsDropped) {
    Bytes bytes(kStatisticsBlockBytes, 0xEE);
    write_statistics_block(CaptureInterface::Outer, {258, 2}, 1, bytes);
    EXPECT_EQ(bytes, bytes_of("00000005 00000034 00000001 00000000 00000001"
                              "0004 0008 0000000000000104 0005 0008 0000000000000002"
                              "00000000 00000034"));
}

TEST(Pcapng, AMadeIpv4HeaderHasARightChecksumAndNoneForUdp) {
    const DatagramHeader header{
        {*IpAddress::parse("192.0.2.1"), 4660}, {*IpAddress::parse("198.51.100.2"), 9347}, 0xB8};
    Bytes bytes(datagram_header_bytes(header));
    const Bytes payload(3, 0x77);
    write_datagram_header(header, payload, bytes);
    ASSERT_EQ(bytes.size(), 28U);
    EXPECT_EQ(fold(sum_words(base::ByteView(bytes).first(20))), 0xFFFF);
    bytes[10] = bytes[11] = 0;
    EXPECT_EQ(bytes, bytes_of("45B8001F 00004000 40110000 C0000201 C6336402 12342483 000B0000"));
}

TEST(Pcapng, AMadeIpv6HeaderHasARightUdpChecksum) {
    const DatagramHeader header{
        {*IpAddress::parse("2001:db8::1"), 1}, {*IpAddress::parse("2001:db8::2"), 9347}, 0xB8};
    Bytes bytes(datagram_header_bytes(header));
    const Bytes payload = {1, 2, 3};
    write_datagram_header(header, payload, bytes);
    ASSERT_EQ(bytes.size(), 48U);
    EXPECT_EQ(Bytes(bytes.begin(), bytes.begin() + 8), bytes_of("6B800000 000B1140"));
    const uint64_t pseudo = pseudo_header_sum(header.from.address, header.to.address, 17, 11);
    const uint64_t sum = sum_words(payload, sum_words(base::ByteView(bytes).subspan(40), pseudo));
    EXPECT_EQ(fold(sum), 0xFFFF);
}

TEST(Pcapng, AnUnknownLocalAddressTakesTheVersionOfTheOther) {
    const DatagramHeader header{
        {IpAddress::any(base::IpVersion::V4), 1}, {*IpAddress::parse("2001:db8::2"), 9347}, 0};
    Bytes bytes(datagram_header_bytes(header));
    write_datagram_header(header, bytes_of("01"), bytes);
    EXPECT_EQ(Bytes(bytes.begin() + 8, bytes.begin() + 24), Bytes(16, 0));
}

TEST(Pcapng, APartialChecksumIsCompleted) {
    // A UDP datagram whose field holds the folded sum of the pseudo-header, as with offload.
    const IpAddress from = *IpAddress::parse("192.0.2.1");
    const IpAddress to = *IpAddress::parse("192.0.2.2");
    Bytes packet(20, 0);
    const Bytes udp = bytes_of("00010002 000C0000 01020304");
    packet.insert(packet.end(), udp.begin(), udp.end());
    const uint64_t pseudo = pseudo_header_sum(from, to, 17, udp.size());
    base::store_big_endian(&packet[26], fold(pseudo));
    complete_checksum(packet, 20, 6);
    EXPECT_EQ(fold(sum_words(base::ByteView(packet).subspan(20), pseudo)), 0xFFFF);
}

TEST(Pcapng, AChecksumOutsideOfThePacketChangesNothing) {
    Bytes packet(8, 7);
    const Bytes before = packet;
    complete_checksum(packet, 9, 0);
    complete_checksum(packet, 4, 3);
    complete_checksum(packet, 0, SIZE_MAX - 1);
    EXPECT_EQ(packet, before);
}

}  // namespace
}  // namespace continuo::packet
