#include "common/base/bytes.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace continuo::base {
namespace {

using Bytes = std::vector<uint8_t>;

TEST(Bytes, IntegersAreBigEndian) {
    Bytes buffer(18);
    ByteWriter writer(buffer);
    writer.u8(0x01);
    writer.u16(0x0203);
    writer.u24(0x040506);
    writer.u32(0x0708090A);
    writer.u64(0x0B0C0D0E0F101112);
    ASSERT_TRUE(writer.ok());
    EXPECT_EQ(writer.room(), 0U);
    for (size_t i = 0; i < buffer.size(); ++i) {
        EXPECT_EQ(buffer[i], i + 1);
    }
    ByteReader reader(buffer);
    EXPECT_EQ(reader.u8(), 0x01);
    EXPECT_EQ(reader.u16(), 0x0203);
    EXPECT_EQ(reader.u24(), 0x040506U);
    EXPECT_EQ(reader.u32(), 0x0708090AU);
    EXPECT_EQ(reader.u64(), 0x0B0C0D0E0F101112U);
    EXPECT_TRUE(reader.ok() && reader.at_end());
}

TEST(Bytes, FailedReadStaysFailed) {
    const Bytes buffer = {1, 2, 3};
    ByteReader reader(buffer);
    EXPECT_EQ(reader.u32(), 0U);
    EXPECT_FALSE(reader.ok());
    EXPECT_EQ(reader.u8(), 0) << "what was there is not to be had any more";
    EXPECT_EQ(reader.remaining(), 0U);
    EXPECT_TRUE(reader.bytes(0).empty());
    EXPECT_FALSE(reader.ok());
}

TEST(Bytes, ReaderTakesExactlyWhatIsThere) {
    const Bytes buffer = {1, 2, 3};
    ByteReader reader(buffer);
    EXPECT_EQ(reader.bytes(3).size(), 3U);
    EXPECT_TRUE(reader.ok());
    EXPECT_TRUE(reader.bytes(0).empty());
    EXPECT_TRUE(reader.ok());
    EXPECT_TRUE(reader.bytes(1).empty());
    EXPECT_FALSE(reader.ok());
}

TEST(Bytes, WhatDoesNotFitIsNotWritten) {
    Bytes buffer = {9, 9, 9};
    ByteWriter writer(MutableByteView(buffer).first(2));
    writer.u8(1);
    writer.u16(0x0203);
    EXPECT_FALSE(writer.ok());
    EXPECT_EQ(writer.size(), 1U);
    writer.u8(4);
    EXPECT_FALSE(writer.ok()) << "sticky, although it would fit";
    EXPECT_EQ(buffer, (Bytes{1, 9, 9}));
    writer.rewind(1);
    EXPECT_TRUE(writer.ok());
    writer.zeros(1);
    EXPECT_EQ(buffer, (Bytes{1, 0, 9}));
    EXPECT_EQ(writer.written().size(), 2U);
}

TEST(Bytes, ReservedPlaceIsWrittenLater) {
    Bytes buffer(4);
    ByteWriter writer(buffer);
    const MutableByteView length = writer.reserve(1);
    writer.bytes(Bytes{7, 8});
    length[0] = static_cast<uint8_t>(writer.size());
    EXPECT_EQ(buffer, (Bytes{3, 7, 8, 0}));
    EXPECT_TRUE(writer.reserve(2).empty());
    EXPECT_FALSE(writer.ok());
}

struct VarintVector {
    uint64_t value;
    Bytes bytes;
};

TEST(Varint, Vectors) {
    const std::vector<VarintVector> vectors = {
        {0, {0}},
        {1, {1}},
        {127, {0x7F}},
        {128, {0x80, 0x01}},
        {300, {0xAC, 0x02}},
        {16383, {0xFF, 0x7F}},
        {16384, {0x80, 0x80, 0x01}},
        {UINT32_MAX, {0xFF, 0xFF, 0xFF, 0xFF, 0x0F}},
        {UINT64_MAX, {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01}}};
    for (const auto& [value, bytes] : vectors) {
        Bytes buffer(kMaxVarintBytes);
        ByteWriter writer(buffer);
        writer.varint(value);
        EXPECT_EQ(Bytes(writer.written().begin(), writer.written().end()), bytes);
        EXPECT_EQ(varint_bytes(value), bytes.size());
        for (size_t size = 0; size <= bytes.size(); ++size) {
            ByteReader reader(ByteView(bytes).first(size));
            const uint64_t read = reader.varint();
            EXPECT_EQ(reader.ok(), size == bytes.size()) << value << " cut to " << size;
            EXPECT_EQ(read, size == bytes.size() ? value : 0);
        }
    }
}

TEST(Varint, EveryBitLengthRoundTrips) {
    for (int bits = 0; bits < 64; ++bits) {
        for (const uint64_t offset : {uint64_t{0}, ~uint64_t{0}}) {
            const uint64_t value = (uint64_t{1} << bits) + offset;
            Bytes buffer(kMaxVarintBytes);
            ByteWriter writer(buffer);
            writer.varint(value);
            EXPECT_EQ(writer.size(), varint_bytes(value));
            ByteReader reader(writer.written());
            EXPECT_EQ(reader.varint(), value);
            EXPECT_TRUE(reader.ok() && reader.at_end());
        }
    }
}

TEST(Varint, OnlyTheShortestFormIsRead) {
    const std::vector<Bytes> wrong = {
        {0x80, 0x00},                                                        // zero in two bytes
        {0xFF, 0x80, 0x00},                                                  // 127 in three
        {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x02},        // 2^64 and more
        {0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x81, 0x01},  // eleven bytes
    };
    for (const Bytes& bytes : wrong) {
        ByteReader reader(bytes);
        reader.varint();
        EXPECT_FALSE(reader.ok()) << bytes.size();
    }
}

TEST(Varint, DoesNotWriteBeyondTheBuffer) {
    Bytes buffer = {0, 0, 9};
    ByteWriter writer(MutableByteView(buffer).first(2));
    writer.varint(16384);
    EXPECT_FALSE(writer.ok());
    EXPECT_EQ(buffer[2], 9);
}

}  // namespace
}  // namespace continuo::base
