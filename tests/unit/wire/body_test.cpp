#include "common/wire/body.hpp"
#include "common/wire/tunnel_header.hpp"
#include "tests/unit/wire/describe.hpp"

#include <random>

namespace continuo::wire {
namespace {

using base::ByteReader;
using base::ByteView;
using base::ByteWriter;
using base::Errc;
using test::Bytes;
using test::read_vectors;
using test::VectorRecord;

// The items up to the end or the first error.
struct Walk {
    std::vector<BodyItem> items;
    std::optional<Errc> error;
};

Walk walk(ByteView body) {
    Walk result;
    BodyReader reader(body);
    BodyItem item;
    for (;;) {
        const auto more = reader.next(item);
        if (!more) {
            result.error = more.error().code;
            return result;
        }
        if (!*more) {
            return result;
        }
        result.items.push_back(item);
    }
}

Bytes bytes_of(const std::vector<BodyItem>& items) {
    Bytes buffer(70000);
    ByteWriter writer(buffer);
    for (const BodyItem& item : items) {
        const size_t before = writer.size();
        test::serialize(item, writer);
        EXPECT_EQ(writer.size() - before, test::size_of(item)) << test::describe(item);
    }
    EXPECT_TRUE(writer.ok());
    buffer.resize(writer.size());
    return buffer;
}

// A heap block of exactly that size, so that the address sanitizer sees a read beyond it.
Bytes exact(ByteView bytes) {
    return {bytes.begin(), bytes.end()};
}

void expect_vector(const VectorRecord& record, ByteView body) {
    const Walk found = walk(body);
    EXPECT_FALSE(found.error);
    std::vector<std::string> lines;
    for (const BodyItem& item : found.items) {
        lines.push_back(test::describe(item));
    }
    EXPECT_EQ(lines, record.all("item"));
    EXPECT_EQ(bytes_of(found.items), exact(body));
}

class BodyVectorTest : public testing::TestWithParam<const char*> {};

TEST_P(BodyVectorTest, ParsesAndSerializesTheVectors) {
    for (const VectorRecord& record : read_vectors(GetParam())) {
        SCOPED_TRACE(record.name);
        expect_vector(record, record.bytes);
    }
}

// A cut body may still be a body, but then it is one that says something else.
TEST_P(BodyVectorTest, TruncationNeverGivesTheSameItems) {
    for (const VectorRecord& record : read_vectors(GetParam())) {
        const size_t whole = walk(record.bytes).items.size();
        for (size_t length = 0; length < record.bytes.size(); ++length) {
            const Bytes cut = exact(ByteView(record.bytes).first(length));
            const Walk found = walk(cut);
            ASSERT_LE(found.items.size(), whole);
            if (!found.error) {
                EXPECT_EQ(bytes_of(found.items), cut) << record.name << " " << length;
            }
            EXPECT_EQ(check_body(cut).has_value(), !found.error);
        }
    }
}

TEST_P(BodyVectorTest, SerializingIntoEveryShorterBufferFails) {
    for (const VectorRecord& record : read_vectors(GetParam())) {
        for (const BodyItem& item : walk(record.bytes).items) {
            test::expect_fails_in_every_shorter_buffer(
                test::size_of(item),
                [&item](ByteWriter& writer) { test::serialize(item, writer); });
        }
    }
}

// Whatever parses is either written back to the same bytes or uses a value that is read as another
// on purpose.
TEST_P(BodyVectorTest, FlippedBitsParseOrFailButNeverCrash) {
    for (const VectorRecord& record : read_vectors(GetParam())) {
        for (size_t bit = 0; bit < record.bytes.size() * 8; ++bit) {
            Bytes flipped = record.bytes;
            flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ 0x80U >> bit % 8);
            const Walk found = walk(flipped);
            EXPECT_EQ(check_body(flipped).has_value(), !found.error);
            if (!found.error) {
                bytes_of(found.items);
            }
        }
    }
}

INSTANTIATE_TEST_SUITE_P(Files,
                         BodyVectorTest,
                         testing::Values("frames.hex", "bodies.hex"),
                         [](const auto& file) { return std::string(file.param).substr(0, 6); });

TEST(BodyTest, WorkedExamplesHaveTheirBytesOnTheWire) {
    constexpr size_t kIpAndUdpBytes = 28;
    for (const VectorRecord& record : read_vectors("worked_examples.hex")) {
        SCOPED_TRACE(record.name);
        ByteReader reader(record.bytes);
        const auto header = TunnelHeader::parse(reader);
        ASSERT_TRUE(header);
        EXPECT_EQ(base::token(header->traffic_class), record.text("class"));
        EXPECT_EQ(header->sequence, record.hex_number("sequence"));
        EXPECT_EQ(std::to_string(kIpAndUdpBytes + record.bytes.size() + kFullTagBytes),
                  record.text("bytes"));
        expect_vector(record, reader.rest());
        EXPECT_TRUE(is_single_section(reader.rest()));
    }
}

TEST(BodyTest, RefusesTheInvalidVectors) {
    for (const VectorRecord& record : read_vectors("bodies_invalid.hex")) {
        EXPECT_TRUE(walk(record.bytes).error) << record.name;
        EXPECT_FALSE(check_body(record.bytes)) << record.name;
    }
}

TEST(BodyTest, EveryTypeIsKnownSkippedOrVoid) {
    for (unsigned type = kFirstFrameType; type < 256; ++type) {
        const Bytes body = {static_cast<uint8_t>(type), 2, 7, 7, 0x40, 0xAA};
        const Walk found = walk(body);
        if (type >= 0x8F && type < kFirstSkippableType) {
            EXPECT_TRUE(found.error) << type;
        } else if (type == static_cast<unsigned>(FrameType::Order)) {
            EXPECT_TRUE(found.error) << "too short";
        } else if (type > 0xA1 && type < kFirstReservedType) {
            ASSERT_EQ(found.items.size(), 2U) << type;
            EXPECT_EQ(std::get<UnknownFrame>(found.items[0]).type, type);
            EXPECT_EQ(std::get<Section>(found.items[1]).content.size(), 1U);
        } else if (type >= kFirstReservedType) {
            EXPECT_TRUE(found.error) << type;
        }
    }
}

TEST(BodyTest, KnownSkippableFramesIgnoreWhatANewerPeerAdds) {
    const Bytes order = {0xA3, 0x08, 0x00, 0x03, 0x01, 0x05, 0x00, 0x07, 0xEE, 0xEE, 0x8C};
    const Walk found = walk(order);
    ASSERT_EQ(found.items.size(), 2U);
    EXPECT_EQ(std::get<Order>(found.items[0]).places[0].number, 7U);
    EXPECT_TRUE(std::holds_alternative<Ping>(found.items[1]));
}

TEST(BodyTest, OnlyABodyOfOneLastSectionIsASingleSection) {
    EXPECT_FALSE(is_single_section({}));
    for (unsigned first = 0; first < 256; ++first) {
        const Bytes body = {static_cast<uint8_t>(first)};
        EXPECT_EQ(is_single_section(body), first >= 0x40 && first < 0x80) << first;
    }
}

TEST(BodyTest, SummaryNamesWhatIsInside) {
    const Bytes body = {0x83, 0x00, 0x05, 0x8C, 0xB0, 0x00, 0x00, 0x01, 0xAA, 0x40, 0xBB};
    const auto summary = check_body(body);
    ASSERT_TRUE(summary);
    EXPECT_TRUE(summary->has(FrameType::Floor));
    EXPECT_TRUE(summary->has(FrameType::Ping));
    EXPECT_FALSE(summary->has(FrameType::Ack));
    EXPECT_FALSE(summary->has(FrameType::Close));
    EXPECT_EQ(summary->skippable_types, uint32_t{1} << 16);
    EXPECT_EQ(summary->sections, 2U);
    EXPECT_FALSE(summary->is_keepalive());
    EXPECT_TRUE(check_body({})->is_keepalive());
}

TEST(BodyTest, AFailedReaderStaysFailed) {
    const Bytes body = {0x9F, 0x40, 0xAA};
    BodyReader reader(body);
    BodyItem item;
    EXPECT_FALSE(reader.next(item));
    EXPECT_FALSE(reader.next(item));
}

TEST(BodyTest, RandomBodiesNeverCrash) {
    std::mt19937 random(20150901);
    for (int round = 0; round < 200000; ++round) {
        Bytes body(random() % 48);
        for (uint8_t& byte : body) {
            byte = static_cast<uint8_t>(random());
        }
        if (!body.empty() && round % 2 == 0) {
            body[0] = static_cast<uint8_t>(0x80 + random() % 15);
        }
        const Walk found = walk(body);
        if (!found.error) {
            bytes_of(found.items);
        }
    }
}

TEST(SectionHeadTest, CostsTheBytesOfTheBudget) {
    const SectionHead raw{SectionMode::Raw, 3, 0};
    const SectionHead zstd{SectionMode::Zstd, 3, 9};
    EXPECT_EQ(raw.size_last(), 1U);
    EXPECT_EQ(zstd.size_last(), 2U);
    EXPECT_EQ(raw.size_sized(127), 2U);
    EXPECT_EQ(raw.size_sized(128), 3U);
    EXPECT_EQ(zstd.size_sized(300), 4U);
}

}  // namespace
}  // namespace continuo::wire
