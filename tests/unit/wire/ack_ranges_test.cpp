#include "common/wire/ack_ranges.hpp"

#include <array>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::wire {
namespace {

using Ranges = std::vector<AckRange>;
constexpr AckKind kApplied = AckKind::Applied;
constexpr AckKind kReceived = AckKind::Received;

std::vector<uint8_t> written(const Ranges& ranges, size_t room = 4096) {
    std::vector<uint8_t> bytes(room);
    base::ByteWriter writer(bytes);
    const size_t count = write_ack_ranges(writer, ranges);
    EXPECT_TRUE(writer.ok());
    EXPECT_EQ(count == 0, writer.size() == 0);
    bytes.resize(writer.size());
    return bytes;
}

// Empty when malformed.
Ranges read(const std::vector<uint8_t>& bytes, uint32_t highest) {
    AckRangeReader reader(bytes, highest);
    Ranges ranges;
    while (reader.left() > 0) {
        const auto range = reader.next();
        if (!range) {
            return {};
        }
        ranges.push_back(*range);
    }
    EXPECT_TRUE(reader.rest().empty());
    return ranges;
}

TEST(AckRanges, BytesAreThoseOfTheSpecification) {
    EXPECT_EQ(written({{7, 9, kApplied}}), (std::vector<uint8_t>{1, 4}));
    EXPECT_EQ(written({{7, 9, kReceived}, {5, 6, kApplied}, {1, 1, kApplied}}),
              (std::vector<uint8_t>{3, 5, 0, 2, 3, 0}));
}

TEST(AckRanges, WhatIsWrittenIsRead) {
    std::mt19937 random(3);
    for (int round = 0; round < 2000; ++round) {
        Ranges ranges;
        const uint32_t highest = 4096 + static_cast<uint32_t>(random() % kMaxSequence / 2);
        uint32_t next = highest;
        while (ranges.size() < 255 && highest - next < kAckReach - 40) {
            const uint32_t count = static_cast<uint32_t>(random() % 20);
            ranges.push_back({next - count, next, random() % 4 == 0 ? kReceived : kApplied});
            const uint32_t gap = static_cast<uint32_t>(random() % 10);
            next = ranges.back().first - 1 - gap;
            if (random() % 30 == 0) {
                break;
            }
        }
        for (size_t i = 1; i < ranges.size(); ++i) {
            if (ranges[i].last + 1 == ranges[i - 1].first) {
                ranges[i].kind = ranges[i - 1].kind == kApplied ? kReceived : kApplied;
            }
        }
        ASSERT_EQ(read(written(ranges), highest), ranges);
        // In less room there are fewer, the newest.
        const size_t room = 2 + random() % 40;
        const Ranges some = read(written(ranges, room), highest);
        ASSERT_LE(some.size(), ranges.size());
        ASSERT_TRUE(some.empty() || std::equal(some.begin(), some.end(), ranges.begin()));
    }
}

TEST(AckRanges, WithoutRoomNothingIsWritten) {
    EXPECT_TRUE(written({{7, 9, kApplied}}, 1).empty());
    std::array<uint8_t, 1> nothing{};
    base::ByteWriter writer(base::MutableByteView(nothing).first(0));
    EXPECT_EQ(write_ack_ranges(writer, Ranges{{7, 9, kApplied}}), 0U);
}

TEST(AckRanges, MoreThanAFrameHoldsAreLeftOut) {
    Ranges ranges;
    for (uint32_t i = 0; i < 300; ++i) {
        ranges.push_back({3000 - 2 * i, 3000 - 2 * i, kApplied});
    }
    const Ranges back = read(written(ranges), 3000);
    ASSERT_EQ(back.size(), kMaxAckRanges);
    EXPECT_EQ(back.back(), ranges[254]);
}

TEST(AckRanges, MalformedOnesAreRefused) {
    EXPECT_TRUE(read({}, 9).empty()) << "no count";
    EXPECT_TRUE(read({0}, 9).empty()) << "no range";
    EXPECT_TRUE(read({1}, 9).empty()) << "no length";
    EXPECT_TRUE(read({1, 20}, 9).empty()) << "below 0";
    EXPECT_TRUE(read({2, 2, 9, 0}, 9).empty()) << "a gap below 0";
    EXPECT_TRUE(read({2, 2, 0, 2}, 9).empty()) << "of one kind, and they adjoin";
    EXPECT_FALSE(read({2, 2, 0, 3}, 9).empty());
    EXPECT_TRUE(read({1, 0x80, 0x40}, 100'000).empty()) << "too far back: 4097 numbers";
    EXPECT_FALSE(read({1, 0xFE, 0x3F}, 100'000).empty()) << "4096 numbers";
    EXPECT_TRUE(read({1, 0x82, 0x00}, 100'000).empty()) << "a longer form than is needed";
}

// Whatever comes, the ranges are in order, apart and within reach.
TEST(AckRanges, RandomBytesNeverGiveRangesOutOfOrder) {
    std::mt19937 random(5);
    size_t good = 0;
    for (int round = 0; round < 200'000; ++round) {
        std::vector<uint8_t> bytes(1 + random() % 12);
        for (uint8_t& byte : bytes) {
            byte = static_cast<uint8_t>(random() % 3 == 0 ? random() : random() % 6);
        }
        const auto highest = static_cast<uint32_t>(random() % 10'000);
        AckRangeReader reader(bytes, highest);
        AckRange before{};
        bool is_first = true;
        while (reader.left() > 0) {
            const auto range = reader.next();
            if (!range) {
                break;
            }
            ++good;
            ASSERT_LE(range->first, range->last);
            ASSERT_LT(highest - range->first, kAckReach);
            ASSERT_TRUE(is_first ? range->last == highest : range->last < before.first);
            before = *range;
            is_first = false;
        }
    }
    EXPECT_GT(good, 10'000U);
}

}  // namespace
}  // namespace continuo::wire
