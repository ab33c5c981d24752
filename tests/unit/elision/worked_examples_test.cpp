// The worked examples of docs/PROTOCOL.md (wire format, steady state, IPv4 outside): entries byte
// for byte, and the length of the whole outer packet.
#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {
namespace {

constexpr size_t kOuterBytes =
    28 + 6 + 1 + 16;  // IPv4 and UDP, tunnel header, raw section head, tag

// Opens `index` with reference 1 current, whose id is `id`.
void open_with_reference_1(
    ElisionLink& link, uint32_t index, HeaderFields fields, uint16_t id, size_t bytes) {
    fields.ip_id = static_cast<uint16_t>(id + 0x1000);
    link.open(index, fields, bytes);
    fields.ip_id = id;
    link.send(index, fields, bytes);  // far away: sets reference 1
}

HeaderFields with_id(HeaderFields fields, uint16_t id) {
    fields.ip_id = id;
    return fields;
}

TEST(WorkedExample, VoicePacketTakes73Bytes) {
    ElisionLink link;
    open_with_reference_1(link, 5, udp4(), 0x2000, 32);
    const std::string header = link.send(5, with_id(udp4(), 0x202A), 32, Extent::ToEnd);
    EXPECT_EQ(header, "452A");
    EXPECT_EQ(kOuterBytes + header.size() / 2 + 20, 73U);
}

TEST(WorkedExample, ThreePacketsOfThreeFlowsTake117Bytes) {
    ElisionLink link;
    open_with_reference_1(link, 5, udp4(), 0x2000, 20);
    open_with_reference_1(link, 6, udp4(), 0x3000, 20);
    link.open(7, with_id(udp4(), 0x4070), 20);
    Bytes section(200);
    ByteWriter writer(section);
    const Bytes payload(20, 0xEE);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    link.encoder.begin_section();
    ASSERT_TRUE(link.encoder.append(5, with_id(udp4(), 0x202A), payload, Extent::Counted, writer));
    ASSERT_TRUE(link.encoder.append(6, with_id(udp4(), 0x3011), payload, Extent::Counted, writer));
    ASSERT_TRUE(link.encoder.append(7, with_id(udp4(), 0x4080), payload, Extent::ToEnd, writer));
    link.encoder.end_datagram();
    const std::string body = to_hex(payload);
    EXPECT_EQ(to_hex(writer.written()), "452A" + body + "4611" + body + "0780" + body);
    EXPECT_EQ(kOuterBytes + writer.size(), 117U);
    ASSERT_TRUE(link.decode(writer.written()));
    EXPECT_EQ(link.decoder.entries()[2].fields, with_id(udp4(), 0x4080));
}

TEST(WorkedExample, TextPacketHasAnEntryOfTwoBytes) {
    ElisionLink link;
    link.open(3, with_id(udp4(), 0x2000), 1360);
    EXPECT_EQ(link.send(3, with_id(udp4(), 0x202B), 1360, Extent::ToEnd), "032B");
}

TEST(WorkedExample, AcknowledgementTakes58BytesAndEachFurtherSix) {
    ElisionLink link;
    open_with_reference_1(link, 3, tcp4(), 0x2000, 0);
    HeaderFields first = with_id(tcp4(), 0x2005);
    first.acknowledgement += 2896;
    first.timestamp_value += 4;
    first.timestamp_echo += 3;
    HeaderFields second = first;
    ++second.ip_id;
    second.acknowledgement += 2896;
    second.timestamp_value += 1;
    second.timestamp_echo += 1;
    Bytes section(100);
    ByteWriter writer(section);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_TRUE(link.encoder.append(3, first, {}, Extent::Counted, writer));
    EXPECT_EQ(to_hex(writer.written()), to_hex(from_hex("C3 04 0B50 04 03 05")));
    EXPECT_EQ(kOuterBytes + writer.size(), 58U);
    ASSERT_TRUE(link.encoder.append(3, second, {}, Extent::Counted, writer));
    EXPECT_EQ(to_hex(writer.written().subspan(7)), to_hex(from_hex("83 30 A02D 02 02")));
    link.encoder.end_datagram();
    ASSERT_TRUE(link.decode(writer.written()));
    EXPECT_EQ(link.decoder.entries()[0].fields, first);
    EXPECT_EQ(link.decoder.entries()[1].fields, second);
}

TEST(WorkedExample, SuperPacketOf44SegmentsTakes1487BytesEach) {
    ElisionLink link;
    open_with_reference_1(link, 3, tcp4(), 0x2000, 0);
    HeaderFields first = with_id(tcp4(), 0x2003);
    first.sequence += 0x100000;
    link.lose(3, first);  // a SET is pending, as at high rates it mostly is
    ++first.ip_id;
    first.flags |= packet::tcp_flag::kPsh;
    const SegmentForm form = link.encoder.plan_segments(3, first, 1427, 44, 1427, link.now);
    Bytes header(form.header_bytes);
    write_segment_header(form, 0, header.data());
    EXPECT_EQ(to_hex(header), to_hex(from_hex("C3 C2 00 100000 00 00 04")));
    write_segment_header(form, 43, header.data());
    EXPECT_EQ(to_hex(header), to_hex(from_hex("C3 C2 40 10EFB1 00 00 2F")));
    EXPECT_EQ(kOuterBytes + header.size() + 1427, 1487U);
}

}  // namespace
}  // namespace continuo::elision
