#include "common/io/tcp_progress.hpp"

#include <gtest/gtest.h>

namespace continuo::io {
namespace {

using base::milliseconds;
using base::TimePoint;

constexpr uint32_t kTimeouts = 2;

TcpProgress received(uint64_t bytes, bool has_gap) {
    TcpProgress progress;
    progress.timeout = milliseconds(200);
    progress.received_bytes = bytes;
    progress.has_gap = has_gap;
    return progress;
}

TcpProgress sent(uint64_t acknowledged_bytes, bool is_owed) {
    TcpProgress progress;
    progress.timeout = milliseconds(200);
    progress.acknowledged_bytes = acknowledged_bytes;
    progress.is_owed = is_owed;
    return progress;
}

TEST(TcpStall, BytesThatBothTimeoutsDoNotGetThroughAreAStall) {
    TcpStall stall;
    const TimePoint now{base::seconds(1)};
    EXPECT_FALSE(stall.is_stuck(sent(1000, true), kTimeouts, now));
    EXPECT_FALSE(stall.is_stuck(sent(1000, true), kTimeouts, now + milliseconds(599)));
    EXPECT_TRUE(stall.is_stuck(sent(1000, true), kTimeouts, now + milliseconds(600)));
    EXPECT_FALSE(stall.is_stuck(sent(2000, true), kTimeouts, now + milliseconds(700)));
    EXPECT_TRUE(stall.is_stuck(sent(2000, true), kTimeouts, now + milliseconds(1300)));
}

TEST(TcpStall, NothingIsStuckWhileNothingIsOwed) {
    TcpStall stall;
    const TimePoint now{base::seconds(1)};
    EXPECT_FALSE(stall.is_stuck(sent(1000, false), kTimeouts, now));
    EXPECT_FALSE(stall.is_stuck(sent(1000, false), kTimeouts, now + base::seconds(100)));
    EXPECT_FALSE(stall.is_stuck(sent(1000, true), kTimeouts, now + base::seconds(101)));
}

// 200 ms and 400 ms: the other end's time-outs.
TEST(TcpStall, AGapThatLastsForBothTimeoutsIsAStall) {
    TcpStall stall;
    const TimePoint now{base::seconds(1)};
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now));
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(599)));
    EXPECT_TRUE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(600)));
    EXPECT_FALSE(stall.is_stuck(received(3000, true), kTimeouts, now + milliseconds(700)));
}

TEST(TcpStall, AGapCountsFromItsBeginning) {
    TcpStall stall;
    const TimePoint now{base::seconds(1)};
    // Nothing came between the last look without a gap and the first one with it.
    EXPECT_FALSE(stall.is_stuck(received(1000, false), kTimeouts, now));
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(100)));
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(699)));
    EXPECT_TRUE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(700)));
}

TEST(TcpStall, AGapThatIsFilledIsForgotten) {
    TcpStall stall;
    const TimePoint now{base::seconds(1)};
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now));
    EXPECT_FALSE(stall.is_stuck(received(1000, false), kTimeouts, now + milliseconds(500)));
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(600)));
    EXPECT_FALSE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(1100)));
    EXPECT_TRUE(stall.is_stuck(received(1000, true), kTimeouts, now + milliseconds(1200)));
}

}  // namespace
}  // namespace continuo::io
