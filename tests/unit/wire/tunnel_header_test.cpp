#include "common/wire/tunnel_header.hpp"
#include "tests/unit/wire/vector_file.hpp"

namespace continuo::wire {
namespace {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using test::Bytes;
using test::read_vectors;
using test::VectorRecord;

TunnelHeader header_of(const VectorRecord& record) {
    TunnelHeader header;
    header.epoch = static_cast<uint8_t>(record.hex_number("epoch"));
    header.traffic_class = base::parse_traffic_class(record.text("class")).value();
    header.path = static_cast<uint8_t>(record.hex_number("path"));
    header.lane = static_cast<uint8_t>(record.hex_number("lane"));
    header.session_id = static_cast<uint16_t>(record.hex_number("session_id"));
    header.long_sequence = record.text("long") == "yes";
    header.sequence = static_cast<uint32_t>(record.hex_number("sequence"));
    return header;
}

Bytes bytes_of(const TunnelHeader& header) {
    Bytes bytes(header.size());
    ByteWriter writer(bytes);
    header.serialize(writer);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(writer.size(), bytes.size());
    return bytes;
}

TEST(TunnelHeaderTest, SerializesAndParsesTheVectors) {
    for (const VectorRecord& record : read_vectors("tunnel_header.hex")) {
        SCOPED_TRACE(record.name);
        ByteReader reader(record.bytes);
        const auto parsed = TunnelHeader::parse(reader);
        if (const auto error = record.find("error")) {
            ASSERT_FALSE(parsed);
            EXPECT_EQ(parsed.error().code,
                      *error == "truncated" ? Errc::Truncated : Errc::Unsupported);
            EXPECT_EQ(parsed.error().where == kWhereUnsealed, *error == "unsealed");
            continue;
        }
        const TunnelHeader expected = header_of(record);
        EXPECT_EQ(bytes_of(expected), record.bytes);
        ASSERT_TRUE(parsed);
        EXPECT_EQ(*parsed, expected);
        EXPECT_TRUE(reader.at_end());
        EXPECT_EQ(kind_of(record.bytes), DatagramKind::Sealed);
    }
}

TEST(TunnelHeaderTest, RefusesEveryTruncation) {
    for (const VectorRecord& record : read_vectors("tunnel_header.hex")) {
        if (record.find("error")) {
            continue;
        }
        for (size_t length = 0; length < record.bytes.size(); ++length) {
            ByteReader reader(ByteView(record.bytes).first(length));
            const auto parsed = TunnelHeader::parse(reader);
            ASSERT_FALSE(parsed) << record.name << " " << length;
            EXPECT_EQ(parsed.error().code, Errc::Truncated);
        }
        const TunnelHeader header = header_of(record);
        test::expect_fails_in_every_shorter_buffer(
            header.size(), [&header](ByteWriter& writer) { header.serialize(writer); });
    }
}

TEST(TunnelHeaderTest, EveryBitBelongsToExactlyOneField) {
    const Bytes zero = bytes_of({});
    for (size_t bit = 4; bit < zero.size() * 8; ++bit) {
        Bytes bytes = zero;
        bytes.resize(kLongHeaderBytes);
        bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] | 0x80U >> bit % 8);
        ByteReader reader(bytes);
        const auto parsed = TunnelHeader::parse(reader);
        ASSERT_TRUE(parsed) << bit;
        EXPECT_NE(*parsed, TunnelHeader{}) << bit;
        Bytes again = bytes_of(*parsed);
        again.resize(kLongHeaderBytes);
        EXPECT_EQ(again, bytes) << bit;
    }
}

TEST(TunnelHeaderTest, EveryFirstByteHasItsKind) {
    EXPECT_EQ(kind_of({}), DatagramKind::Empty);
    for (unsigned first = 0; first < 256; ++first) {
        const Bytes bytes = {static_cast<uint8_t>(first)};
        const DatagramKind expected = first < 0x10 ? DatagramKind::Unsealed
                                      : (first >> 4) == kProtocolVersion
                                          ? DatagramKind::Sealed
                                          : DatagramKind::OtherVersion;
        EXPECT_EQ(kind_of(bytes), expected) << first;
    }
}

TEST(SpaceTest, HasTheNumbersOfTheVectors) {
    for (const VectorRecord& record : read_vectors("space.hex")) {
        SCOPED_TRACE(record.name);
        const Space space{base::parse_traffic_class(record.text("class")).value(),
                          static_cast<uint8_t>(record.hex_number("path")),
                          static_cast<uint8_t>(record.hex_number("lane"))};
        ByteReader reader(record.bytes);
        EXPECT_EQ(space_number(space), reader.u16());
    }
}

TEST(SpaceTest, NumbersAndSpacesMapOneToOne) {
    for (uint16_t number = 0; number < kMaxSpaces; ++number) {
        EXPECT_EQ(space_number(space_from_number(number)), number);
    }
}

TEST(SequenceTest, FollowsTheVectors) {
    for (const VectorRecord& record : read_vectors("sequence.hex")) {
        SCOPED_TRACE(record.name);
        if (record.find("low16")) {
            const uint64_t whole = reconstruct_sequence(
                record.hex_number("expected"), static_cast<uint16_t>(record.hex_number("low16")));
            EXPECT_EQ(whole, record.hex_number("whole"));
        } else {
            std::optional<uint64_t> highest;
            if (record.text("highest_acknowledged") != "none") {
                highest = record.hex_number("highest_acknowledged");
            }
            EXPECT_EQ(needs_long_form(record.hex_number("next"), highest),
                      record.text("long") == "yes");
        }
    }
}

TEST(SequenceTest, FindsEveryNumberWithinTheWindow) {
    for (const uint64_t expected : {uint64_t{0x8000}, uint64_t{0x12345}, uint64_t{0xFFFF0000},
                                    uint64_t{0x0FFFFFFF}, uint64_t{0x18000}}) {
        for (uint64_t whole = expected - kSequenceHalfWindow + 1;
             whole <= expected + kSequenceHalfWindow; ++whole) {
            ASSERT_EQ(reconstruct_sequence(expected, static_cast<uint16_t>(whole)), whole);
        }
    }
}

// The sender's rule and the receiver's window fit: whatever was lost or comes late, a short form is
// read right.
TEST(SequenceTest, AShortFormAllowedBySenderIsNeverMisread) {
    for (const uint64_t acknowledged : {uint64_t{0}, uint64_t{0xFFF0}, uint64_t{0x7FFFF}}) {
        const uint64_t furthest = acknowledged + kShortFormDistance - 1;
        ASSERT_FALSE(needs_long_form(furthest, acknowledged));
        for (uint64_t highest = acknowledged; highest <= furthest; highest += 61) {
            ASSERT_EQ(reconstruct_sequence(highest + 1, static_cast<uint16_t>(furthest)), furthest);
            ASSERT_EQ(reconstruct_sequence(highest + 1, static_cast<uint16_t>(acknowledged)),
                      acknowledged);
        }
    }
}

TEST(SequenceTest, HeaderGivesTheWholeNumberInBothForms) {
    TunnelHeader header;
    header.sequence = 0x0005;
    EXPECT_EQ(header.whole_sequence(0xFFFE), 0x10005U);
    header.long_sequence = true;
    EXPECT_EQ(header.whole_sequence(0xFFFE), 0x0005U);
}

TEST(ConstantsTest, SkewIsTwiceTheLargestRttPlusAMarginAndAtLeastItsMinimum) {
    EXPECT_EQ(skew_allowance(base::milliseconds(0)), base::milliseconds(300));
    EXPECT_EQ(skew_allowance(base::milliseconds(100)), base::milliseconds(300));
    EXPECT_EQ(skew_allowance(base::milliseconds(600)), base::milliseconds(1300));
}

}  // namespace
}  // namespace continuo::wire
