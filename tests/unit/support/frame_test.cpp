#include "tests/support/link/frame.hpp"
#include "tests/support/raw_packet.hpp"

#include <cstring>

#include <gtest/gtest.h>

namespace continuo::tests {
namespace {

constexpr uint16_t kIpv4 = 0x0800;
constexpr uint16_t kIpv6 = 0x86DD;

test::RawPacket raw(bool is_v4, uint8_t protocol, size_t payload) {
    test::RawPacket packet;
    packet.source = *base::IpAddress::parse(is_v4 ? "192.0.2.1" : "2001:db8::1");
    packet.destination = *base::IpAddress::parse(is_v4 ? "192.0.2.2" : "2001:db8::2");
    packet.protocol = protocol;
    packet.source_port = 40000;
    packet.destination_port = 53;
    packet.payload.assign(payload, 0x5A);
    return packet;
}

// A frame with an Ethernet header put in, and what describe_frame() makes of it.
LinkPacket ethernet(std::vector<uint8_t> vnet_and_ip, uint16_t type) {
    std::vector<uint8_t> header(kFrameEthernetBytes);
    base::store_big_endian(header.data() + 12, type);
    LinkPacket packet;
    packet.bytes = std::move(vnet_and_ip);
    packet.bytes.insert(packet.bytes.begin() + kFrameVnetBytes, header.begin(), header.end());
    EXPECT_TRUE(describe_frame(packet));
    return packet;
}

LinkPacket frame_of(const test::RawPacket& packet) {
    return ethernet(test::build_frame(packet), packet.source.is_v4() ? kIpv4 : kIpv6);
}

template <typename T>
void put(LinkPacket& packet, size_t at, T value) {
    std::memcpy(packet.bytes.data() + at, &value, sizeof value);
}

TEST(LinkFrame, TellsProtocolSizeAndWhereThePayloadBegins) {
    const LinkPacket udp = frame_of(raw(true, 17, 100));
    EXPECT_EQ(udp.protocol, LinkProtocol::Udp);
    EXPECT_EQ(udp.wire_bytes, 128U);
    EXPECT_EQ(udp.segment_bytes, 128U);
    EXPECT_EQ(udp.segments, 1U);
    EXPECT_EQ(udp.corruptible_at, kFrameHeaderBytes + 20);
    const LinkPacket tcp = frame_of(raw(false, 6, 100));
    EXPECT_EQ(tcp.protocol, LinkProtocol::Tcp);
    EXPECT_EQ(tcp.wire_bytes, 160U);
    EXPECT_EQ(tcp.corruptible_at, kFrameHeaderBytes + 40);
    EXPECT_EQ(frame_of(raw(true, 1, 8)).protocol, LinkProtocol::Icmp);
    EXPECT_EQ(frame_of(raw(false, 58, 8)).protocol, LinkProtocol::Icmp);
    EXPECT_EQ(frame_of(raw(true, 47, 8)).protocol, LinkProtocol::Other);
}

TEST(LinkFrame, ArpAndNeighbourDiscoveryAreTheirOwnProtocol) {
    EXPECT_EQ(ethernet(std::vector<uint8_t>(38), 0x0806).protocol, LinkProtocol::Neighbour);
    LinkPacket packet = frame_of(raw(false, 58, 24));
    for (const int type : {133, 134, 135, 136, 137}) {
        packet.bytes[kFrameHeaderBytes + 40] = static_cast<uint8_t>(type);
        ASSERT_TRUE(describe_frame(packet));
        EXPECT_EQ(packet.protocol, LinkProtocol::Neighbour);
    }
    packet.bytes[kFrameHeaderBytes + 40] = 2;  // packet too big
    ASSERT_TRUE(describe_frame(packet));
    EXPECT_EQ(packet.protocol, LinkProtocol::Icmp);
}

TEST(LinkFrame, ExtensionHeadersAndFragmentsHideNoProtocol) {
    std::vector<uint8_t> bytes = test::build_frame(raw(false, 17, 20));
    bytes[kFrameVnetBytes + 6] = 0;                                    // hop-by-hop, then
    const std::vector<uint8_t> headers{44, 0, 0,    0,    0, 0, 0, 0,  // a fragment header, then
                                       17, 0, 0x05, 0xA9, 0, 0, 0, 1};
    bytes.insert(bytes.begin() + kFrameVnetBytes + 40, headers.begin(), headers.end());
    const LinkPacket packet = ethernet(bytes, kIpv6);
    EXPECT_EQ(packet.protocol, LinkProtocol::Udp);
    EXPECT_EQ(packet.corruptible_at, kFrameHeaderBytes + 56);
}

TEST(LinkFrame, ASuperPacketCountsAsThePacketsItIsCutInto) {
    LinkPacket tcp = frame_of(raw(true, 6, 4000));
    tcp.bytes[1] = 1;  // TCPv4
    put<uint16_t>(tcp, 4, 1460);
    ASSERT_TRUE(describe_frame(tcp));
    EXPECT_EQ(tcp.segments, 3U);
    EXPECT_EQ(tcp.wire_bytes, 4000U + 3 * 40);
    EXPECT_EQ(tcp.segment_bytes, 1500U);
    EXPECT_EQ(tcp.corruptible_at, tcp.bytes.size()) << "no bit can be flipped unnoticed";
    LinkPacket udp = frame_of(raw(false, 17, 3600));
    udp.bytes[1] = 5;  // UDP_L4
    put<uint16_t>(udp, 4, 1200);
    ASSERT_TRUE(describe_frame(udp));
    EXPECT_EQ(udp.segments, 3U);
    EXPECT_EQ(udp.wire_bytes, 3600U + 3 * 48);
    EXPECT_EQ(udp.segment_bytes, 1248U);
}

TEST(LinkFrame, AChecksumLeftToTheDeviceIsCompleted) {
    for (const bool is_v4 : {true, false}) {
        for (const auto& [protocol, checksum_at] : {std::pair<uint8_t, size_t>{17, 6}, {6, 16}}) {
            for (const size_t payload : {100U, 101U}) {
                const LinkPacket right = frame_of(raw(is_v4, protocol, payload));
                LinkPacket packet = right;
                const size_t start = kFrameEthernetBytes + (is_v4 ? 20U : 40U);
                const base::ByteView ip = base::ByteView(right.bytes).subspan(kFrameHeaderBytes);
                // The kernel leaves the sum of the pseudo header there.
                const base::ByteView addresses = is_v4 ? ip.subspan(12, 8) : ip.subspan(8, 32);
                uint32_t sum = test::add_checksum(0, addresses);
                sum += protocol + static_cast<uint32_t>(ip.size() - (is_v4 ? 20 : 40));
                base::store_big_endian(packet.bytes.data() + kFrameVnetBytes + start + checksum_at,
                                       static_cast<uint16_t>(~test::fold_checksum(sum)));
                packet.bytes[0] = 1;
                put(packet, 6, static_cast<uint16_t>(start));
                put(packet, 8, static_cast<uint16_t>(checksum_at));
                EXPECT_TRUE(complete_checksum(packet.bytes));
                EXPECT_EQ(packet.bytes, right.bytes);
                EXPECT_FALSE(complete_checksum(packet.bytes)) << "done";
            }
        }
    }
}

TEST(LinkFrame, NothingInAFrameCrashes) {
    base::SeededRandom random(3);
    const std::vector<uint8_t> whole = frame_of(raw(false, 6, 300)).bytes;
    for (int round = 0; round < 20'000; ++round) {
        LinkPacket packet;
        packet.bytes.assign(whole.begin(),
                            whole.begin() + static_cast<ptrdiff_t>(random.below(whole.size() + 1)));
        for (uint64_t flips = random.below(6); flips > 0 && !packet.bytes.empty(); --flips) {
            packet.bytes[random.below(std::min<size_t>(packet.bytes.size(), 90))] =
                static_cast<uint8_t>(random.u64());
        }
        packet.bytes.shrink_to_fit();
        if (describe_frame(packet)) {
            EXPECT_GE(packet.segments, 1U);
            EXPECT_LE(packet.corruptible_at, packet.bytes.size());
        }
        complete_checksum(packet.bytes);
    }
}

}  // namespace
}  // namespace continuo::tests
