#include "common/packet/header_fields.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::Bytes;

struct Kind {
    Protocol protocol;
    bool is_v4;
};
constexpr std::array<Kind, 6> kKinds = {{{Protocol::Tcp, true},
                                         {Protocol::Tcp, false},
                                         {Protocol::Udp, true},
                                         {Protocol::Udp, false},
                                         {Protocol::Icmp, true},
                                         {Protocol::IcmpV6, false}}};

size_t ip_bytes(const HeaderFields& fields) {
    return fields.source.is_v4() ? 20 : 40;
}

bool is_regular(const Bytes& packet) {
    return parse_regular(packet, Offload{}).has_value();
}

Bytes plain_packet(Protocol protocol, bool is_v4) {
    return test::make_packet(test::plain_fields(protocol, is_v4), Bytes(100, 0x5A));
}

TEST(HeaderFields, RandomPacketsAreRestoredByteForByte) {
    base::SeededRandom random(11);
    for (int round = 0; round < 6000; ++round) {
        const Kind kind = kKinds[static_cast<size_t>(round) % kKinds.size()];
        const HeaderFields fields = test::random_fields(random, kind.protocol, kind.is_v4);
        const Bytes payload = test::random_bytes(random, random.below(1400));
        const Bytes packet = test::make_packet(fields, payload);
        ASSERT_TRUE(test::checksums_are_right(packet)) << round;
        const std::optional<RegularPacket> parsed = parse_regular(packet, Offload{});
        ASSERT_TRUE(parsed.has_value()) << round;
        EXPECT_EQ(parsed->fields, fields);
        ASSERT_EQ(Bytes(parsed->payload.begin(), parsed->payload.end()), payload);
        EXPECT_EQ(parsed->payload.data(), packet.data() + fields.header_bytes());
        ASSERT_EQ(test::make_packet(parsed->fields, parsed->payload), packet);
    }
}

TEST(HeaderFields, PartialModeWritesTheFoldedPseudoHeaderSum) {
    base::SeededRandom random(12);
    for (int round = 0; round < 2000; ++round) {
        const Kind kind = kKinds[static_cast<size_t>(round) % 4];
        HeaderFields fields = test::random_fields(random, kind.protocol, kind.is_v4);
        fields.zero_checksum = false;
        const Bytes payload = test::random_bytes(random, random.below(60000));
        Bytes packet = test::make_packet(fields, payload, true);
        const size_t start = ip_bytes(fields);
        const size_t field = start + (kind.protocol == Protocol::Tcp ? 16 : 6);
        // Completed as a network card does it: sum from checksum_start on, inverted.
        const uint16_t sum = test::reference_sum(base::ByteView(packet).subspan(start));
        ASSERT_NE(base::load_big_endian<uint16_t>(packet.data() + field), 0);
        base::store_big_endian(packet.data() + field, static_cast<uint16_t>(~sum));
        ASSERT_TRUE(test::checksums_are_right(packet)) << round;
    }
}

TEST(HeaderFields, IcmpAndZeroChecksumAreNeverPartial) {
    for (const Kind kind : {kKinds[4], kKinds[5]}) {
        const HeaderFields fields = test::plain_fields(kind.protocol, kind.is_v4);
        EXPECT_EQ(test::make_packet(fields, Bytes(33, 1), true),
                  test::make_packet(fields, Bytes(33, 1), false));
    }
    HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    fields.zero_checksum = true;
    const Bytes packet = test::make_packet(fields, Bytes(5, 1), true);
    EXPECT_EQ(packet[26] | packet[27], 0);
}

TEST(HeaderFields, ChecksumOfZeroIsSentAsOnesByUdpOnly) {
    // The payload's last word is chosen so that everything sums to 0xFFFF.
    for (const Kind kind : kKinds) {
        const HeaderFields fields = test::plain_fields(kind.protocol, kind.is_v4);
        Bytes payload = {0, 0};
        Bytes packet = test::make_packet(fields, payload);
        const size_t offset = kind.protocol == Protocol::Tcp   ? 16
                              : kind.protocol == Protocol::Udp ? 6
                                                               : 2;
        const uint8_t* field = packet.data() + ip_bytes(fields) + offset;
        payload = {field[0], field[1]};
        packet = test::make_packet(fields, payload);
        field = packet.data() + ip_bytes(fields) + offset;
        const uint16_t expected = kind.protocol == Protocol::Udp ? 0xFFFF : 0;
        EXPECT_EQ(base::load_big_endian<uint16_t>(field), expected);
        EXPECT_TRUE(is_regular(packet));
        // The other zero sums right as well, but would not be written again.
        if (kind.protocol != Protocol::Udp) {
            base::store_big_endian(packet.data() + ip_bytes(fields) + offset, uint16_t{0xFFFF});
            EXPECT_FALSE(is_regular(packet));
        }
    }
}

TEST(HeaderFields, NoTruncationIsRegular) {
    for (const Kind kind : kKinds) {
        const Bytes packet = plain_packet(kind.protocol, kind.is_v4);
        ASSERT_TRUE(is_regular(packet));
        for (size_t size = 0; size < packet.size(); ++size) {
            EXPECT_FALSE(is_regular(
                Bytes(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(size))))
                << size;
        }
        Bytes longer = packet;
        longer.push_back(0);
        EXPECT_FALSE(is_regular(longer));
    }
}

// Whatever single bit changes: either the packet is irregular, or it is restored with the change.
TEST(HeaderFields, EveryBitIsEitherCarriedOrMakesThePacketIrregular) {
    for (const Kind kind : kKinds) {
        const Bytes packet = plain_packet(kind.protocol, kind.is_v4);
        for (size_t bit = 0; bit < packet.size() * 8; ++bit) {
            for (const bool repair : {false, true}) {
                Bytes changed = packet;
                changed[bit / 8] ^= static_cast<uint8_t>(1U << bit % 8);
                if (repair && changed[0] == packet[0]) {
                    test::set_checksums(changed);
                }
                const std::optional<RegularPacket> parsed = parse_regular(changed, Offload{});
                if (parsed) {
                    ASSERT_EQ(test::make_packet(parsed->fields, parsed->payload), changed) << bit;
                }
            }
        }
    }
}

// Offsets into a plain IPv4 packet; the checksums are made right afterwards.
struct Oddity {
    const char* what;
    Protocol protocol;
    bool is_v4;
    size_t at;
    uint8_t value;
};

class IrregularPacket : public testing::TestWithParam<Oddity> {};

TEST_P(IrregularPacket, IsNotParsed) {
    const Oddity& oddity = GetParam();
    Bytes packet = plain_packet(oddity.protocol, oddity.is_v4);
    packet[oddity.at] = oddity.value;
    test::set_checksums(packet);
    EXPECT_FALSE(is_regular(packet)) << oddity.what;
}

INSTANTIATE_TEST_SUITE_P(
    HeaderFields,
    IrregularPacket,
    testing::Values(Oddity{"more fragments", Protocol::Udp, true, 6, 0x20},
                    Oddity{"fragment offset", Protocol::Udp, true, 7, 0x01},
                    Oddity{"reserved IPv4 flag", Protocol::Udp, true, 6, 0x80},
                    Oddity{"SCTP", Protocol::Udp, true, 9, 132},
                    Oddity{"ICMPv6 in IPv4", Protocol::Icmp, true, 9, 58},
                    Oddity{"hop-by-hop header", Protocol::Udp, false, 6, 0},
                    Oddity{"ICMP in IPv6", Protocol::IcmpV6, false, 6, 1},
                    Oddity{"urgent flag", Protocol::Tcp, true, 33, 0x30},
                    Oddity{"urgent pointer", Protocol::Tcp, true, 39, 1},
                    Oddity{"reserved TCP bits", Protocol::Tcp, true, 32, 0x81},
                    Oddity{"header of 24 bytes", Protocol::Tcp, true, 32, 0x60},
                    Oddity{"header of 16 bytes", Protocol::Tcp, true, 32, 0x40},
                    Oddity{"header of 60 bytes", Protocol::Tcp, true, 32, 0xF0},
                    Oddity{"other option", Protocol::Tcp, true, 42, 5},
                    Oddity{"option order", Protocol::Tcp, true, 40, 8},
                    Oddity{"UDP length too short", Protocol::Udp, true, 25, 107},
                    Oddity{"UDP length too long", Protocol::Udp, true, 25, 109},
                    Oddity{"echo code", Protocol::Icmp, true, 21, 1},
                    Oddity{"timestamp request", Protocol::Icmp, true, 20, 13},
                    Oddity{"packet too big", Protocol::IcmpV6, false, 40, 2}));

TEST(HeaderFields, WrongChecksumsAreIrregular) {
    for (const Kind kind : kKinds) {
        Bytes packet = plain_packet(kind.protocol, kind.is_v4);
        packet.back() ^= 1;
        EXPECT_FALSE(is_regular(packet));
    }
    Bytes packet = plain_packet(Protocol::Udp, true);
    packet[11] ^= 1;
    EXPECT_FALSE(is_regular(packet));
    Bytes without = plain_packet(Protocol::Udp, false);
    without[46] = without[47] = 0;
    EXPECT_FALSE(is_regular(without)) << "IPv6 UDP without checksum";
}

TEST(HeaderFields, PartialChecksumIsNotVerified) {
    Offload offload;
    offload.partial_checksum = true;
    offload.checksum_start = 20;
    offload.checksum_offset = 16;
    const HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    const Bytes packet = test::make_packet(fields, Bytes(10, 3), true);
    const std::optional<RegularPacket> parsed = parse_regular(packet, offload);
    ASSERT_TRUE(parsed.has_value());
    EXPECT_EQ(parsed->fields, fields);
    EXPECT_FALSE(is_regular(packet));
    offload.checksum_offset = 6;
    EXPECT_FALSE(parse_regular(packet, offload).has_value()) << "offset of another protocol";
}

TEST(HeaderFields, SuperPacketGivesTheFieldsOfItsHeader) {
    for (const Kind kind : {kKinds[0], kKinds[1], kKinds[2], kKinds[3]}) {
        const bool is_tcp = kind.protocol == Protocol::Tcp;
        HeaderFields fields = test::plain_fields(kind.protocol, kind.is_v4);
        fields.flags = is_tcp ? tcp_flag::kAck | tcp_flag::kPsh : 0;
        const Bytes packet = test::make_packet(fields, Bytes(30000, 9), true);
        Offload offload;
        offload.gso = !is_tcp ? GsoType::Udp : (kind.is_v4 ? GsoType::Tcp4 : GsoType::Tcp6);
        offload.segment_bytes = 1400;
        offload.partial_checksum = true;
        offload.checksum_start = static_cast<uint16_t>(ip_bytes(fields));
        offload.checksum_offset = is_tcp ? 16 : 6;
        const std::optional<RegularPacket> parsed = parse_regular(packet, offload);
        ASSERT_TRUE(parsed.has_value());
        EXPECT_EQ(parsed->fields, fields);
        EXPECT_EQ(parsed->payload.size(), 30000U);
        offload.gso = is_tcp ? GsoType::Udp : GsoType::Tcp4;
        EXPECT_FALSE(parse_regular(packet, offload).has_value());
    }
}

TEST(HeaderFields, WriteRefusesWhatIsNoPacket) {
    Bytes to(100);
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    EXPECT_EQ(write_headers(fields, {}, false, base::MutableByteView(to).first(51)), 0U);
    EXPECT_EQ(write_headers(fields, {}, false, base::MutableByteView(to).first(52)), 52U);
    EXPECT_EQ(write_headers(fields, Bytes(65535 - 52), false, to), 52U);
    EXPECT_EQ(write_headers(fields, Bytes(65535 - 51), false, to), 0U);
    fields.destination = test::address("2001:db8::1");
    EXPECT_EQ(write_headers(fields, {}, false, to), 0U);
    fields = test::plain_fields(Protocol::IcmpV6, false);
    fields.protocol = Protocol::Icmp;
    EXPECT_EQ(write_headers(fields, {}, false, to), 0U);
    fields.protocol = static_cast<Protocol>(132);
    EXPECT_EQ(write_headers(fields, {}, false, to), 0U);
}

}  // namespace
}  // namespace continuo::packet
