// Bytes of entries, row by row of docs/PROTOCOL.md sections 6.3 and 6.4. Each is also decoded and
// compared by ElisionLink.
#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {
namespace {

using packet::tcp_flag::kAck;
using packet::tcp_flag::kFin;
using packet::tcp_flag::kPsh;

TEST(OpenEntry, HasEverythingOfAnUdpFlow) {
    ElisionLink link;
    link.encoder.add_flow(5, {9, true});
    // kind 0, SET; index; address; ports; DF; ToS, TTL; app 9 and continues; length + 1; id
    EXPECT_EQ(link.send(5, udp4(), 20),
              to_hex(from_hex("3F 03 05 C6336407 9C40 0035 01 00 40 13 15 1000")));
}

TEST(OpenEntry, ReachesTheEndOfTheSection) {
    ElisionLink link;
    link.encoder.add_flow(5, {});
    EXPECT_EQ(link.send(5, udp4(), 200, Extent::ToEnd),
              to_hex(from_hex("3F 03 05 C6336407 9C40 0035 01 00 40 00 00 1000")));
}

TEST(OpenEntry, MarksAMissingUdpChecksum) {
    ElisionLink link;
    link.encoder.add_flow(5, {});
    HeaderFields fields = udp4();
    fields.zero_checksum = true;
    EXPECT_EQ(link.send(5, fields),
              to_hex(from_hex("3F 03 05 C6336407 9C40 0035 03 00 40 00 01 1000")));
}

TEST(OpenEntry, HasFlowLabelAndNoIdForIpv6) {
    ElisionLink link;
    link.encoder.add_flow(300, {});
    EXPECT_EQ(link.send(300, udp6()),
              to_hex(from_hex("3F 83 AC02 20010DB8 00000000 00000000 00000007 9C40 0035 "
                              "012345 00 40 00 01")));
}

TEST(OpenEntry, HasIdentifierAndSequenceOfAnEcho) {
    ElisionLink link;
    link.encoder.add_flow(1, {});
    link.encoder.add_flow(2, {});
    EXPECT_EQ(link.send(1, echo4(), 56),
              to_hex(from_hex("3F 23 01 C6336407 0102 01 00 40 00 39 1000 0005")));
    HeaderFields reply = echo4();
    reply.is_reply = true;
    EXPECT_EQ(link.send(2, reply),
              to_hex(from_hex("3F 33 02 C6336407 0102 01 00 40 00 01 1000 0005")));
}

TEST(OpenEntry, HasEverythingOfATcpFlow) {
    ElisionLink link;
    link.encoder.add_flow(1, {});
    link.encoder.add_flow(2, {});
    EXPECT_EQ(link.send(1, tcp4()),
              to_hex(from_hex("3F 53 01 C6336407 9C40 01BB 01 00 40 00 01 1000 "
                              "10 10000000 20000000 0200 30000000 40000000")));
    EXPECT_EQ(
        link.send(2, tcp6_without_timestamps()),
        to_hex(from_hex("3F C3 02 20010DB8 00000000 00000000 00000007 9C40 01BB 012345 00 40 00 01 "
                        "10 10000000 20000000 0200")));
}

TEST(WholeEntry, IsThePacketBehindItsLength) {
    ElisionLink link;
    Bytes section(400);
    ByteWriter writer(section);
    const Bytes packet(200, 0x45);
    link.encoder.begin_datagram(0, 0, link.now);
    EXPECT_TRUE(link.encoder.append_whole(packet, writer));
    EXPECT_FALSE(link.encoder.end_datagram().is_stateful);
    EXPECT_EQ(to_hex(writer.written().first(4)), "3F00C801");
    ASSERT_TRUE(link.decode(writer.written()));
    ASSERT_EQ(link.decoder.entries().size(), 1U);
    EXPECT_EQ(link.decoder.entries()[0].kind, EntryKind::Whole);
    EXPECT_EQ(to_hex(link.decoder.entries()[0].payload), to_hex(packet));
    EXPECT_FALSE(link.decoder.commit());
}

TEST(ContextEntry, OpensAFlowWithoutAPacket) {
    ElisionLink link;
    Bytes section(100);
    ByteWriter writer(section);
    link.encoder.add_flow(5, {4, false});
    EXPECT_FALSE(link.encoder.is_opening(5));
    link.encoder.begin_datagram(link.space, link.next, link.now);
    EXPECT_TRUE(link.encoder.append_context(5, udp4(), writer));
    EXPECT_TRUE(link.encoder.append_whole(Bytes{0x45}, writer));
    EXPECT_TRUE(link.encoder.end_datagram().has_set);
    EXPECT_TRUE(link.encoder.is_opening(5));
    EXPECT_EQ(to_hex(writer.written()),
              to_hex(from_hex("3F 0B 05 C6336407 9C40 0035 01 00 40 08 1000 3F 00 01 45")));
    ASSERT_TRUE(link.decode(writer.written()));
    ASSERT_EQ(link.decoder.entries().size(), 2U);
    EXPECT_EQ(link.decoder.entries()[0].kind, EntryKind::Context);
    EXPECT_EQ(link.decoder.entries()[0].fields, udp4());
    EXPECT_EQ(link.decoder.entries()[0].open.app, 4);
    EXPECT_TRUE(link.decoder.commit());
    EXPECT_TRUE(link.encoder.on_acknowledged(link.space, 0, 0, link.now));
    link.next = 1;
    EXPECT_EQ(link.send(5, udp4()), "0500");
}

using Change = void (*)(HeaderFields&);

struct Row {
    const char* what;
    HeaderFields (*flow)();
    size_t opened_bytes;
    Change change;
    size_t payload_bytes;
    Extent extent;
    const char* expected;
};

// Names the case in failures.
void PrintTo(const Row& row, std::ostream* out) {
    *out << row.what;
}

// The flow is open, reference 0 has the values of `flow`; the next packet has what `change` makes
// of them.
class FirstEntry : public ::testing::TestWithParam<Row> {};

TEST_P(FirstEntry, HasTheBytesOfItsRow) {
    const Row& row = GetParam();
    ElisionLink link;
    link.open(3, row.flow(), row.opened_bytes);
    HeaderFields fields = row.flow();
    row.change(fields);
    EXPECT_EQ(link.send(3, fields, row.payload_bytes, row.extent), to_hex(from_hex(row.expected)));
}

constexpr Extent kCounted = Extent::Counted;
constexpr Extent kToEnd = Extent::ToEnd;

const Row kUdpRows[] = {
    {"id", udp4, 20, [](HeaderFields& f) { f.ip_id += 42; }, 20, kCounted, "03 2A"},
    {"id backwards", udp4, 20, [](HeaderFields& f) { f.ip_id -= 3; }, 20, kCounted, "03 FD"},
    {"id over the wrap of its byte", udp4, 20, [](HeaderFields& f) { f.ip_id -= 64; }, 20, kCounted,
     "03 C0"},
    {"length", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 30, kCounted, "83 01 01 1E"},
    {"long length", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 300, kCounted, "83 01 01 AC02"},
    {"to the end", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 300, kToEnd, "83 02 01"},
    {"same length to the end", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 20, kToEnd, "03 01"},
    {"id in two bytes, SET", udp4, 20, [](HeaderFields& f) { f.ip_id += 0x300; }, 20, kCounted,
     "83 84 1300"},
    {"id in one byte, SET", udp4, 20, [](HeaderFields& f) { f.ip_id += 100; }, 20, kCounted,
     "83 80 64"},
    {"ToS and TTL, SET", udp4, 20, [](HeaderFields& f) { f.tos = 2; }, 20, kCounted,
     "83 88 00 02 40"},
    {"all at once", udp4, 20,
     [](HeaderFields& f) {
         f.ip_id += 0x300;
         f.ttl = 63;
     },
     30, kCounted, "83 8D 1300 1E 00 3F"},
    {"echo", echo4, 56,
     [](HeaderFields& f) {
         ++f.ip_id;
         ++f.echo_sequence;
     },
     56, kCounted, "03 06 01"},
    {"echo sequence in two bytes, SET", echo4, 56, [](HeaderFields& f) { f.echo_sequence += 1000; },
     56, kCounted, "83 C0 03ED 00"},
    {"IPv6", udp6, 20, [](HeaderFields&) {}, 20, kCounted, "03"},
    {"IPv6 length", udp6, 20, [](HeaderFields&) {}, 30, kCounted, "83 01 1E"},
    {"IPv6 to the end", udp6, 20, [](HeaderFields&) {}, 30, kToEnd, "83 02"},
};
INSTANTIATE_TEST_SUITE_P(UdpAndEcho, FirstEntry, ::testing::ValuesIn(kUdpRows));

const Row kTcpRows[] = {
    {"id only", tcp4, 0, [](HeaderFields& f) { ++f.ip_id; }, 0, kCounted, "83 00 00 00 01"},
    {"seq 2", tcp4, 0, [](HeaderFields& f) { f.sequence += 0x100; }, 0, kCounted,
     "83 01 0100 00 00 00"},
    {"seq backwards", tcp4, 0, [](HeaderFields& f) { f.sequence -= 0x100; }, 0, kCounted,
     "83 01 FF00 00 00 00"},
    {"seq 2, SET", tcp4, 0, [](HeaderFields& f) { f.sequence += 8000; }, 0, kCounted,
     "83 81 20 1F40 00 00 00"},
    {"seq 3, SET", tcp4, 0, [](HeaderFields& f) { f.sequence += 0x10000; }, 0, kCounted,
     "83 82 20 010000 00 00 00"},
    {"seq 4, SET", tcp4, 0, [](HeaderFields& f) { f.sequence += 0x2000000; }, 0, kCounted,
     "83 83 20 12000000 00 00 00"},
    {"ack 2", tcp4, 0, [](HeaderFields& f) { f.acknowledgement += 0x100; }, 0, kCounted,
     "83 04 0100 00 00 00"},
    {"ack 3, SET", tcp4, 0, [](HeaderFields& f) { f.acknowledgement += 0x10000; }, 0, kCounted,
     "83 88 20 010000 00 00 00"},
    {"ack 4, SET", tcp4, 0, [](HeaderFields& f) { f.acknowledgement += 0x2000000; }, 0, kCounted,
     "83 8C 20 22000000 00 00 00"},
    {"timestamps 1", tcp4, 0,
     [](HeaderFields& f) {
         f.timestamp_value += 50;
         f.timestamp_echo += 40;
     },
     0, kCounted, "83 00 32 28 00"},
    {"timestamps 2, SET", tcp4, 0, [](HeaderFields& f) { f.timestamp_value += 1000; }, 0, kCounted,
     "83 90 20 03E8 0000 00"},
    {"timestamps 4, SET", tcp4, 0, [](HeaderFields& f) { f.timestamp_echo += 0x100000; }, 0,
     kCounted, "83 80 30 30000000 40100000 00"},
    {"id 2, SET", tcp4, 0, [](HeaderFields& f) { f.ip_id += 0x300; }, 0, kCounted,
     "83 80 24 00 00 1300"},
    {"length", tcp4, 0, [](HeaderFields&) {}, 100, kCounted, "83 20 00 00 00 64"},
    {"to the end", tcp4, 0, [](HeaderFields&) {}, 100, kToEnd, "83 40 00 00 00"},
    {"PSH", tcp4, 0, [](HeaderFields& f) { f.flags |= kPsh; }, 0, kCounted, "83 80 40 00 00 00"},
    {"flags, SET", tcp4, 0, [](HeaderFields& f) { f.flags |= kFin; }, 0, kCounted,
     "83 80 21 00 00 00 11"},
    {"window, SET", tcp4, 0, [](HeaderFields& f) { f.window = 0x333; }, 0, kCounted,
     "83 80 22 00 00 00 0333"},
    {"ToS and TTL, SET", tcp4, 0, [](HeaderFields& f) { f.tos = 2; }, 0, kCounted,
     "83 80 28 00 00 00 02 40"},
    {"all at once", tcp4, 0,
     [](HeaderFields& f) {
         f.sequence += 0x2000000;
         f.acknowledgement -= 0x2000000;
         f.timestamp_value += 0x100000;
         f.ip_id += 0x300;
         f.flags = kAck | kFin;
         f.window = 0x333;
         f.ttl = 63;
     },
     300, kCounted, "83 AF 3F 12000000 1E000000 30100000 40000000 1300 AC02 11 0333 00 3F"},
    {"IPv6 without timestamps", tcp6_without_timestamps, 0, [](HeaderFields&) {}, 0, kCounted,
     "83 00"},
    {"IPv6 seq", tcp6_without_timestamps, 0, [](HeaderFields& f) { f.sequence += 0x100; }, 100,
     kToEnd, "83 41 0100"},
};
INSTANTIATE_TEST_SUITE_P(Tcp, FirstEntry, ::testing::ValuesIn(kTcpRows));

TEST(EntryHead, CarriesIndexesOfAnyLength) {
    for (const auto& [index, head] :
         {std::pair{61U, "3D"}, {62U, "3E00"}, {190U, "3E8001"}, {65535U, "3EC1FF03"}}) {
        ElisionLink link;
        link.open(index, udp6(), 20);
        EXPECT_EQ(link.send(index, udp6(), 20), head);
    }
}

TEST(EntryHead, NamesTheReference) {
    ElisionLink link;
    link.open(3, udp4(), 20);
    HeaderFields fields = udp4();
    fields.ip_id += 100;
    EXPECT_EQ(link.send(3, fields, 20), "838064");  // sets reference 1
    ++fields.ip_id;
    EXPECT_EQ(link.send(3, fields, 20), "4365");
    fields.ip_id += 100;
    EXPECT_EQ(link.send(3, fields, 20), "C380C9");  // sets reference 0
    EXPECT_EQ(link.send(3, fields, 20), "03C9");
}

// Two packets in one section: the second is coded against the first.
class LaterEntry : public ::testing::TestWithParam<Row> {};

TEST_P(LaterEntry, HasTheBytesOfItsRow) {
    const Row& row = GetParam();
    ElisionLink link;
    link.open(3, row.flow(), row.opened_bytes);
    Bytes section(1000);
    ByteWriter writer(section);
    const Bytes payload(row.payload_bytes, 0xEE);
    HeaderFields second = row.flow();
    row.change(second);
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_TRUE(link.encoder.append(3, row.flow(), ByteView(payload).first(row.opened_bytes),
                                    kCounted, writer));
    const size_t first_bytes = writer.size();
    ASSERT_TRUE(link.encoder.append(3, second, payload, row.extent, writer));
    link.encoder.end_datagram();
    const ByteView written = writer.written().subspan(first_bytes);
    EXPECT_EQ(to_hex(written.first(written.size() - payload.size())),
              to_hex(from_hex(row.expected)));
    ASSERT_TRUE(link.decode(writer.written()));
    ASSERT_EQ(link.decoder.entries().size(), 2U);
    EXPECT_EQ(link.decoder.entries()[0].fields, row.flow());
    EXPECT_EQ(link.decoder.entries()[1].fields, second);
    EXPECT_EQ(link.decoder.entries()[1].payload.size(), payload.size());
}

const Row kLaterRows[] = {
    {"UDP", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 20, kCounted, "03"},
    {"UDP length", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 30, kCounted, "83 01 1E"},
    {"UDP to the end", udp4, 20, [](HeaderFields& f) { ++f.ip_id; }, 30, kToEnd, "83 02"},
    {"UDP id", udp4, 20, [](HeaderFields& f) { f.ip_id = 0x2000; }, 30, kCounted, "83 05 1E 2000"},
    {"IPv6 UDP", udp6, 20, [](HeaderFields&) {}, 20, kCounted, "03"},
    {"echo", echo4, 56,
     [](HeaderFields& f) {
         ++f.ip_id;
         ++f.echo_sequence;
     },
     56, kCounted, "03"},
    {"echo sequence", echo4, 56,
     [](HeaderFields& f) {
         ++f.ip_id;
         f.echo_sequence = 0x100;
     },
     56, kCounted, "83 08 0100"},
    {"TCP", tcp4, 100,
     [](HeaderFields& f) {
         ++f.ip_id;
         f.sequence += 100;
     },
     100, kCounted, "03"},
    {"TCP other length", tcp4, 100,
     [](HeaderFields& f) {
         ++f.ip_id;
         f.sequence += 100;
     },
     200, kCounted, "83 01 C801"},
    {"TCP seq", tcp4, 0,
     [](HeaderFields& f) {
         ++f.ip_id;
         ++f.sequence;
     },
     0, kCounted, "83 08 10000001"},
    {"TCP ack", tcp4, 0,
     [](HeaderFields& f) {
         ++f.ip_id;
         f.acknowledgement += 0x100;
     },
     0, kCounted, "83 10 8004"},
    {"TCP timestamps", tcp4, 0,
     [](HeaderFields& f) {
         ++f.ip_id;
         ++f.timestamp_value;
         --f.timestamp_echo;
     },
     0, kCounted, "83 20 02 01"},
    {"TCP window", tcp4, 0,
     [](HeaderFields& f) {
         ++f.ip_id;
         --f.window;
     },
     0, kCounted, "83 40 01"},
    {"TCP flags", tcp4, 0,
     [](HeaderFields& f) {
         ++f.ip_id;
         f.flags |= kPsh;
     },
     0, kCounted, "83 80 18"},
    {"TCP all at once", tcp4, 0,
     [](HeaderFields& f) {
         f.ip_id = 0x2000;
         ++f.sequence;
         ++f.acknowledgement;
         ++f.timestamp_value;
         ++f.window;
         f.flags |= kPsh;
     },
     5, kCounted, "83 FD 05 2000 10000001 02 02 00 02 18"},
    {"IPv6 TCP", tcp6_without_timestamps, 0, [](HeaderFields&) {}, 0, kCounted, "03"},
};
INSTANTIATE_TEST_SUITE_P(AllKinds, LaterEntry, ::testing::ValuesIn(kLaterRows));

TEST(LaterEntry, IsAnOpenWhenItCannotBeCoded) {
    ElisionLink link;
    link.open(3, udp4(), 20);
    Bytes section(1000);
    ByteWriter writer(section);
    HeaderFields other = udp4();
    other.ttl = 63;
    link.encoder.begin_datagram(link.space, link.next, link.now);
    ASSERT_TRUE(link.encoder.append(3, udp4(), Bytes(20), kCounted, writer));
    const size_t first = writer.size();
    ASSERT_TRUE(link.encoder.append(3, other, Bytes(20), kCounted, writer));
    EXPECT_EQ(to_hex(writer.written().subspan(first, 3)), "3F0103");
    const size_t second = writer.size();
    ++other.ip_id;
    ASSERT_TRUE(link.encoder.append(3, other, Bytes(20), kCounted, writer));
    EXPECT_EQ(writer.size() - second, 21U);
    ASSERT_TRUE(link.decode(writer.written()));
    EXPECT_EQ(link.decoder.entries()[2].fields, other);
}

TEST(CloseSection, MakesTheLastPayloadReachTheEnd) {
    for (const bool is_tcp : {false, true}) {
        ElisionLink link;
        const HeaderFields fields = is_tcp ? tcp4() : udp4();
        link.open(3, fields, 20);
        Bytes section(1000);
        ByteWriter writer(section);
        const Bytes payload(300, 0xEE);
        link.encoder.begin_datagram(link.space, link.next, link.now);
        ASSERT_TRUE(link.encoder.append(3, fields, payload, kCounted, writer));
        link.encoder.close_section(writer);
        EXPECT_EQ(to_hex(writer.written().first(writer.size() - 300)),
                  is_tcp ? "8340000000" : "830200");
        ASSERT_TRUE(link.decode(writer.written()));
        EXPECT_EQ(to_hex(link.decoder.entries()[0].payload), to_hex(payload));
        EXPECT_EQ(link.decoder.entries()[0].fields, fields);
    }
}

TEST(CloseSection, ShortensALaterEntryAndAnOpen) {
    ElisionLink link;
    link.encoder.add_flow(3, {});
    Bytes section(2000);
    const Bytes payload(300, 0xEE);
    for (const size_t packets : {size_t{1}, size_t{2}}) {
        ByteWriter writer(section);
        link.encoder.begin_datagram(link.space, link.next++, link.now);
        HeaderFields fields = tcp4();
        ASSERT_TRUE(link.encoder.append(3, fields, payload, kCounted, writer));
        if (packets == 2) {
            fields.sequence += 300;
            ++fields.ip_id;
            ASSERT_TRUE(
                link.encoder.append(3, fields, ByteView(payload).first(250), kCounted, writer));
        }
        const size_t before = writer.size();
        link.encoder.close_section(writer);
        EXPECT_EQ(before - writer.size(), packets == 1 ? 1U : 2U);
        link.encoder.end_datagram();
        ASSERT_TRUE(link.decode(writer.written()));
        ASSERT_EQ(link.decoder.entries().size(), packets);
        EXPECT_EQ(link.decoder.entries()[packets - 1].fields, fields);
        EXPECT_EQ(link.decoder.entries()[packets - 1].payload.size(), packets == 1 ? 300U : 250U);
    }
}

}  // namespace
}  // namespace continuo::elision
