#include "cnapt/commands/segment_cutter.hpp"
#include "tests/unit/cnapt/commands/capture_file.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace continuo::cnapt::commands {
namespace {

namespace tcp_flag = packet::tcp_flag;

constexpr uint16_t kMss = 1427;

class SegmentCutterTest : public testing::Test {
  protected:
    struct Sent {
        packet::HeaderFields fields;
        std::vector<uint8_t> payload;
        size_t segment = 0;  // 0: one
    };

    packet::HeaderFields fields(uint32_t sequence, uint8_t flags = tcp_flag::kAck) const {
        auto fields = CaptureFile::fields_of(packet::Protocol::Tcp, "198.51.100.2", 80, "10.0.0.2",
                                             40000, flags);
        fields.sequence = sequence;
        fields.has_timestamps = has_timestamps_;
        return fields;
    }
    // The captured payload counts on from `sequence`.
    bool add(uint32_t sequence, size_t bytes, uint8_t flags = tcp_flag::kAck) {
        const auto header = fields(sequence, flags);
        std::vector<uint8_t> packet(header.header_bytes() + bytes);
        for (size_t i = 0; i < bytes; ++i) {
            packet[header.header_bytes() + i] = byte_at(sequence + i);
        }
        packet::write_headers(header, base::ByteView(packet).subspan(header.header_bytes()), false,
                              packet);
        std::vector<PreparedPacket> made;
        const bool is_taken =
            cutter_.add({this, false, *base::IpAddress::parse("100.64.0.2"), kMss}, packet, made);
        take(made);
        return is_taken;
    }
    void take(const std::vector<PreparedPacket>& made) {
        for (const PreparedPacket& one : made) {
            const auto parsed = packet::parse_regular(one.bytes, one.offload);
            ASSERT_TRUE(parsed);
            EXPECT_EQ(parsed->fields.destination.to_string(), "100.64.0.2");
            sent_.push_back({parsed->fields,
                             {parsed->payload.begin(), parsed->payload.end()},
                             one.offload.segment_bytes});
        }
    }
    // Lengths of what was sent, each with the bytes of its place in the stream.
    std::vector<size_t> lengths() const {
        std::vector<size_t> lengths;
        for (const Sent& sent : sent_) {
            lengths.push_back(sent.payload.size());
            for (size_t i = 0; i < sent.payload.size(); ++i) {
                EXPECT_EQ(sent.payload[i], byte_at(sent.fields.sequence + i));
            }
        }
        return lengths;
    }
    static uint8_t byte_at(size_t at) { return static_cast<uint8_t>(at * 7 + at / 251); }

    SegmentCutter cutter_;
    std::vector<Sent> sent_;
    bool has_timestamps_ = false;
};

using Lengths = std::vector<size_t>;

TEST_F(SegmentCutterTest, FullSegmentsBecomeFullOnesOfTheTunnel) {
    for (uint32_t i = 0; i < 10; ++i) {
        EXPECT_TRUE(add(i * 1460, 1460));
    }
    EXPECT_EQ(lengths(), Lengths(10, 1427));
    EXPECT_TRUE(add(14600, 1000, tcp_flag::kAck | tcp_flag::kPsh));
    EXPECT_EQ(lengths().back(), 14600U + 1000 - 14270);
    EXPECT_NE(sent_.back().fields.flags & tcp_flag::kPsh, 0);
    EXPECT_EQ(sent_.front().fields.flags & tcp_flag::kPsh, 0);
}

TEST_F(SegmentCutterTest, WhatADevicePutTogetherIsCut) {
    has_timestamps_ = true;
    EXPECT_TRUE(add(0, 20'000, tcp_flag::kAck | tcp_flag::kPsh));
    EXPECT_EQ(lengths(), Lengths{20'000});
    EXPECT_EQ(sent_[0].segment, kMss - 12U) << "options are not in the MSS";
    EXPECT_TRUE(add(20'000, 65'000));
    const Lengths all = lengths();
    EXPECT_EQ(all[1] % (kMss - 12U), 0U);
    EXPECT_GT(all[1], 60'000U);
    EXPECT_TRUE(cutter_.waiting().size() == 1) << "and the rest waits";
}

TEST_F(SegmentCutterTest, WhatWaitsIsSentBeforeWhatDoesNotFollowIt) {
    EXPECT_TRUE(add(0, 1460));
    EXPECT_EQ(lengths(), Lengths{1427});
    EXPECT_TRUE(add(1460, 0)) << "an ACK changes nothing";
    EXPECT_TRUE(add(5000, 100));
    EXPECT_EQ(lengths(), (Lengths{1427, 0, 33, 100}));
    EXPECT_TRUE(add(0, 1460)) << "again";
    EXPECT_EQ(lengths(), (Lengths{1427, 0, 33, 100, 1427}));
    EXPECT_TRUE(add(1460, 0, tcp_flag::kAck | tcp_flag::kFin));
    EXPECT_EQ(lengths(), (Lengths{1427, 0, 33, 100, 1427, 33, 0}));
    EXPECT_TRUE(cutter_.waiting().empty());
}

TEST_F(SegmentCutterTest, TheRestIsSentAtTheEnd) {
    EXPECT_TRUE(add(UINT32_MAX - 100, 1460)) << "numbers begin anew";
    EXPECT_TRUE(add(1359, 1460));
    ASSERT_EQ(cutter_.waiting().size(), 1U);
    std::vector<PreparedPacket> made;
    cutter_.flush(cutter_.waiting()[0], made);
    ASSERT_EQ(made.size(), 1U);
    EXPECT_EQ(made[0].bytes.size(), 40U + 2 * 1460 - 2 * 1427);
    EXPECT_TRUE(add(0, 1460));
    cutter_.forget(this);
    EXPECT_TRUE(cutter_.waiting().empty());
}

TEST_F(SegmentCutterTest, SmallPacketsAreAsTheyWere) {
    EXPECT_TRUE(add(0, 10));
    EXPECT_TRUE(add(10, 1427));
    EXPECT_EQ(lengths(), (Lengths{10, 1427}));
    EXPECT_TRUE(cutter_.waiting().empty());
}

}  // namespace
}  // namespace continuo::cnapt::commands
