#include "common/session/expected_repeats.hpp"
#include "common/session/split_packet.hpp"

#include <numeric>

#include <gtest/gtest.h>

namespace continuo::session {
namespace {

using base::milliseconds;
using base::seconds;
using base::TimePoint;

class SplitPacketTest : public ::testing::Test {
  protected:
    SplitPacketTest() : packet_(2000) { std::iota(packet_.begin(), packet_.end(), uint8_t{0}); }
    void start(uint16_t id) {
        split_.start(packet_.size() + 100, id, {&flow_, 1, packet_.size(), 1900},
                     [this](base::ByteWriter& writer) { writer.bytes(packet_); });
    }

    flow::Flow flow_;
    std::vector<uint8_t> packet_;
    SplitPacket split_;
};

TEST_F(SplitPacketTest, ItsPiecesAreThePacketAndTheLastOneCountsIt) {
    EXPECT_TRUE(split_.is_empty());
    start(9);
    EXPECT_EQ(split_.flow(), &flow_);
    std::vector<uint8_t> whole;
    for (const size_t bytes : {700U, 700U, 600U}) {
        const wire::Fragment piece = split_.take(700);
        const bool is_last = bytes == 600;
        EXPECT_EQ(piece.id, 9);
        EXPECT_EQ(piece.index, whole.size() / 700);
        EXPECT_EQ(piece.piece.size(), bytes);
        EXPECT_EQ(piece.last, is_last);
        whole.insert(whole.end(), piece.piece.begin(), piece.piece.end());
        const Attribution share = split_.share_of(piece);
        EXPECT_EQ(share.flow, &flow_) << "it pays for each piece";
        EXPECT_EQ(share.packets, is_last ? 1U : 0U);
        EXPECT_EQ(share.inner_bytes, is_last ? packet_.size() : 0U);
    }
    EXPECT_EQ(whole, packet_);
    split_.clear();
    EXPECT_TRUE(split_.is_empty());
    EXPECT_EQ(split_.flow(), nullptr);
}

TEST_F(SplitPacketTest, TheRestOfAPacketIsForgottenWithItsFlow) {
    flow::Flow other;
    start(1);
    split_.take(700);
    split_.forget(other);
    EXPECT_FALSE(split_.is_empty());
    split_.forget(flow_);
    EXPECT_TRUE(split_.is_empty());
    start(2);
    EXPECT_EQ(split_.take(700).index, 0) << "the next packet begins anew";
}

TEST(ExpectedRepeats, AreThoseThatComeSoonAfterTheNodeAskedOrByAnotherPath) {
    ExpectedRepeats repeats;
    const TimePoint asked = TimePoint{} + seconds(100);
    const base::Duration rtt = milliseconds(200);
    EXPECT_FALSE(repeats.has_asked());
    repeats.on_asked(asked);
    EXPECT_TRUE(repeats.has_asked());
    EXPECT_TRUE(repeats.may_be(false, rtt, asked + milliseconds(1400)));
    EXPECT_FALSE(repeats.may_be(false, rtt, asked + milliseconds(1401)));
    EXPECT_TRUE(repeats.may_be(true, rtt, asked + milliseconds(10'400)));
    EXPECT_FALSE(repeats.may_be(true, rtt, asked + milliseconds(10'401)));
}

}  // namespace
}  // namespace continuo::session
