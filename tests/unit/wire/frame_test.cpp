#include "common/wire/ack_ranges.hpp"
#include "common/wire/body.hpp"
#include "common/wire/frame.hpp"
#include "common/wire/limits.hpp"
#include "common/wire/listing.hpp"
#include "tests/unit/wire/vector_file.hpp"

namespace continuo::wire {
namespace {

using base::ByteReader;
using base::ByteWriter;
using base::TrafficClass;
using test::Bytes;

template <typename Frame>
Bytes bytes_of(const Frame& frame) {
    Bytes bytes(frame.size());
    ByteWriter writer(bytes);
    frame.serialize(writer);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(writer.size(), bytes.size());
    return bytes;
}

// One frame of each type with a fixed length or none; every other parser has to refuse it.
template <typename Frame>
void expect_own_type_only(FrameType own) {
    for (unsigned type = 0; type < 256; ++type) {
        Bytes bytes(300, 1);
        bytes[0] = static_cast<uint8_t>(type);
        ByteReader reader(bytes);
        if (type != static_cast<unsigned>(own)) {
            EXPECT_FALSE(Frame::parse(reader)) << type;
        }
    }
}

TEST(FrameTest, EachParserTakesItsOwnTypeOnly) {
    expect_own_type_only<Pad>(FrameType::Pad);
    expect_own_type_only<Ack>(FrameType::Ack);
    expect_own_type_only<Copy>(FrameType::Copy);
    expect_own_type_only<Floor>(FrameType::Floor);
    expect_own_type_only<Generation>(FrameType::Generation);
    expect_own_type_only<Confirm>(FrameType::Confirm);
    expect_own_type_only<Refuse>(FrameType::Refuse);
    expect_own_type_only<Fragment>(FrameType::Fragment);
    expect_own_type_only<Challenge>(FrameType::Challenge);
    expect_own_type_only<Response>(FrameType::Response);
    expect_own_type_only<Announce>(FrameType::Announce);
    expect_own_type_only<Ping>(FrameType::Ping);
    expect_own_type_only<Closed>(FrameType::Closed);
    expect_own_type_only<Caps>(FrameType::Caps);
    expect_own_type_only<Close>(FrameType::Close);
    expect_own_type_only<Order>(FrameType::Order);
}

Bytes ack_bytes(const Ack& head, const std::vector<AckRange>& ranges) {
    Bytes bytes(head.head_bytes() + 600);
    ByteWriter writer(bytes);
    EXPECT_EQ(write_ack(writer, head, ranges), ranges.size());
    bytes.resize(writer.size());
    return bytes;
}

TEST(AckTest, GivesBackWhatWasWritten) {
    for (const uint32_t highest : {uint32_t{0}, uint32_t{1}, kAckReach - 1, kMaxSequence}) {
        Ack head;
        head.space = {TrafficClass::HtLd, 3, 0};
        head.delay = 3125;
        head.interval_ms = 25;
        head.clock = kAckClockModulus - 1;
        head.missing = highest;
        const Bytes bytes = ack_bytes(head, {{highest - std::min(highest, 3U), highest}});
        ByteReader reader(bytes);
        const auto parsed = Ack::parse(reader);
        ASSERT_TRUE(parsed);
        EXPECT_TRUE(reader.at_end());
        EXPECT_EQ(parsed->highest, highest);
        EXPECT_EQ(parsed->delay, head.delay);
        EXPECT_EQ(parsed->clock, head.clock);
        EXPECT_EQ(parsed->missing, head.missing);
        EXPECT_EQ(bytes_of(*parsed), bytes);
    }
}

TEST(AckTest, CostsThirteenBytesInOrderAfterThousandDatagrams) {
    Ack head;
    head.delay = 1000;
    head.interval_ms = 25;
    EXPECT_EQ(ack_bytes(head, {{1000, 1050}}).size(), 13U);
}

TEST(AckTest, NothingIsWrittenWhereNotOneRangeFits) {
    Ack head;
    head.highest = 1000;
    const std::vector<AckRange> ranges = {{1000, 1050}};
    Bytes buffer(head.head_bytes() + 1);
    ByteWriter writer(buffer);
    EXPECT_EQ(write_ack(writer, head, ranges), 0U);
    EXPECT_EQ(writer.size(), 0U);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(write_ack(writer, head, {}), 0U);
}

TEST(AnnounceTest, NumbersAreComparedAsSerialNumbers) {
    EXPECT_TRUE(is_newer_announcement(1, 0));
    EXPECT_TRUE(is_newer_announcement(0, 0xFFFF));
    EXPECT_TRUE(is_newer_announcement(0x7FFF, 0));
    EXPECT_FALSE(is_newer_announcement(0x8000, 0));
    EXPECT_FALSE(is_newer_announcement(5, 5));
    EXPECT_FALSE(is_newer_announcement(4, 5));
}

TEST(AnnounceTest, IgnoresReservedFlagsAndReadsNewKindsAsOther) {
    const Bytes bytes = {0x8A, 2, 200, 0x05, 0xDC, 0xF9, 0, 9};
    ByteReader reader(bytes);
    const auto parsed = Announce::parse(reader);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->kind, UplinkKind::Other);
    EXPECT_TRUE(parsed->active);
    EXPECT_FALSE(parsed->copy_wanted);
    EXPECT_EQ(parsed->number, 9U);
}

TEST(ClosedTest, HoldsAtMostItsLimitAndNoIndexBeyondTheRange) {
    Closed closed;
    EXPECT_FALSE(closed.add(kMaxFlowIndexes));
    for (uint32_t i = 0; i < kMaxClosedFlows; ++i) {
        EXPECT_TRUE(closed.add(kMaxFlowIndexes - 1 - i));
    }
    EXPECT_FALSE(closed.add(1));
    const Bytes bytes = bytes_of(closed);
    ByteReader reader(bytes);
    EXPECT_EQ(*Closed::parse(reader), closed);
}

TEST(CloseTest, CutsLongText) {
    const Bytes text(kMaxCloseTextBytes + 50, 'x');
    const Close close{CloseReason::Limit, text};
    EXPECT_EQ(close.size(), 3 + kMaxCloseTextBytes);
    const Bytes bytes = bytes_of(close);
    ByteReader reader(bytes);
    const auto parsed = Close::parse(reader);
    ASSERT_TRUE(parsed);
    EXPECT_EQ(parsed->text.size(), kMaxCloseTextBytes);
}

TEST(GenerationTest, WritesNothingWhenItsListIsTooLong) {
    const Bytes listing(kMaxGenerationBytes, 0);
    Generation generation;
    generation.slot = 1;
    generation.generation = 1;
    generation.listing = listing;
    Bytes buffer(1000);
    ByteWriter writer(buffer);
    generation.serialize(writer);
    EXPECT_FALSE(writer.ok());
    EXPECT_EQ(writer.size(), 0U);
}

TEST(ListingTest, GivesBackTheRunsInOrder) {
    Bytes buffer(200);
    ByteWriter writer(buffer);
    const Space first{TrafficClass::HtHd, 0, 0};
    const Space second{TrafficClass::HtHd, 3, 2};
    const std::vector<SequenceRun> runs = {{0, 5}, {7, 7}, {1000, 1200}};
    const std::vector<SequenceRun> top = {{kMaxSequence - 1, kMaxSequence}};
    ASSERT_TRUE(write_listed_space(writer, first, runs));
    ASSERT_TRUE(write_listed_space(writer, second, top));
    ListingReader reader(writer.written());
    for (const SequenceRun& run : runs) {
        EXPECT_EQ(*reader.next(), (ListedRun{first, run}));
    }
    EXPECT_EQ(*reader.next(), (ListedRun{second, top[0]}));
    EXPECT_FALSE(*reader.next());
}

TEST(ListingTest, RefusesRunsThatAreNotRisingAndLeavesTheWriterAsItWas) {
    Bytes buffer(20);
    ByteWriter writer(buffer);
    const std::vector<SequenceRun> touching = {{1, 5}, {6, 7}};
    const std::vector<SequenceRun> falling = {{10, 11}, {1, 2}};
    const std::vector<SequenceRun> above = {{1, kMaxSequence + 1}};
    for (const auto& runs : {touching, falling, above, std::vector<SequenceRun>{}}) {
        EXPECT_FALSE(write_listed_space(writer, {}, runs));
        EXPECT_EQ(writer.size(), 0U);
        EXPECT_TRUE(writer.ok());
    }
    const std::vector<SequenceRun> many(200, SequenceRun{1, 1});
    EXPECT_FALSE(write_listed_space(writer, {}, many));
    EXPECT_TRUE(writer.ok());
}

TEST(ListingTest, RefusesNumbersAboveTheLargest) {
    Bytes buffer(40);
    ByteWriter writer(buffer);
    writer.u8(0x30);
    writer.varint(kMaxSequence);
    writer.u8(2);
    writer.varint(0);
    writer.varint(0);
    writer.varint(0);
    ListingReader reader(writer.written());
    EXPECT_TRUE(reader.next());
    EXPECT_FALSE(reader.next());
    EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace continuo::wire
