// Super-packets: the segments of one form have headers of equal length and decode to what the
// kernel would have cut.
#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {
namespace {

using packet::tcp_flag::kAck;
using packet::tcp_flag::kCwr;
using packet::tcp_flag::kFin;
using packet::tcp_flag::kPsh;

struct SuperPacket {
    HeaderFields first;
    uint32_t segment_bytes = 100;
    uint32_t segments = 5;
    uint32_t last_bytes = 60;
};

HeaderFields expected_segment(const SuperPacket& super, uint32_t i) {
    HeaderFields fields = super.first;
    if (fields.protocol == packet::Protocol::Tcp) {
        fields.sequence += i * super.segment_bytes;
        uint8_t removed = 0;
        removed |= i + 1 != super.segments ? kPsh | kFin : 0;
        removed |= i != 0 ? kCwr : 0;
        fields.flags &= static_cast<uint8_t>(~removed);
    }
    if (fields.source.is_v4()) {
        fields.ip_id = static_cast<uint16_t>(fields.ip_id + i);
    }
    return fields;
}

// Sends all segments; they arrive. Gives the form.
SegmentForm
send_super(ElisionLink& link, uint32_t index, const SuperPacket& super, bool acknowledged = true) {
    const SegmentForm form = link.encoder.plan_segments(index, super.first, super.segment_bytes,
                                                        super.segments, super.last_bytes, link.now);
    EXPECT_GT(form.header_bytes, 0U);
    EXPECT_LE(form.header_bytes, form.uses_reference ? kMaxElidedBytes : kMaxOpenBytes);
    for (uint32_t i = 0; i < super.segments; ++i) {
        const uint32_t bytes = i + 1 == super.segments ? super.last_bytes : super.segment_bytes;
        Bytes section(form.header_bytes + bytes, 0xEE);
        write_segment_header(form, i, section.data());
        link.decoder.begin(link.space, link.next + i);
        const auto decoded = link.decoder.decode_section(section);
        EXPECT_TRUE(decoded) << to_hex(ByteView(section).first(form.header_bytes));
        if (!decoded) {
            continue;
        }
        EXPECT_EQ(link.decoder.entries()[0].fields, expected_segment(super, i)) << i;
        EXPECT_EQ(link.decoder.entries()[0].payload.size(), bytes);
        EXPECT_TRUE(link.decoder.commit());
    }
    link.encoder.record_segments(form, 0, super.segments, link.space, link.next, link.now);
    link.next += super.segments;
    if (acknowledged) {
        EXPECT_TRUE(link.encoder.on_acknowledged(link.space, link.next - super.segments,
                                                 link.next - 1, link.now));
        EXPECT_EQ(link.encoder.records_in_flight(), 0U);
    }
    return form;
}

TEST(SegmentForm, OpensTheFlowWithItsFirstSegment) {
    for (const HeaderFields& fields : {tcp4(), tcp6_without_timestamps(), udp4(), udp6()}) {
        ElisionLink link;
        link.encoder.add_flow(3, {});
        SuperPacket super{fields};
        const SegmentForm open = send_super(link, 3, super);
        EXPECT_FALSE(open.uses_reference);
        EXPECT_TRUE(open.sets);
        super.first = expected_segment(super, 3);
        EXPECT_TRUE(send_super(link, 3, super).uses_reference);
    }
}

TEST(SegmentForm, StaysAnOpenWithoutSetUntilTheFirstIsAcknowledged) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    EXPECT_TRUE(send_super(link, 3, {tcp4()}, false).sets);
    EXPECT_FALSE(send_super(link, 3, {tcp4()}, false).sets);
    link.encoder.on_acknowledged(link.space, 0, 0, link.now);
    EXPECT_TRUE(send_super(link, 3, {tcp4()}, false).uses_reference);
}

TEST(SegmentForm, PutsPushAndFinIntoTheLastAndCwrIntoTheFirst) {
    for (const uint8_t reference : {uint8_t{kAck}, uint8_t{kAck | kPsh}}) {
        for (const int more : {0, +kPsh, +kFin, kPsh | kFin, kCwr | kPsh}) {
            for (const uint32_t segments : {1U, 2U, 3U, 44U}) {
                ElisionLink link;
                HeaderFields fields = tcp4();
                fields.flags = reference;
                link.open(3, fields);
                fields.flags = static_cast<uint8_t>(kAck | more);
                fields.sequence += 1000;
                send_super(link, 3, {fields, 1400, segments, 700});
            }
        }
    }
}

TEST(SegmentForm, TakesTheWidthThatAllNeed) {
    for (const uint32_t ahead :
         {0U, 1U, 49000U, 49151U, 60000U, 12582900U, 0x20000000U, 0xFFFFF000U}) {
        ElisionLink link;
        link.open(3, tcp4());
        HeaderFields fields = tcp4();
        fields.sequence += ahead;
        fields.ip_id = static_cast<uint16_t>(fields.ip_id + 190);
        send_super(link, 3, {fields, 1000, 10, 1000});
    }
}

TEST(SegmentForm, SetsTheOtherReferenceInItsFirstSegment) {
    ElisionLink link;
    link.open(3, tcp4());
    HeaderFields fields = tcp4();
    fields.sequence += 20000;
    const SegmentForm form = send_super(link, 3, {fields, 1000, 4, 500});
    EXPECT_TRUE(form.sets);
    fields.sequence += 3500;
    fields.ip_id = static_cast<uint16_t>(fields.ip_id + 4);
    EXPECT_EQ(link.send(3, fields, 100, Extent::ToEnd), to_hex(from_hex("C3 41 5BCC 00 00 04")));
}

TEST(SegmentForm, OfUdpHasThreeBytes) {
    ElisionLink link;
    link.open(3, udp4(), 100);
    HeaderFields fields = udp4();
    ++fields.ip_id;
    EXPECT_EQ(send_super(link, 3, {fields, 1200, 40, 300}).header_bytes, 3U);
}

TEST(SegmentForm, IsRecordedInParts) {
    ElisionLink link;
    link.open(3, tcp4());
    HeaderFields fields = tcp4();
    fields.sequence += 20000;
    const SegmentForm form = link.encoder.plan_segments(3, fields, 100, 200, 100, link.now);
    ASSERT_TRUE(form.sets);
    link.encoder.record_segments(form, 0, 150, link.space, 1, link.now);
    link.encoder.record_segments(form, 150, 50, link.space, 151, link.now);
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 2, 200, link.now));
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 1, 1, link.now));
    EXPECT_EQ(link.encoder.records_in_flight(), 0U);
    EXPECT_FALSE(link.encoder.on_acknowledged(link.space, 201, 201, link.now));
}

TEST(SegmentForm, DoesNotExistForEchoes) {
    ElisionLink link;
    link.open(3, echo4());
    EXPECT_EQ(link.encoder.plan_segments(3, echo4(), 100, 2, 100, link.now).header_bytes, 0U);
}

}  // namespace
}  // namespace continuo::elision
