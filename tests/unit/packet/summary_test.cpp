#include "common/packet/rewrite.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::address;
using test::Bytes;

PacketSummary expect_summary(const Bytes& packet, NodeSide side) {
    const SummaryResult result = summarize(packet, side);
    EXPECT_TRUE(result.summary.has_value());
    return result.summary.value_or(PacketSummary{});
}

void expect_error(const Bytes& packet, SummaryError error) {
    const SummaryResult result = summarize(packet, NodeSide::Source);
    EXPECT_FALSE(result.summary.has_value());
    EXPECT_EQ(result.error, error);
}

// The plain fields' flow when its source is the node.
FiveTuple up_tuple(const HeaderFields& fields) {
    return {fields.source, fields.destination, fields.source_port, fields.destination_port,
            fields.protocol};
}

TEST(Summary, BothDirectionsOfAFlowHaveOneTuple) {
    for (const bool is_v4 : {true, false}) {
        for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp}) {
            const HeaderFields up = test::plain_fields(protocol, is_v4);
            HeaderFields down = up;
            std::swap(down.source, down.destination);
            std::swap(down.source_port, down.destination_port);
            const PacketSummary a =
                expect_summary(test::make_packet(up, Bytes(3)), NodeSide::Source);
            const PacketSummary b =
                expect_summary(test::make_packet(down, Bytes(3)), NodeSide::Destination);
            EXPECT_EQ(a.tuple, up_tuple(up));
            EXPECT_EQ(b.tuple, a.tuple);
        }
    }
}

TEST(Summary, TellsWhereThePayloadBegins) {
    base::SeededRandom random(31);
    for (int round = 0; round < 500; ++round) {
        const bool is_v4 = round % 2 == 0;
        const HeaderFields fields = test::random_fields(random, Protocol::Tcp, is_v4);
        const PacketSummary summary =
            expect_summary(test::make_packet(fields, Bytes(10)), NodeSide::Source);
        EXPECT_EQ(summary.tos, fields.tos);
        EXPECT_EQ(summary.tcp_flags, fields.flags);
        EXPECT_EQ(summary.tcp_sequence, fields.sequence);
        EXPECT_EQ(summary.tcp_acknowledgement, fields.acknowledgement);
        EXPECT_EQ(summary.transport_offset, is_v4 ? 20 : 40);
        EXPECT_EQ(summary.payload_offset, fields.header_bytes());
        EXPECT_FALSE(summary.is_fragment);
        EXPECT_TRUE(summary.is_first_fragment);
    }
}

TEST(Summary, EchoHasItsIdentifierInBothDirections) {
    for (const bool is_v4 : {true, false}) {
        HeaderFields fields = test::plain_fields(is_v4 ? Protocol::Icmp : Protocol::IcmpV6, is_v4);
        const PacketSummary request =
            expect_summary(test::make_packet(fields, Bytes(8)), NodeSide::Source);
        EXPECT_EQ(request.tuple, up_tuple(fields));
        EXPECT_EQ(request.tuple.local_port, 443);
        EXPECT_EQ(request.tuple.remote_port, 0);
        fields.is_reply = true;
        std::swap(fields.source, fields.destination);
        const PacketSummary reply =
            expect_summary(test::make_packet(fields, Bytes(8)), NodeSide::Destination);
        EXPECT_EQ(reply.tuple, request.tuple);
    }
}

TEST(Summary, FragmentsShareTheirIdentifier) {
    for (const bool is_v4 : {true, false}) {
        const HeaderFields fields = test::plain_fields(Protocol::Udp, is_v4);
        const Bytes whole = test::make_packet(fields, Bytes(200));
        const std::array<Bytes, 2> parts = test::fragment(whole, 64, 4711);
        const PacketSummary first = expect_summary(parts[0], NodeSide::Source);
        const PacketSummary second = expect_summary(parts[1], NodeSide::Source);
        EXPECT_EQ(first.tuple, up_tuple(fields));
        EXPECT_TRUE(first.is_fragment && first.is_first_fragment);
        EXPECT_TRUE(second.is_fragment && !second.is_first_fragment);
        EXPECT_EQ(first.fragment_id, 4711U);
        EXPECT_EQ(second.fragment_id, 4711U);
        EXPECT_EQ(second.tuple.local, fields.source);
        EXPECT_EQ(second.tuple.protocol, Protocol::Udp);
        EXPECT_EQ(second.tuple.local_port | second.tuple.remote_port, 0);
        EXPECT_EQ(second.payload_offset, second.transport_offset);
    }
}

TEST(Summary, AtomicFragmentIsNoFragment) {
    const HeaderFields fields = test::plain_fields(Protocol::Udp, false);
    const Bytes plain = test::make_packet(fields, Bytes(9));
    const PacketSummary summary =
        expect_summary(test::with_extension(plain, 44, Bytes(8, 0)), NodeSide::Source);
    EXPECT_FALSE(summary.is_fragment);
    EXPECT_TRUE(summary.is_first_fragment);
    EXPECT_EQ(summary.tuple, up_tuple(fields));
    EXPECT_EQ(summary.payload_offset, 56);
}

TEST(Summary, TinyFirstFragmentIsMalformed) {
    const Bytes whole = test::make_packet(test::plain_fields(Protocol::Tcp, true), Bytes(200));
    expect_error(test::fragment(whole, 16, 1)[0], SummaryError::Malformed);
}

TEST(Summary, FragmentBeyondTheLongestPacketIsMalformed) {
    std::array<Bytes, 2> parts = test::fragment(
        test::make_packet(test::plain_fields(Protocol::Udp, true), Bytes(200)), 64, 1);
    parts[1][6] = 0x1F;
    parts[1][7] = 0xFF;
    expect_error(parts[1], SummaryError::Malformed);
}

TEST(Summary, ErrorBelongsToTheFlowItQuotes) {
    for (const bool is_v4 : {true, false}) {
        for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp, Protocol::Icmp}) {
            HeaderFields up = test::plain_fields(
                protocol == Protocol::Icmp && !is_v4 ? Protocol::IcmpV6 : protocol, is_v4);
            const base::IpAddress router = address(is_v4 ? "203.0.113.3" : "2001:db8:3::3");
            const size_t quoted = is_v4 ? 28 : 48;
            // Down: a router speaks about what the node sent.
            const Bytes down_error =
                test::make_icmp_error(router, up.source, test::make_packet(up, Bytes(40)), quoted);
            const PacketSummary down = expect_summary(down_error, NodeSide::Destination);
            EXPECT_TRUE(down.is_icmp_error);
            EXPECT_EQ(down.tuple, up_tuple(up));
            // Up: the node speaks about what it was sent.
            HeaderFields answer = up;
            std::swap(answer.source, answer.destination);
            if (up.destination_port != 0) {
                std::swap(answer.source_port, answer.destination_port);
            }
            const Bytes up_error = test::make_icmp_error(
                up.source, up.destination, test::make_packet(answer, Bytes(40)), quoted);
            const PacketSummary upward = expect_summary(up_error, NodeSide::Source);
            EXPECT_TRUE(upward.is_icmp_error);
            EXPECT_EQ(upward.tuple, up_tuple(up));
        }
    }
}

TEST(Summary, ErrorAboutSomebodyElsesPacketIsMalformed) {
    const HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    const Bytes about = test::make_packet(fields, Bytes(4));
    const Bytes error =
        test::make_icmp_error(address("203.0.113.3"), address("203.0.113.4"), about, 28);
    const SummaryResult result = summarize(error, NodeSide::Destination);
    EXPECT_FALSE(result.summary.has_value());
    EXPECT_EQ(result.error, SummaryError::Malformed);
}

TEST(Summary, ExtensionHeadersAreWalkedUpToALimit) {
    const HeaderFields fields = test::plain_fields(Protocol::Tcp, false);
    Bytes packet = test::make_packet(fields, Bytes(4));
    for (int i = 0; i < 8; ++i) {
        packet = test::with_extension(packet, 60, Bytes(8, 0));
        EXPECT_EQ(expect_summary(packet, NodeSide::Source).tuple, up_tuple(fields)) << i;
    }
    expect_error(test::with_extension(packet, 60, Bytes(8, 0)), SummaryError::Malformed);
}

TEST(Summary, SourceRoutesAreNotCarried) {
    const Bytes packet = test::make_packet(test::plain_fields(Protocol::Tcp, false), Bytes(4));
    Bytes route(24, 0);
    route[1] = 2;
    EXPECT_TRUE(summarize(test::with_extension(packet, 43, route), NodeSide::Source).summary);
    route[3] = 1;  // segments left
    expect_error(test::with_extension(packet, 43, route), SummaryError::UnsupportedProtocol);
}

TEST(Summary, NamesWhatItRefuses) {
    expect_error({}, SummaryError::NotIp);
    expect_error(Bytes(60, 0x50), SummaryError::NotIp);
    Bytes packet = test::make_packet(test::plain_fields(Protocol::Udp, true), Bytes(30));
    packet[9] = 132;
    expect_error(packet, SummaryError::UnsupportedProtocol);
    packet = test::make_packet(test::plain_fields(Protocol::Icmp, true), Bytes(30));
    packet[20] = 5;  // redirect
    expect_error(packet, SummaryError::UnsupportedProtocol);
    packet = test::make_packet(test::plain_fields(Protocol::IcmpV6, false), Bytes(30));
    packet[40] = 135;  // neighbour solicitation
    expect_error(packet, SummaryError::UnsupportedProtocol);
    packet = test::make_packet(test::plain_fields(Protocol::Udp, true), Bytes(30));
    packet[25] = 39;  // UDP length beyond the packet
    expect_error(packet, SummaryError::Malformed);
    packet = test::make_packet(test::plain_fields(Protocol::Tcp, true), Bytes(30));
    packet[32] = 0x40;  // TCP header of 16 bytes
    expect_error(packet, SummaryError::Malformed);
}

TEST(Summary, EveryTruncationIsRefused) {
    std::vector<Bytes> packets;
    for (const bool is_v4 : {true, false}) {
        for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp}) {
            const HeaderFields fields = test::plain_fields(protocol, is_v4);
            packets.push_back(test::make_packet(fields, Bytes(10)));
            packets.push_back(
                test::make_icmp_error(fields.destination, fields.source, packets.back(), 200));
        }
    }
    packets.push_back(test::with_extension(packets.back(), 0, Bytes(16, 0)));
    packets.back()[41] = 1;
    for (const Bytes& original : packets) {
        ASSERT_TRUE(summarize(original, NodeSide::Destination).summary);
        for (size_t size = 0; size < original.size(); ++size) {
            const Bytes packet(original.begin(),
                               original.begin() + static_cast<std::ptrdiff_t>(size));
            EXPECT_FALSE(summarize(packet, NodeSide::Destination).summary) << size;
            // The same with a length that claims to fit.
            Bytes fitting = packet;
            if (size >= 40) {
                const bool is_v4 = fitting[0] >> 4 == 4;
                base::store_big_endian(fitting.data() + (is_v4 ? 2 : 4),
                                       static_cast<uint16_t>(is_v4 ? size : size - 40));
                summarize(fitting, NodeSide::Destination);
            }
        }
    }
}

}  // namespace
}  // namespace continuo::packet
