#include "common/packet/segmenter.hpp"
#include "tests/unit/packet/packet_support.hpp"

#include <gtest/gtest.h>

namespace continuo::packet {
namespace {

using test::Bytes;

Offload offload_for(const HeaderFields& fields, uint16_t segment_bytes) {
    const bool is_v4 = fields.source.is_v4();
    const bool is_tcp = fields.protocol == Protocol::Tcp;
    Offload offload;
    if (segment_bytes > 0) {
        offload.gso = !is_tcp ? GsoType::Udp : (is_v4 ? GsoType::Tcp4 : GsoType::Tcp6);
        offload.segment_bytes = segment_bytes;
    }
    offload.partial_checksum = true;
    offload.checksum_start = is_v4 ? 20 : 40;
    offload.checksum_offset = is_tcp ? 16 : 6;
    return offload;
}

// SACK beside the timestamps: no regular header, but the kernel cuts such packets all the same.
TEST(Segmenter, CutsHeadersWithAnyOptions) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, true);
    fields.flags |= tcp_flag::kPsh;
    const Bytes sack = test::from_hex("0101 050a 00000001 00000002");
    Bytes payload = sack;
    payload.insert(payload.end(), 5000, 0x42);
    Bytes super = test::make_packet(fields, payload, true);
    super[32] = 11 << 4;
    const Offload offload = offload_for(fields, 1436);
    EXPECT_FALSE(parse_regular(super, offload).has_value());
    const std::vector<Bytes> expected = test::cut(super, offload);
    ASSERT_EQ(segment_count(super, offload), expected.size());
    ASSERT_EQ(expected.size(), 4U);
    for (uint32_t i = 0; i < expected.size(); ++i) {
        Bytes segment(1500);
        segment.resize(write_segment(super, offload, i, segment));
        EXPECT_EQ(segment, expected[i]) << i;
    }
}

TEST(Segmenter, CongestionWindowReducedIsInTheFirstOnly) {
    HeaderFields fields = test::plain_fields(Protocol::Tcp, false);
    fields.flags |= tcp_flag::kCwr;
    const Bytes super = test::make_packet(fields, Bytes(300), true);
    Bytes segment(200);
    for (uint32_t i = 0; i < 3; ++i) {
        ASSERT_EQ(write_segment(super, offload_for(fields, 100), i, segment), 172U);
        EXPECT_EQ((segment[53] & tcp_flag::kCwr) != 0, i == 0) << i;
    }
}

TEST(Segmenter, RefusesWhatDoesNotFit) {
    const HeaderFields fields = test::plain_fields(Protocol::Udp, true);
    const Bytes super = test::make_packet(fields, Bytes(300), true);
    Bytes segment(128);
    const Offload offload = offload_for(fields, 100);
    EXPECT_EQ(write_segment(super, offload, 2, segment), 128U);
    EXPECT_EQ(write_segment(super, offload, 3, segment), 0U);
    EXPECT_EQ(write_segment(super, offload, 0, base::MutableByteView(segment).first(127)), 0U);
    EXPECT_EQ(write_segment(Bytes(super.begin(), super.begin() + 27), offload, 0, segment), 0U);
    EXPECT_EQ(segment_count(super, Offload{}), 1U);
}

TEST(Segmenter, FindsThePayloadBehindAnyHeaders) {
    for (const Protocol protocol : {Protocol::Tcp, Protocol::Udp}) {
        for (const bool is_v4 : {true, false}) {
            const HeaderFields fields = test::plain_fields(protocol, is_v4);
            const Bytes payload(300, 0x42);
            const Bytes super = test::make_packet(fields, payload, true);
            const Offload offload = offload_for(fields, 100);
            const base::ByteView found = super_payload(super, offload);
            EXPECT_EQ(Bytes(found.begin(), found.end()), payload);
            EXPECT_TRUE(super_payload(base::ByteView(super).first(27), offload).empty());
        }
    }
}

TEST(Segmenter, CompletesAPartialChecksum) {
    base::SeededRandom random(51);
    for (int round = 0; round < 1000; ++round) {
        const Protocol protocol = round % 2 == 0 ? Protocol::Tcp : Protocol::Udp;
        HeaderFields fields = test::random_fields(random, protocol, round % 4 < 2);
        fields.zero_checksum = false;
        const Bytes payload = test::random_bytes(random, random.below(100));
        Bytes packet = test::make_packet(fields, payload, true);
        const Offload offload = offload_for(fields, 0);
        EXPECT_FALSE(complete_checksum(base::MutableByteView(packet).first(20), offload));
        ASSERT_TRUE(complete_checksum(packet, offload));
        ASSERT_EQ(packet, test::make_packet(fields, payload)) << round;
    }
}

}  // namespace
}  // namespace continuo::packet
