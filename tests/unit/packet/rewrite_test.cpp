#include "common/packet/rewrite.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::address;
using test::Bytes;

constexpr std::array<NodeSide, 2> kSides = {NodeSide::Source, NodeSide::Destination};
constexpr std::array<Protocol, 3> kProtocols = {Protocol::Tcp, Protocol::Udp, Protocol::Icmp};

Protocol protocol_for(Protocol protocol, bool is_v4) {
    return protocol == Protocol::Icmp && !is_v4 ? Protocol::IcmpV6 : protocol;
}

base::IpAddress& node_address(HeaderFields& fields, NodeSide side) {
    return side == NodeSide::Source ? fields.source : fields.destination;
}

NodeSide opposite(NodeSide side) {
    return side == NodeSide::Source ? NodeSide::Destination : NodeSide::Source;
}

TEST(Rewrite, EqualsAPacketWrittenWithTheOtherAddress) {
    base::SeededRandom random(21);
    for (int round = 0; round < 6000; ++round) {
        const bool is_v4 = random.below(2) == 1;
        const Protocol protocol = protocol_for(kProtocols[random.below(3)], is_v4);
        const NodeSide side = kSides[random.below(2)];
        const bool partial = random.below(3) == 0;
        HeaderFields fields = test::random_fields(random, protocol, is_v4);
        const Bytes payload = test::random_bytes(random, random.below(64));
        const bool is_partial = partial && (protocol == Protocol::Tcp ||
                                            (protocol == Protocol::Udp && !fields.zero_checksum));
        Bytes packet = test::make_packet(fields, payload, partial);
        node_address(fields, side) = test::random_fields(random, protocol, is_v4).source;
        ASSERT_TRUE(rewrite_node_address(packet, side, node_address(fields, side), is_partial));
        ASSERT_EQ(packet, test::make_packet(fields, payload, partial)) << round;
    }
}

TEST(Rewrite, WayThroughTheUnspecifiedAddressIsExact) {
    base::SeededRandom random(22);
    for (int round = 0; round < 3000; ++round) {
        const bool is_v4 = random.below(2) == 1;
        const Protocol protocol = protocol_for(kProtocols[random.below(3)], is_v4);
        const NodeSide side = kSides[random.below(2)];
        HeaderFields fields = test::random_fields(random, protocol, is_v4);
        const Bytes original = test::make_packet(fields, test::random_bytes(random, 11));
        Bytes packet = original;
        const base::IpAddress any = base::IpAddress::any(fields.source.version);
        ASSERT_TRUE(rewrite_node_address(packet, side, any, false));
        ASSERT_TRUE(test::checksums_are_right(packet));
        ASSERT_TRUE(rewrite_node_address(packet, side, node_address(fields, side), false));
        ASSERT_EQ(packet, original) << round;
    }
}

TEST(Rewrite, KeepsAWrongChecksumWrong) {
    Bytes packet = test::make_packet(test::plain_fields(Protocol::Tcp, true), Bytes(20, 1));
    packet.back() ^= 1;
    ASSERT_TRUE(rewrite_node_address(packet, NodeSide::Source, address("203.0.113.9"), false));
    EXPECT_FALSE(test::checksums_are_right(packet));
    packet.back() ^= 1;
    EXPECT_TRUE(test::checksums_are_right(packet));
}

TEST(Rewrite, FragmentsFitTogetherAgain) {
    for (const bool is_v4 : {true, false}) {
        for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp}) {
            const HeaderFields fields = test::plain_fields(protocol, is_v4);
            const Bytes whole = test::make_packet(fields, Bytes(500, 0xC3));
            const base::IpAddress lease = address(is_v4 ? "203.0.113.77" : "2001:db8:77::1");
            for (const NodeSide side : kSides) {
                std::array<Bytes, 2> parts = test::fragment(whole, 128, 99);
                Bytes expected = whole;
                for (Bytes& part : parts) {
                    ASSERT_TRUE(rewrite_node_address(part, side, lease, false));
                }
                ASSERT_TRUE(rewrite_node_address(expected, side, lease, false));
                EXPECT_EQ(parts, test::fragment(expected, 128, 99));
            }
        }
    }
}

TEST(Rewrite, IpOptionsAndExtensionHeadersAreSteppedOver) {
    Bytes packet = test::make_packet(test::plain_fields(Protocol::Udp, true), Bytes(9, 9));
    packet[0] = 0x46;
    packet.insert(packet.begin() + 20, {0x94, 0x04, 0, 0});  // router alert
    packet[3] = static_cast<uint8_t>(packet.size());
    test::set_checksums(packet);
    ASSERT_TRUE(rewrite_node_address(packet, NodeSide::Destination, address("203.0.113.1"), false));
    EXPECT_TRUE(test::checksums_are_right(packet));

    const Bytes plain = test::make_packet(test::plain_fields(Protocol::Tcp, false), Bytes(9, 9));
    const base::IpAddress lease = address("2001:db8:99::99");
    Bytes expected = plain;
    ASSERT_TRUE(rewrite_node_address(expected, NodeSide::Source, lease, false));
    const Bytes options = {0, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    Bytes extended = test::with_extension(plain, 60, options);
    extended = test::with_extension(extended, 0, Bytes(8, 0));
    ASSERT_TRUE(rewrite_node_address(extended, NodeSide::Source, lease, false));
    EXPECT_EQ(extended,
              test::with_extension(test::with_extension(expected, 60, options), 0, Bytes(8, 0)));
}

TEST(Rewrite, OtherProtocolsChangeInTheIpHeaderOnly) {
    Bytes packet = test::make_packet(test::plain_fields(Protocol::Udp, true), Bytes(20, 7));
    packet[9] = 132;  // SCTP
    const Bytes before = packet;
    ASSERT_TRUE(rewrite_node_address(packet, NodeSide::Source, address("203.0.113.1"), false));
    EXPECT_TRUE(std::equal(packet.begin() + 16, packet.end(), before.begin() + 16));
}

// An error about `quoted_bytes` of a packet of the node's flow, seen by either side.
TEST(Rewrite, IcmpErrorsAreRewrittenOutsideAndInside) {
    base::SeededRandom random(23);
    for (int round = 0; round < 4000; ++round) {
        const bool is_v4 = random.below(2) == 1;
        const Protocol protocol = protocol_for(kProtocols[random.below(3)], is_v4);
        const NodeSide side = kSides[random.below(2)];
        HeaderFields fields = test::random_fields(random, protocol, is_v4);
        const base::IpAddress node = node_address(fields, opposite(side));
        const base::IpAddress router = address(is_v4 ? "198.51.100.250" : "2001:db8:250::1");
        const base::IpAddress lease = address(is_v4 ? "203.0.113.5" : "2001:db8:5::5");
        const Bytes about = test::make_packet(fields, test::random_bytes(random, 60));
        size_t quoted_transport = random.below(80);
        // A quote that ends within the checksum field cannot be made right.
        if (quoted_transport == 3 || quoted_transport == 7 || quoted_transport == 17) {
            ++quoted_transport;
        }
        const size_t quoted = (is_v4 ? 20U : 40U) + quoted_transport;
        const auto make_error = [&](const base::IpAddress& local, const Bytes& packet) {
            return side == NodeSide::Source ? test::make_icmp_error(local, router, packet, quoted)
                                            : test::make_icmp_error(router, local, packet, quoted);
        };
        Bytes error = make_error(node, about);
        Bytes expected_quote = about;
        ASSERT_TRUE(rewrite_node_address(expected_quote, opposite(side), lease, false));
        ASSERT_TRUE(rewrite_node_address(error, side, lease, false));
        ASSERT_TRUE(test::checksums_are_right(error)) << round;
        ASSERT_EQ(error, make_error(lease, expected_quote)) << round;
    }
}

TEST(Rewrite, WrongChecksumInAQuoteStaysTheRoutersAffair) {
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    Bytes about = test::make_packet(fields, Bytes(30, 2));
    about[8] = 1;  // the TTL sank and the header checksum was not updated
    about[27] ^= 0x55;
    Bytes error = test::make_icmp_error(address("203.0.113.9"), fields.source, about, 58);
    ASSERT_TRUE(rewrite_node_address(error, NodeSide::Destination, address("203.0.113.5"), false));
    EXPECT_TRUE(test::checksums_are_right(error));
}

TEST(Rewrite, WhatItRefusesItDoesNotChange) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    const Bytes v4 = test::make_packet(fields, {});
    const Bytes v4_error = test::make_icmp_error(address("203.0.113.9"), fields.source, v4, 28);
    fields = test::plain_fields(Protocol::Tcp, false);
    const Bytes v6 = test::make_packet(fields, {});
    const Bytes v6_error = test::make_icmp_error(address("2001:db8::9"), fields.source, v6, 48);
    for (const Bytes& original : {v4, v4_error, v6, v6_error}) {
        const base::IpAddress lease =
            address(original[0] >> 4 == 4 ? "203.0.113.1" : "2001:db8::1:1");
        bool was_refused = false;
        for (size_t size = 0; size <= original.size(); ++size) {
            Bytes packet(original.begin(), original.begin() + static_cast<std::ptrdiff_t>(size));
            const Bytes before = packet;
            if (!rewrite_node_address(packet, NodeSide::Destination, lease, false)) {
                was_refused = true;
                EXPECT_EQ(packet, before);
            }
        }
        EXPECT_TRUE(was_refused);
    }
    Bytes packet = v4;
    EXPECT_FALSE(rewrite_node_address(packet, NodeSide::Source, address("2001:db8::1"), false));
    EXPECT_EQ(packet, v4);
    packet[0] = 0x55;
    EXPECT_FALSE(rewrite_node_address(packet, NodeSide::Source, address("203.0.113.1"), false));
}

// SYN with the options given, checksum right.
Bytes make_syn(bool is_v4, const Bytes& options, uint8_t flags = tcp_flag::kSyn) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, is_v4);
    fields.has_timestamps = false;
    fields.flags = flags;
    Bytes packet = test::make_packet(fields, options);
    packet[is_v4 ? 32 : 52] = static_cast<uint8_t>((20 + options.size()) / 4 << 4);
    test::set_checksums(packet);
    return packet;
}

TEST(ClampMss, LowersTheOptionAndKeepsTheChecksumRight) {
    const std::array<Bytes, 3> options = {
        test::from_hex("0204 05b4 0402 080a 0000 0001 0000 0000 0103 0307"),
        test::from_hex("01 0204 05b4 01 01 01"),  // odd offset
        test::from_hex("0303 07 01 01 01 0204 05b4 00 00")};
    for (const bool is_v4 : {true, false}) {
        for (const Bytes& option : options) {
            for (const uint8_t flags : std::array<uint8_t, 3>{0x02, 0x12, 0xC2}) {
                Bytes packet = make_syn(is_v4, option, flags);
                const Bytes before = packet;
                EXPECT_FALSE(clamp_mss(packet, 1460, false));
                EXPECT_EQ(packet, before);
                ASSERT_TRUE(clamp_mss(packet, 1399, false));
                EXPECT_TRUE(test::checksums_are_right(packet));
                EXPECT_FALSE(clamp_mss(packet, 1399, false));
                EXPECT_TRUE(clamp_mss(packet, 1398, false));
            }
        }
    }
}

TEST(ClampMss, LeavesAPartialChecksumAlone) {
    Bytes packet = make_syn(true, test::from_hex("0204 05b4"));
    const Bytes before = packet;
    ASSERT_TRUE(clamp_mss(packet, 0x0102, true));
    EXPECT_EQ(packet[42], 1);
    EXPECT_EQ(packet[43], 2);
    EXPECT_TRUE(std::equal(packet.begin(), packet.begin() + 42, before.begin()));
}

TEST(ClampMss, TouchesNothingElse) {
    const std::array<Bytes, 7> packets = {
        make_syn(true, test::from_hex("0204 05b4"), tcp_flag::kAck),  // no SYN
        make_syn(true, test::from_hex("00 0204 05b4 000000")),        // behind the end
        make_syn(true, test::from_hex("0203 05b4")),                  // wrong length
        make_syn(true, test::from_hex("0101 0204")),                  // cut
        make_syn(true, test::from_hex("0300 0204 05b4 0000")),        // option of length 0
        make_syn(true, test::from_hex("0309 0204 05b4 0000")),        // option too long
        test::make_packet(test::plain_fields(Protocol::Udp, true), test::from_hex("020405b4"))};
    for (const Bytes& original : packets) {
        Bytes packet = original;
        EXPECT_FALSE(clamp_mss(packet, 500, false));
        EXPECT_EQ(packet, original);
    }
    Bytes syn = make_syn(true, test::from_hex("0101 0101 0204 05b4"));
    for (size_t size = 0; size < syn.size(); ++size) {
        Bytes packet(syn.begin(), syn.begin() + static_cast<std::ptrdiff_t>(size));
        EXPECT_FALSE(clamp_mss(packet, 500, false)) << size;
    }
}

}  // namespace
}  // namespace continuo::packet
