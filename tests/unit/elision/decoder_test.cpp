// The decoder believes nothing: truncated, altered and nonsensical entries are refused and change
// no state.
#include "common/base/random.hpp"
#include "tests/unit/elision/elision_link.hpp"

namespace continuo::elision {
namespace {

using base::DropReason;
using base::Errc;

// Sections with every form of entry, each decodable after prepare().
struct Samples {
    ElisionLink link;
    std::vector<Bytes> sections;

    Samples() {
        link.open(1, udp4(), 20);
        link.open(2, echo4(), 20);
        link.open(3, tcp4());
        link.open(4, tcp6_without_timestamps());
        link.open(70, udp6(), 20);
        for (const uint32_t index : {1U, 2U, 3U, 4U, 70U, 8U, 9U}) {
            link.encoder.add_flow(8, {5, false});
            link.encoder.add_flow(9, {200, true});
            add(index);
        }
        link.encoder.add_flow(8, {});
        Bytes section(200);
        ByteWriter writer(section);
        link.encoder.begin_datagram(link.space, link.next, link.now);
        link.encoder.append_context(8, tcp4(), writer);
        link.encoder.append_whole(Bytes(30, 0x45), writer);
        link.encoder.abort_datagram();
        section.resize(writer.size());
        sections.push_back(section);
    }

    // Three packets of the flow, with little and with much that is new, each length counted.
    void add(uint32_t index) {
        const std::array<HeaderFields (*)(), 5> kinds = {udp4, echo4, tcp4, tcp6_without_timestamps,
                                                         udp6};
        const size_t kind = index == 8 ? 2 : index == 9 ? 4 : index == 70 ? 4 : index - 1;
        HeaderFields fields = kinds[kind]();
        Bytes section(1000);
        ByteWriter writer(section);
        link.encoder.begin_datagram(link.space, link.next, link.now);
        link.encoder.begin_section();
        EXPECT_TRUE(link.encoder.append(index, fields, Bytes(30, 0xEE), Extent::Counted, writer));
        fields.ttl = 30;
        EXPECT_TRUE(link.encoder.append(index, fields, Bytes(130, 0xEE), Extent::Counted, writer));
        if (fields.protocol == packet::Protocol::Tcp) {
            fields.acknowledgement -= 100000;
            fields.window += 5;
            fields.flags ^= packet::tcp_flag::kPsh;
            fields.timestamp_value += fields.has_timestamps ? 500 : 0;
        }
        EXPECT_TRUE(link.encoder.append(index, fields, Bytes(50, 0xEE), Extent::Counted, writer));
        link.encoder.abort_datagram();
        section.resize(writer.size());
        sections.push_back(section);
    }
};

// The decoded section as text; nothing is committed.
std::string decoded(ElisionLink& link, ByteView section) {
    std::string text;
    if (!link.decode(section)) {
        return "error";
    }
    for (const DecodedEntry& entry : link.decoder.entries()) {
        const HeaderFields& f = entry.fields;
        text += std::to_string(entry.index) + ":" + f.destination.to_string() + ":" +
                std::to_string(f.ip_id) + ":" + std::to_string(f.sequence) + ":" +
                std::to_string(f.acknowledgement) + ":" + std::to_string(f.timestamp_value) + ":" +
                std::to_string(f.ttl) + ":" + to_hex(entry.payload) + ";";
    }
    link.decoder.rollback();
    return text;
}

TEST(Decoder, RefusesEveryTruncationInsideAnEntry) {
    Samples samples;
    for (const Bytes& section : samples.sections) {
        const std::string whole = decoded(samples.link, section);
        ASSERT_NE(whole, "error") << to_hex(section);
        for (size_t length = 0; length < section.size(); ++length) {
            const std::string part = decoded(samples.link, ByteView(section).first(length));
            // A cut between two entries leaves the first ones.
            EXPECT_TRUE(part == "error" || whole.substr(0, part.size()) == part) << length;
        }
        EXPECT_EQ(decoded(samples.link, section), whole);
    }
}

TEST(Decoder, KeepsItsStateWhateverIsDecodedAndRolledBack) {
    base::SeededRandom random(7);
    Samples samples;
    std::vector<std::string> expected;
    for (const Bytes& section : samples.sections) {
        expected.push_back(decoded(samples.link, section));
    }
    for (int round = 0; round < 20000; ++round) {
        const size_t chosen = random.below(samples.sections.size());
        Bytes altered = samples.sections[chosen];
        for (uint64_t flips = 1 + random.below(4); flips > 0; --flips) {
            altered[random.below(std::min<size_t>(altered.size(), 60))] ^=
                static_cast<uint8_t>(1U << random.below(8));
        }
        decoded(samples.link, altered);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(decoded(samples.link, samples.sections[i]), expected[i]);
    }
}

TEST(Decoder, SurvivesRandomBytes) {
    base::SeededRandom random(8);
    Samples samples;
    for (int round = 0; round < 20000; ++round) {
        Bytes noise(random.below(80));
        random.fill(noise);
        if (samples.link.decode(noise)) {
            samples.link.decoder.commit();
        }
    }
}

TEST(Decoder, RefusesBitsThatTheKindOfFlowHasNot) {
    ElisionLink link;
    link.open(1, udp4(), 0);
    link.open(2, udp6(), 0);
    link.open(3, tcp4());
    link.open(4, tcp6_without_timestamps());
    for (const std::string_view section :
         {"81 03 00 00",
          "81 10 00",
          "81 20 00",
          "81 40 00 00",
          "82 04 0000",  // both lengths; unknown; no id
          "03",
          "83 60 00 00 00 00",
          "83 80 80 00 00 00",
          "83 80 41 00 00 00 10",  // no mask; lengths; flags twice
          "83 90 10 0000 0000 00",
          "84 10",
          "84 80 10",
          "84 80 04",  // timestamps twice or absent
          "BF 00 01 45",
          "7F 00 01 45",
          "3F 02 00",
          "3F 00 00",  // M or R; subtype; empty
          "01 00 41 00",
          "02 82 10 00",
          "02 82 04 0000",
          "01 00 81 03 00",                                   // later: R; bits
          "3F 13 05 C6336407 9C40 0035 01 00 40 00 01 1000",  // RTP
          "3F 73 05 C6336407 9C40 0035 01 00 40 00 01 1000",  // unknown kind
          "3F 03 05 C6336407 9C40 0035 04 00 40 00 01 1000",  // unknown flag
          "3F 83 05 20010DB8 00000000 00000000 00000007 9C40 0035 112345 00 40 00 01",
          "3F 03 80 80 04 C6336407 9C40 0035 01 00 40 00 01 1000",  // index 65536
          "3E C2 FF 03",                                            // the same
          "81 01 00 80 80 04"}) {                                   // length 65536
        EXPECT_FALSE(link.decode(from_hex(section))) << section;
        link.decoder.rollback();
    }
}

TEST(Decoder, TellsMissingStateFromBadBodies) {
    ElisionLink link;
    link.open(1, udp4(), 0);
    const auto missing_flow = link.decode(from_hex("02 00"));
    ASSERT_FALSE(missing_flow);
    EXPECT_EQ(drop_reason(missing_flow.error()), DropReason::UnknownReference);
    const auto missing_reference = link.decode(from_hex("41 00"));
    ASSERT_FALSE(missing_reference);
    EXPECT_EQ(drop_reason(missing_reference.error()), DropReason::UnknownReference);
    const auto bad = link.decode(from_hex("81 03 00 00"));
    ASSERT_FALSE(bad);
    EXPECT_EQ(drop_reason(bad.error()), DropReason::BadBody);
}

TEST(Decoder, DecodesADatagramAgainstTheStateBeforeIt) {
    ElisionLink link;
    const Bytes open = from_hex("3F 03 05 C6336407 9C40 0035 01 00 40 00 01 1000");
    link.decoder.begin(0, 0);
    ASSERT_TRUE(link.decoder.decode_section(open));
    EXPECT_TRUE(link.decoder.has_set());
    EXPECT_FALSE(
        link.decoder.decode_section(from_hex("05 01")));  // another section, not opened yet
    link.decoder.rollback();
    EXPECT_FALSE(link.decoder.has_flow(5));
    link.decoder.begin(0, 0);
    ASSERT_TRUE(link.decoder.decode_section(open));
    EXPECT_TRUE(link.decoder.commit());
    EXPECT_TRUE(link.decoder.has_flow(5));
    EXPECT_TRUE(link.decode(from_hex("05 01")));
}

TEST(Decoder, UnderstandsTemplates) {
    ElisionLink link;
    link.open(5, udp4(), 0, {9, false});
    // DNS to the same resolver from another port: template 5, source port 9C41.
    const Bytes section = from_hex("3F 07 06 05 9C41 03 1001 AABB");
    ASSERT_TRUE(link.decode(section));
    const DecodedEntry& entry = link.decoder.entries()[0];
    HeaderFields expected = udp4();
    expected.source_port = 0x9C41;
    expected.ip_id = 0x1001;
    EXPECT_EQ(entry.kind, EntryKind::Opened);
    EXPECT_EQ(entry.fields, expected);
    EXPECT_EQ(entry.open, (OpenInfo{9, false}));
    EXPECT_EQ(to_hex(entry.payload), "AABB");
    EXPECT_TRUE(link.decoder.commit());
    ASSERT_TRUE(link.decode(from_hex("06 02 AABB")));
    EXPECT_EQ(link.decoder.entries()[0].fields.source_port, 0x9C41);
    // Same source port: the destination port differs.
    ASSERT_TRUE(link.decode(from_hex("3F 0D 07 05 0050 01 1001")));
    EXPECT_EQ(link.decoder.entries()[0].fields.source_port, 40000);
    EXPECT_EQ(link.decoder.entries()[0].fields.destination_port, 80);
    EXPECT_FALSE(link.decode(from_hex("3F 07 06 08 9C41 01 1001")));       // no such template
    EXPECT_FALSE(link.decode(from_hex("3F 27 06 05 9C41 01 1001 0001")));  // of another kind
}

TEST(Decoder, AppliesFloorsOnlyWithTheDatagram) {
    ElisionLink link;
    link.decoder.begin(8, 100);
    EXPECT_TRUE(link.decoder.apply_floor(16, 50));
    link.decoder.rollback();
    link.decoder.begin(16, 49);
    EXPECT_FALSE(link.decoder.is_below_floor());
    link.decoder.begin(8, 100);
    EXPECT_TRUE(link.decoder.apply_floor(16, 50));
    EXPECT_TRUE(link.decoder.commit());  // stateful: the sender waits for it
    link.decoder.begin(16, 49);
    EXPECT_TRUE(link.decoder.is_below_floor());
    link.decoder.begin(8, 101);
    EXPECT_TRUE(link.decoder.apply_floor(16, 40));  // an older one does not lower it
    link.decoder.commit();
    link.decoder.begin(16, 49);
    EXPECT_TRUE(link.decoder.is_below_floor());
}

TEST(Decoder, RefusesFloorsThatMakeNoSense) {
    ElisionLink link;
    link.decoder.begin(8, 100);
    EXPECT_FALSE(link.decoder.apply_floor(8, 101));
    for (uint16_t space = 0; space < kMaxSpaces; ++space) {
        EXPECT_TRUE(link.decoder.apply_floor(static_cast<uint16_t>(100 + space), 5));
    }
    EXPECT_FALSE(link.decoder.apply_floor(400, 5));
    link.decoder.commit();
    link.decoder.begin(8, 100);
    EXPECT_FALSE(link.decoder.apply_floor(400, 5));
    EXPECT_TRUE(link.decoder.apply_floor(100, 6));
}

TEST(Decoder, BoundsTheEntriesOfADatagram) {
    ElisionLink link;
    link.open(1, udp6(), 0);
    EXPECT_TRUE(link.decode(Bytes(kMaxEntries, 0x01)));
    const auto result = link.decode(Bytes(kMaxEntries + 1, 0x01));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Errc::LimitReached);
}

TEST(Decoder, BoundsIndexesAsItIsTold) {
    DecodeScratch scratch;
    Decoder decoder(packet::NodeSide::Source, scratch, 6);
    decoder.begin(0, 0);
    EXPECT_TRUE(
        decoder.decode_section(from_hex("3F 03 05 C6336407 9C40 0035 01 00 40 00 01 1000")));
    EXPECT_FALSE(
        decoder.decode_section(from_hex("3F 03 06 C6336407 9C40 0035 01 00 40 00 01 1000")));
}

TEST(Decoder, RefusesPacketsThatIpCannotHave) {
    ElisionLink link;
    link.open(1, udp4(), 0);
    Bytes section = from_hex("81 02 00");
    section.resize(section.size() + kMaxPacketBytes - 28);
    EXPECT_TRUE(link.decode(section));
    section.push_back(0);
    EXPECT_FALSE(link.decode(section));
}

TEST(Decoder, PutsTheRemoteAddressOnItsSide) {
    Encoder encoder(packet::NodeSide::Destination);
    DecodeScratch scratch;
    Decoder decoder(packet::NodeSide::Destination, scratch);
    HeaderFields fields = udp4();
    std::swap(fields.source, fields.destination);
    Bytes section(100);
    ByteWriter writer(section);
    encoder.add_flow(1, {});
    encoder.begin_datagram(0, 0, TimePoint{});
    HeaderFields sent = fields;
    sent.destination = base::IpAddress::v4(0xC0000201);
    ASSERT_TRUE(encoder.append(1, sent, {}, Extent::Counted, writer));
    decoder.begin(0, 0);
    ASSERT_TRUE(decoder.decode_section(writer.written()));
    EXPECT_EQ(decoder.entries()[0].fields, fields);  // the node's address is left out
}

TEST(Decoder, ForgetsARemovedFlow) {
    ElisionLink link;
    link.open(1, udp4(), 0);
    link.decoder.remove_flow(1);
    EXPECT_FALSE(link.decoder.has_flow(1));
    EXPECT_FALSE(link.decode(from_hex("01 00")));
}

// Sets nothing that it has no memory for, and says so.
TEST(DecoderMemory, ContextsBeyondTheBudgetAreNotKept) {
    DecodeScratch scratch;
    base::MemoryBudget budget(4096);  // of two pages, hardly
    Decoder decoder(packet::NodeSide::Source, scratch, kMaxFlowIndex + 1, &budget);
    uint64_t sequence = 0;
    const auto open = [&](const char* index) {
        const Bytes section =
            from_hex(std::string("3F 03 ") + index + " C6336407 9C40 0035 01 00 40 00 01 1000");
        decoder.begin(0, sequence++);
        EXPECT_TRUE(decoder.decode_section(section));
        EXPECT_EQ(decoder.entries().size(), 1U) << "its packet is as good as any";
        decoder.commit();
        return !decoder.is_short_of_memory();
    };
    EXPECT_TRUE(open("05"));
    const size_t page = budget.used_bytes();
    EXPECT_GT(page, 1000U);
    EXPECT_TRUE(open("06")) << "on the same page";
    EXPECT_TRUE(open("11"));
    EXPECT_FALSE(open("21"));
    EXPECT_FALSE(decoder.has_flow(0x21));
    EXPECT_TRUE(decoder.has_flow(5));
    EXPECT_TRUE(open("07"));
    EXPECT_LE(budget.used_bytes(), budget.limit_bytes());
}

}  // namespace
}  // namespace continuo::elision
